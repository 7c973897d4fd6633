import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { LlmTool, ToolError, ToolProvider } from '@toolloop/core';
import type { LoopEventBody } from '@toolloop/protocol';
import { Toolset } from '../../src/catalog/toolset.js';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf } from './bench.js';

const echo = toolOf({ id: 'echo', effect: 'state_change', invoke: (input) => input });
const fails = toolOf({
  id: 'fails',
  invoke: () => {
    throw new ToolError('Out of paper.');
  },
});
const talks = toolOf({
  id: 'talks',
  invoke: (_, context) => {
    context.progress(1);
    return 'done';
  },
});
const tools = [echo, fails, talks];

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', reveal: 'all' }) search(): string {
    return 'found';
  }
}

const policies = [{ allow: ['echo', 'fails', 'talks'] }];

/** The id of the call an event is about. */
function callIdOf(event: LoopEventBody): unknown {
  return event.type === 'tool-result'
    ? event.record.toolCallId
    : 'toolCallId' in event && event.toolCallId;
}

describe('invariant 1: ToolRunner.exec', () => {
  it('invariant 1: is the only place from which the method of a tool is called', () => {
    const roots = globSync('libs/*/src');
    const callers = [...roots, 'src'].flatMap((root) =>
      readdirSync(root, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => join(root, file))
        .filter((file) => /\.invoke\(|\['invoke'\]|'invoke'/.test(readFileSync(file, 'utf8'))),
    );
    // makes a tool of another, which is called when it is itself
    const wrapping = 'libs/core/src/plugins/sources/source-admission.ts';
    expect(callers.toSorted()).toEqual([
      'libs/core/src/call/perform.ts',
      'libs/core/src/call/tool-method.ts',
      wrapping,
    ]);
  });

  it('invariant 1: executes what is in the toolset of the run, and nothing else of the catalog', async () => {
    const bench = await Bench.start({ providers: [CrmTools] });
    expect((await bench.run().exec('crm__search')).content).toBe('found');
    const run = bench.run({ toolset: Toolset.of([talks]), policies: [{ allow: ['*', 'talks'] }] });
    const { record } = await run.exec('crm__search');
    expect(record).toMatchObject({ status: 'failed', error: { code: 'unknown_tool' } });
    expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-result']);
  });
});

describe('invariant 6: a call', () => {
  it.each(['echo', 'fails', 'talks', 'missing'])(
    'invariant 6: keeps its id in every event and in the record: %s',
    async (name) => {
      const run = (await Bench.start()).run({ tools, policies });
      const { record } = await run.exec(name);
      expect(run.events.map(callIdOf)).toEqual(run.events.map(() => 'call_1'));
      expect(record.toolCallId).toBe('call_1');
    },
  );

  it('invariant 6: is executed with what the assembled record says, each with its own', async () => {
    const run = (await Bench.start()).run({ tools, policies });
    const outcomes = await Promise.all([run.exec('echo', { n: 1 }), run.exec('echo', { n: 2 })]);
    expect(outcomes.map(({ record, content }) => [record.toolCallId, content])).toEqual([
      ['call_1', '{"n":1}'],
      ['call_2', '{"n":2}'],
    ]);
  });
});

describe('the events of a call', () => {
  it.each([
    ['talks', ['tool-call', 'tool-start', 'tool-progress', 'tool-result']],
    ['fails', ['tool-call', 'tool-start', 'tool-result']],
    ['missing', ['tool-call', 'tool-result']],
  ])('come in order: %s', async (name, types) => {
    const run = (await Bench.start()).run({ tools, policies });
    await run.exec(name);
    expect(run.events.map(({ type }) => type)).toEqual(types);
  });

  it('say what was called, with what, under which decision, and what came of it', async () => {
    const run = (await Bench.start()).run({ tools, policies });
    await run.exec('echo', { n: 1 });
    const decision = {
      kind: 'allow',
      rule: 'allow: echo',
      reason: 'The policy allows this tool.',
      policyVersion: expect.stringMatching(/^sha256:/),
    };
    expect(run.events).toEqual([
      { type: 'tool-call', step: 1, toolCallId: 'call_1', tool: 'echo', args: { n: 1 } },
      {
        type: 'tool-start',
        step: 1,
        toolCallId: 'call_1',
        tool: 'echo',
        effect: 'state_change',
        decision,
      },
      {
        type: 'tool-result',
        step: 1,
        record: {
          toolCallId: 'call_1',
          id: 'echo',
          declaredId: 'echo',
          effect: 'state_change',
          step: 1,
          index: 0,
          args: { n: 1 },
          status: 'succeeded',
          result: { n: 1 },
          resultBytes: 7,
          decision,
          attempt: 1,
          startedAt: expect.any(Date),
          endedAt: expect.any(Date),
          durationMs: expect.any(Number),
        },
        isOfOthers: true,
      },
    ]);
  });

  it('tell a call that the loop refused, which starts nothing', async () => {
    const run = (await Bench.start()).run({ tools, policies });
    const outcome = await run.exec(
      'echo',
      {},
      { refusal: { code: 'budget_exceeded', safeMessage: 'Enough.' } },
    );
    expect(errorOf(outcome)).toEqual({
      status: '500',
      code: 'budget_exceeded',
      title: 'Limit reached',
      detail: 'Enough.',
    });
    expect(run.events.map(({ type }) => type)).toEqual(['tool-call', 'tool-result']);
  });
});

describe('looking a tool up', () => {
  it('answers a wrong name with the closest of those the run may use', async () => {
    const run = (await Bench.start()).run({ tools, policies: [{ allow: ['echo', 'talks'] }] });
    expect(errorOf(await run.exec('ecko')).detail).toBe(
      'No tool is named "ecko". Did you mean "echo"?',
    );
    expect(errorOf(await run.exec('fail')).detail).toBe(
      'No tool is named "fail". Use one of the tools you were given.',
    );
    expect(errorOf(await run.exec('weather_report')).detail).toBe(
      'No tool is named "weather_report". Use one of the tools you were given.',
    );
  });

  it.each(['', '__proto__', 'constructor', 'toString', 'ECHO', 'echo '])(
    'finds no tool named %j',
    async (name) => {
      const run = (await Bench.start()).run({ tools, policies });
      const { record } = await run.exec(name);
      expect(record).toMatchObject({ id: name, status: 'failed', error: { code: 'unknown_tool' } });
      expect(record.declaredId).toBeUndefined();
    },
  );

  it('repeats a name of any length no further than needed', async () => {
    const run = (await Bench.start()).run({ tools, policies });
    const outcome = await run.exec('x'.repeat(1_000_000));
    expect(errorOf(outcome).detail).toBe(
      `No tool is named "${'x'.repeat(64)}". Use one of the tools you were given.`,
    );
  });

  it('says of a tool that was removed how it comes back', async () => {
    const { toolset } = Toolset.of(tools).remove(
      tools.filter(({ spec }) => spec.id === 'echo'),
      { kind: 'removed', strategy: 'search', howToGetBack: 'Search for the customer again.' },
    );
    const run = (await Bench.start()).run({ toolset, policies });
    const outcome = await run.exec('echo');
    expect(errorOf(outcome)).toEqual({
      status: '400',
      code: 'tool_gone',
      title: 'Tool no longer available',
      detail: 'The tool "echo" is no longer available. Search for the customer again.',
    });
    expect(outcome.record.status).toBe('failed');
  });
});
