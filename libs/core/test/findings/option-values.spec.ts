import { describe, expect, it } from '@jest/globals';
import {
  calledTool,
  ConfigurationError,
  InvalidRequestError,
  type LoopRequest,
  subRunTool,
  ToolLoopModule,
} from '@toolloop/core';
import type { StepChange } from '@toolloop/core/contracts';
import { unlock } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { SilentModel, findingsOf } from '../tools/application.js';
import { ProbeTools } from '../fixtures/probe.tools.js';
import { play } from '../fixtures/played-run.js';
import { CrmTools } from '../fixtures/shop.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/** As a JavaScript user would write it. */
const wrong = (option: unknown): never => option as never;
const providers = [CrmTools, ProbeTools];
const lines = (findings: Awaited<ReturnType<typeof findingsOf>>): string[] =>
  findings.map(({ at, problem }) => `${at}: ${problem}`);

const ofApplication = async (options: object) => lines(await findingsOf({ providers, options }));
const ofLoop = async (profile: unknown) =>
  lines(
    await findingsOf({
      providers,
      imports: [ToolLoopModule.forFeature({ loops: { support: wrong(profile) } })],
    }),
  );
const ofSubRun = async (declaration: object) => {
  const tools = [
    subRunTool(
      wrong({ id: 'research', description: 'Finds out.', tools: ['probe__*'], ...declaration }),
    ),
  ];
  return lines(await findingsOf({ providers, options: { tools } }));
};

/** What a loop, a sub-run and a request all take. */
const VALUES: readonly [string, object, string][] = [
  ['history', { history: 5 }, 'The option "history" is 5.'],
  ['prepareStep', { prepareStep: 5 }, 'The option "prepareStep" is 5.'],
  ['keepToolChoice', { keepToolChoice: 'yes' }, 'The option "keepToolChoice" is "yes".'],
  ['instructions', { instructions: 5 }, 'The option "instructions" is 5.'],
  ['limits', { limits: 5 }, 'The option "limits" is 5.'],
  ['tools', { tools: 'probe__*' }, 'The option "tools" is "probe__*".'],
  ['a selector', { exclude: [{}] }, 'The option "exclude" is a list.'],
  ['a model option', { modelOptions: { temprature: 1 } }, 'There is no option "temprature".'],
  [
    'the value of a model option',
    { modelOptions: { maxOutputTokens: NaN } },
    'The option "maxOutputTokens" is NaN.',
  ],
  ['modelOptions', { modelOptions: 'hot' }, 'The option "modelOptions" is "hot".'],
  ['stopWhen', { stopWhen: { steps: 1 } }, 'A stop condition is not a function.'],
  [
    'what a stop condition waits for',
    { stopWhen: calledTool('probe__raed') },
    'No tool is named "probe__raed".',
  ],
];

describe('an option whose value cannot be', () => {
  it.each(VALUES)('is a finding of a loop: %s', async (_, option, problem) => {
    const problems = await ofLoop(option);
    expect(problems.join('\n')).toContain(problem);
    expect(problems.join('\n')).toContain('loop "support"');
  });

  it.each(VALUES)('is a finding of a sub-run: %s', async (_, option, problem) => {
    const problems = await ofSubRun(option);
    expect(problems.join('\n')).toContain(problem);
    expect(problems.join('\n')).toContain('sub-run research');
  });

  it.each([
    ...VALUES,
    ['injection', { injection: [{}] }, 'The option "injection" is a list.'],
    ['output', { output: {} }, '"output" is an object.'],
  ])('is refused at once in a request: %s', async (_, option, problem) => {
    const loop = await openShop(new ScriptedModel([]));
    const request = { ...ask(), ...option } as LoopRequest;
    expect(() => loop.open(request)).toThrow(ConfigurationError);
    expect(() => loop.open(request)).toThrow(problem);
  });

  it.each<[string, object, string]>([
    ['an injection strategy', { injection: [{}] }, 'The option "injection" is a list.'],
    [
      'strategies that are no list',
      { injection: unlock({ after: 'probe__read', tools: ['probe__write'] }) },
      '"injection" is an object.',
    ],
    ['prepareStep', { prepareStep: 5 }, 'The option "prepareStep" is 5.'],
    ['history', { history: 5 }, 'The option "history" is 5.'],
    ['stopWhen', { stopWhen: [calledTool('x')] }, 'No tool is named "x".'],
    ['raw tools', { tools: 'probe__*' }, 'There is "probe__*" among them.'],
    ['a raw tool', { tools: [ProbeTools] }, 'There is a function among them.'],
  ])('is a finding of the application: %s', async (_, option, problem) => {
    expect((await ofApplication(option)).join('\n')).toContain(problem);
  });

  it('is told with everything else that is wrong', async () => {
    const problems = await ofLoop({
      history: 5,
      limits: { step: 1 },
      tools: ['probe__raed'],
      stopWhen: [calledTool('x'), 7],
      injection: [{}],
    });
    expect(problems).toHaveLength(6);
  });

  it.each([null, 5])('is a finding for a loop that is %s', async (profile) => {
    expect(await ofLoop(profile)).toEqual([`loop "support": It is ${profile}.`]);
  });

  it('is refused in a list of tools', async () => {
    const loop = await openShop(new ScriptedModel([]));
    await expect((async () => loop.list({ ...ask(), tools: wrong('probe__*') }))()).rejects.toThrow(
      ConfigurationError,
    );
  });
});

describe('a sub-run', () => {
  it.each([-5, 0, NaN, '10', 1.5])(
    'is a finding when its summary has %p bytes',
    async (summaryBytes) => {
      expect((await ofSubRun({ summaryBytes })).join()).toContain('The option "summaryBytes" is');
    },
  );

  it.each<[string, object, string]>([
    ['no tools', { tools: undefined }, 'sub-run research: It has no "tools".'],
    [
      'an output that is no class',
      { output: {} },
      'sub-run research: The option "output" is an object.',
    ],
    [
      'a prompt that is not a function',
      { input: { type: 'object' }, prompt: 'Go.' },
      'sub-run research: The option "prompt" is "Go.".',
    ],
  ])('is a finding with %s', async (_, declaration, problem) => {
    expect(await ofSubRun(declaration)).toContain(problem);
  });
});

describe('a stop condition', () => {
  it.each([
    'probe__read',
    'read',
    'probe__*',
    'customer_c-1_getAverageSpend',
    'customer_*_getAverageSpend',
    'tools__search',
  ])('may wait for %s', async (name) => {
    const stopWhen = calledTool(name);
    const loop = await openShop(new ScriptedModel([text('Done.')]), { stopWhen });
    expect((await loop.run(ask({ stopWhen }))).finishReason).toBe('stop');
  });

  it.each(['customer_c-1_getAverageSpent', 'custmer_c-1_getAverageSpend', 'customer_', 'raed'])(
    'may not wait for %s',
    async (name) => {
      const loop = await openShop(new ScriptedModel([]));
      expect(() => loop.open(ask({ stopWhen: calledTool(name) }))).toThrow(ConfigurationError);
    },
  );
});

describe('what prepareStep returns', () => {
  it.each<[unknown, string]>([
    [{ modelOptions: { temprature: 0 } }, 'Did you mean "temperature"?'],
    [{ tools: [5] }, 'The option "tools" is a list.'],
    [{ model: 5 }, 'The option "model" is 5.'],
    [{ instructions: 5 }, 'The option "instructions" is 5.'],
    [
      { tools: ['customer_c-1_getAverageSpent'] },
      'No tool is named "customer_c-1_getAverageSpent"',
    ],
  ])('cannot be %j', async (change, message) => {
    const { result } = await play(
      await openShop(new ScriptedModel([])),
      ask({ prepareStep: () => change as StepChange }),
    );
    expect(result).toMatchObject({
      finishReason: 'error',
      error: { code: 'invalid_step', message: expect.stringContaining(message) },
    });
  });

  it('may be a tool of an instance that is not there', async () => {
    const model = new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]);
    const change = { tools: ['probe__read', 'customer_c-7_getAverageSpend'] };
    const { result } = await play(await openShop(model), ask({ prepareStep: () => change }));
    expect(result.finishReason).toBe('stop');
  });
});

describe('an input', () => {
  it.each([5, undefined, null, {}])('is refused when it is %p', async (message) => {
    const handle = (await openShop(new SilentModel())).open(ask());
    expect(() => handle.addInput(wrong(message))).toThrow(InvalidRequestError);
    expect(() => handle.addInput(wrong(message))).toThrow('The message is empty, or not a string.');
  });
});
