import { describe, expect, it } from '@jest/globals';
import {
  InvalidRequestError,
  type LoopRequest,
  type Message,
  type PrepareStep,
  RunError,
} from '@toolloop/core';
import type { StepChange, UpcomingStep } from '@toolloop/core/contracts';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { expectSound, play, resultOf } from '../fixtures/played-run.js';
import { ProbeTools } from '../fixtures/probe.tools.js';
import { Customer } from '../fixtures/shop.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const read = (key: string) => calls(call('probe__read', { key }));
const find = (key: string) => calls(call('probe__customer', { key }));
const act = (key: string) => new Customer(key, key);

/** The requests of a run in which some steps, by their number, are changed. */
async function requestsOf(
  script: readonly ScriptedTurn[],
  changes: Readonly<Record<number, StepChange>>,
  request: Partial<LoopRequest> = {},
) {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(
    await openShop(model),
    ask({ prepareStep: ({ step }) => changes[step], ...request }),
  );
  model.assertComplete();
  return { ...played, requests: model.requests };
}

const withoutFirstStep: PrepareStep = ({ messages }) => ({
  messages: messages.filter((_, index) => index === 0 || index > 2),
});

/** Why a run failed. */
async function causeOf(
  request: Partial<LoopRequest>,
  script: readonly ScriptedTurn[] = [text('Done.')],
): Promise<unknown> {
  const loop = await openShop(new ScriptedModel(script));
  const { result } = await play(loop, ask(request));
  expect(result).toMatchObject({
    finishReason: 'error',
    error: { code: 'invalid_step', message: expect.stringContaining('The step cannot be taken. ') },
  });
  const error: unknown = await loop
    .run(ask({ ...request, model: new ScriptedModel(script) }))
    .catch((thrown: unknown) => thrown);
  return error instanceof RunError ? error.cause : error;
}

describe('a step that is prepared', () => {
  it('is seen as it will be', async () => {
    const seen: UpcomingStep[] = [];
    const model = new ScriptedModel([read('a'), text('Done.')]);
    const loop = await openShop(model);
    await play(
      loop,
      ask({
        context: { shop: 1 },
        prepareStep: (step) => {
          seen.push(step);
          return undefined;
        },
      }),
    );
    expect(seen).toMatchObject([
      {
        step: 1,
        toolCalls: [],
        usage: { inputTokens: 0 },
        run: { tenant: 'acme', actor: { id: 'alice' }, context: { shop: 1 } },
      },
      { step: 2, toolCalls: [{ id: 'probe__read', result: 'a' }], usage: { inputTokens: 10 } },
    ]);
    seen.forEach(({ messages, tools }, index) => {
      expect(messages).toEqual(model.requests[index]?.originalMessages);
      expect(tools).toBe(model.requests[index]?.tools);
    });
  });

  it('is what it would be anyway, where nothing is changed', async () => {
    const { requests } = await requestsOf(
      [read('a')],
      { 2: {} },
      { instructions: 'Be kind.', modelOptions: { seed: 1 } },
    );
    expect(
      requests.map(({ instructions, options, toolIds }) => [instructions, options, toolIds.length]),
    ).toEqual([
      ['Be kind.', { seed: 1 }, 11],
      ['Be kind.', { seed: 1 }, 11],
    ]);
    expect(requests[1]?.tools).toBe(requests[0]?.tools);
  });

  it.each<[string, StepChange, object]>([
    ['instructions', { instructions: 'Be brief.' }, { instructions: 'Be brief.' }],
    ['modelOptions', { modelOptions: { temperature: 0 } }, { options: { temperature: 0 } }],
    ['toolChoice', { toolChoice: 'none' }, { toolChoice: 'none' }],
    [
      'a forced tool',
      { toolChoice: { tool: 'probe__write' } },
      { toolChoice: { tool: 'probe__write' } },
    ],
    [
      'tools',
      { tools: ['probe__read', 'sendMail'] },
      { toolIds: ['crm__sendMail', 'probe__read'] },
    ],
  ])('has other %s, and the next has not', async (_, change, expected) => {
    const { requests } = await requestsOf(
      [read('a'), read('b')],
      { 2: change },
      { instructions: 'Be kind.' },
    );
    expect(requests[1]).toMatchObject(expected);
    expect(requests[0]).not.toMatchObject(expected);
    expect(requests[2]).not.toMatchObject(expected);
  });

  it('has another model, an object or a name', async () => {
    const [first, second, third] = [[read('a')], [read('b')], [text('Done.')]].map(
      (script) => new ScriptedModel(script),
    );
    const loop = await openShop(first ?? new ScriptedModel([]), {
      models: { small: third ?? new ScriptedModel([]) },
    });
    const { result } = await play(
      loop,
      ask({ prepareStep: ({ step }) => [{}, {}, { model: second }, { model: 'small' }][step] }),
    );
    expect(result.text).toBe('Done.');
    for (const model of [first, second, third]) model?.assertComplete();
  });

  it('has other messages, and the transcript stays whole', async () => {
    const messages: Message[] = [{ role: 'user', content: 'Say hello.' }];
    const { requests, result } = await requestsOf([read('a')], { 2: { messages } });
    expect(requests[1]?.originalMessages[0]).toBe(messages[0]);
    expect(requests[1]?.messages).toHaveLength(1);
    expect(result.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
    ]);
  });

  it('may be sent the very messages of the transcript, some of them left out', async () => {
    const { requests } = await requestsOf(
      [read('a'), read('b')],
      {},
      { prepareStep: withoutFirstStep, limits: { resultBytes: 1 } },
    );
    const [, , third] = requests;
    expect(third?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool']);
    expect(third?.originalMessages[0]).toBe(requests[0]?.originalMessages[0]);
  });

  it("keeps the request's toolChoice in the first step only", async () => {
    const { requests } = await requestsOf([read('a')], {}, { toolChoice: 'required' });
    expect(requests.map(({ toolChoice }) => toolChoice)).toEqual(['required', undefined]);
  });

  it('is prepared by the application unless the request says otherwise', async () => {
    const model = new ScriptedModel([text('A'), text('B')]);
    const loop = await openShop(model, { prepareStep: () => ({ instructions: 'application' }) });
    await play(loop, ask());
    await play(loop, ask({ prepareStep: () => Promise.resolve({ instructions: 'request' }) }));
    expect(model.requests.map(({ instructions }) => instructions)).toEqual([
      'application',
      'request',
    ]);
  });
});

describe('the tools of a prepared step', () => {
  it.each<[string, StepChange['tools'], string[]]>([
    ['ids', ['probe__write'], ['probe__write']],
    ['a glob', ['crm__*'], ['crm__searchCustomers', 'crm__openCart', 'crm__sendMail']],
    [
      'a predicate',
      [({ effect }) => effect === 'external_side_effect'],
      ['crm__sendMail', 'probe__send'],
    ],
    ['nothing', [], []],
    ['the id of an entity tool', ['customer_a_getAverageSpend'], ['customer_a_getAverageSpend']],
    [
      'a glob of entity tools',
      ['customer_*_*'],
      ['customer_a_getAverageSpend', 'customer_a_getRecentOrders'],
    ],
    [
      'the class of an entity',
      [Customer],
      ['customer_a_getAverageSpend', 'customer_a_getRecentOrders'],
    ],
    ['the id of an entity tool that is not there', ['customer_b_getAverageSpend'], []],
  ])('are narrowed by %s', async (_, tools, expected) => {
    const { requests } = await requestsOf([find('a')], { 2: { tools } }, { context: { act } });
    expect(requests[1]?.toolIds).toEqual(expected);
  });

  it('are narrowed by a class', async () => {
    const { requests } = await requestsOf([], { 1: { tools: [ProbeTools] } });
    expect(requests[0]?.toolIds.every((id) => id.startsWith('probe__'))).toBe(true);
    expect(requests[0]?.toolIds).toHaveLength(8);
  });

  it('are never more than the run has', async () => {
    const { requests } = await requestsOf(
      [],
      { 1: { tools: ['probe__read', 'crm__sendMail'] } },
      { exclude: ['crm__sendMail'] },
    );
    expect(requests[0]?.toolIds).toEqual(['probe__read']);
  });

  it('are all that a hostile model can call: the rest reads like a tool that does not exist', async () => {
    const done: string[] = [];
    const script = [
      calls(call('probe__write', { key: 'b' }), call('probe__wrote', { key: 'b' })),
      calls(call('probe__write', { key: 'c' })),
    ];
    const { result, events } = await requestsOf(
      script,
      { 1: { tools: ['probe__read'] } },
      { context: { act: (key: string) => done.push(key) } },
    );
    const [narrowed, unknown, later] = result.toolCalls;
    expect(narrowed).toMatchObject({ status: unknown?.status, error: { code: 'unknown_tool' } });
    expect(narrowed?.error?.safeMessage).toBe(
      unknown?.error?.safeMessage.replace('wrote', 'write'),
    );
    expect(narrowed?.effect).toBeUndefined();
    expect(later).toMatchObject({ status: 'succeeded' });
    expect(done).toEqual(['c']);
    expect(eventsOf(events, 'tool-start')).toHaveLength(1);
    expect(eventsOf(events, 'tool-call-delta').filter(({ step }) => step === 1)).toEqual([]);
  });

  it('are injected into the whole toolset all the same', async () => {
    const { requests } = await requestsOf(
      [find('a'), read('x')],
      { 1: { tools: ['customer'] }, 2: { tools: ['read'] } },
      { context: { act } },
    );
    expect(requests.map(({ toolIds }) => toolIds.length)).toEqual([1, 1, 13]);
  });

  it('are the very same array whenever they are narrowed alike, whatever else comes and goes', async () => {
    const only = { tools: ['probe__*'] };
    const { requests } = await requestsOf(
      [read('x'), find('a'), find('a'), find('b')],
      { 1: only, 2: only, 4: only, 5: only },
      { context: { act } },
    );
    const [one, two, whole, four, five] = requests.map(({ tools }) => tools);
    expect(whole).not.toBe(one);
    for (const tools of [two, four, five]) expect(tools).toBe(one);
  });

  it('are the very array of the run where all are chosen', async () => {
    const { requests } = await requestsOf([read('x')], { 2: { tools: ['*'] } });
    expect(requests[1]?.tools).toBe(requests[0]?.tools);
  });

  it('are told to `onIteration` as the model saw them', async () => {
    const seen: (readonly string[])[] = [];
    await requestsOf(
      [find('a')],
      { 1: { tools: ['customer'] } },
      { context: { act }, hooks: { onIteration: ({ tools }) => void seen.push(tools) } },
    );
    expect(seen.map((tools) => tools.length)).toEqual([1, 13]);
  });
});

class Toolless {
  readonly tools = [];
}

describe('a preparation that cannot be', () => {
  it.each<[string, StepChange, string]>([
    [
      'a forced tool that was narrowed away',
      { tools: ['probe__read'], toolChoice: { tool: 'probe__write' } },
      'toolChoice forces "probe__write", which is not',
    ],
    [
      'a forced tool that does not exist',
      { toolChoice: { tool: 'probe__raed' } },
      'toolChoice forces "probe__raed", which is not',
    ],
    ['a selector that names nothing', { tools: ['probe__raed'] }, 'Did you mean "probe__read"'],
    ['a class that has no tools', { tools: [Toolless] }, 'There is no tool of the class Toolless'],
    ['a model that is not named', { model: 'small' }, 'No model is named "small"'],
    ['messages without one of the user', { messages: [] }, 'no user message'],
    [
      'an orphan result',
      {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'tool', toolCallId: 'x', toolName: 'y', content: '' },
        ],
      },
      'no open call "x"',
    ],
    [
      'a call without its result',
      {
        messages: [
          { role: 'user', content: 'a' },
          {
            role: 'assistant',
            content: '',
            toolCalls: [{ toolCallId: 'x', name: 'y', arguments: '{}' }],
          },
        ],
      },
      'has no result',
    ],
  ])('ends the run for %s, and the cause says so', async (_, change, message) => {
    const cause = await causeOf({ prepareStep: () => change });
    expect(cause).toBeInstanceOf(InvalidRequestError);
    expect(String(cause)).toContain(message);
  });

  it("ends the run, too, for the request's forced tool that is missing in the step", async () => {
    expect(
      String(await causeOf({ toolChoice: { tool: 'probe__read' }, tools: ['crm__*'] })),
    ).toContain('toolChoice forces "probe__read"');
  });

  it.each([
    [{ tols: ['probe__read'] }, 'Did you mean "tools"?'],
    [{ toolChoice: 'requird' }, 'Did you mean "required"?'],
    [{ tools: 'probe__read' }, 'The option "tools" is "probe__read". Give a list'],
    [['probe__read'], 'returned no object'],
    ['small', 'returned no object'],
  ])('ends the run for %j, and its error says what to write', async (change, message) => {
    const { result } = await play(
      await openShop(new ScriptedModel([])),
      ask({ prepareStep: () => change as StepChange }),
    );
    expect(result).toMatchObject({
      finishReason: 'error',
      error: { code: 'invalid_step', message: expect.stringContaining(message) },
    });
  });

  it('says what is wrong to the reader of the run, and what there is to the developer', async () => {
    const loop = await openShop(new ScriptedModel([]));
    const { result } = await play(loop, ask({ prepareStep: () => ({ tools: ['probe__raed'] }) }));
    expect(result.error?.message).toBe('The step cannot be taken. No tool is named "probe__raed".');
  });

  it.each<[string, PrepareStep]>([
    [
      'throws',
      () => {
        throw new Error('secret');
      },
    ],
    ['rejects', () => Promise.reject(new Error('secret'))],
  ])('ends the run when it %s, and reveals no reason', async (_, prepareStep) => {
    const loop = await openShop(new ScriptedModel([]));
    const { events, result } = await play(loop, ask({ prepareStep }));
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
    expect(JSON.stringify([events, result])).not.toContain('secret');
  });

  it('loses nothing of what was done before', async () => {
    const loop = await openShop(new ScriptedModel([read('a')]));
    const { result } = await play(
      loop,
      ask({
        prepareStep: ({ step }) => {
          if (step === 2) throw new Error('no');
          return undefined;
        },
      }),
    );
    expect(result).toMatchObject({
      finishReason: 'error',
      steps: 2,
      usage: { inputTokens: 10 },
      toolCalls: [{ status: 'succeeded' }],
    });
    expect(result.messages).toHaveLength(3);
  });

  it('is left behind by an aborted run when it hangs (invariant 11)', async () => {
    const controller = new AbortController();
    const signals: AbortSignal[] = [];
    const prepareStep: PrepareStep = ({ signal }) => {
      signals.push(signal);
      setTimeout(() => controller.abort(), 5);
      return new Promise(() => undefined);
    };
    const handle = (await openShop(new ScriptedModel([]))).open(
      ask({ prepareStep, signal: controller.signal }),
    );
    const events = await collect(handle.events$);
    const result = await resultOf(handle);
    expectSound({ events, result });
    expect(result.finishReason).toBe('aborted');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });
});

describe('the preparations of two tenants at once', () => {
  it('see their own run alone (invariant 9)', async () => {
    const loop = await openShop(new ScriptedModel([]), {
      prepareStep: async ({ run, messages, toolCalls }) => {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
        return {
          instructions: `${run.tenant} ${JSON.stringify([messages, toolCalls])}`,
          tools: run.tenant === 'acme' ? ['probe__read'] : ['probe__write'],
        };
      },
    });
    const models = ['acme', 'globex'].flatMap((tenant) =>
      Array.from({ length: 20 }, (_, index) => ({
        tenant,
        model: new ScriptedModel([
          ...Array.from({ length: 3 }, () => read(`${tenant}-${index}`)).slice(0, 2),
          text('Done.'),
        ]),
      })),
    );
    await Promise.all(
      models.map(({ tenant, model }) => play(loop, ask({ tenant, prompt: `of ${tenant}`, model }))),
    );
    for (const { tenant, model } of models) {
      const other = tenant === 'acme' ? 'globex' : 'acme';
      expect(
        model.requests.map(({ instructions, toolIds }) => [instructions?.split(' ')[0], toolIds]),
      ).toEqual(
        Array.from({ length: 3 }, () => [
          tenant,
          [tenant === 'acme' ? 'probe__read' : 'probe__write'],
        ]),
      );
      expect(JSON.stringify(model.requests)).not.toContain(other);
    }
  });
});
