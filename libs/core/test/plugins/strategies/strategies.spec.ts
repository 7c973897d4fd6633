import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { type LoopRequest, type Tool, ToolCatalog, ToolLoopService } from '@toolloop/core';
import {
  type InjectionResult,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '@toolloop/core/strategies';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  eventsOf,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { compileSchemaInput } from '../../../src/schema/tool-input.js';
import { play, resultOf, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';

/** A strategy that does what the test says. */
class Told extends ToolInjectionStrategy {
  readonly seen: ToolInjectionContext[] = [];

  constructor(
    private readonly tell: (context: ToolInjectionContext) => unknown,
    override readonly name = 'told',
  ) {
    super();
  }

  override evaluate(context: ToolInjectionContext): ToolInjection | Promise<ToolInjection> {
    this.seen.push(context);
    return this.tell(context) as ToolInjection;
  }
}

/** One that is asked about the results that it names alone. */
class Glancing extends Told {
  override concerns({ live }: Pick<InjectionResult, 'live'>): boolean {
    if (live === 'c') throw new Error('no');
    return live === 'b';
  }
}

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

async function playWith(
  strategies: readonly ToolInjectionStrategy[],
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(await openShop(model), ask({ injection: strategies, ...request }));
  model.assertComplete();
  return { ...played, model };
}

/** A tool as a strategy would make one: it answers with its own id. */
function toolOf(id: string, spec: Partial<Tool['spec']> = {}): Tool {
  const schema = { type: 'object', properties: {}, additionalProperties: false } as const;
  return {
    spec: {
      id,
      declaredId: id,
      description: 'Made by a strategy.',
      inputSchema: schema,
      effect: 'read_only',
      labels: { returns: 'trusted', reads: 'public', egress: false },
      redaction: { kind: 'reveal', fields: 'all' },
      schemaHash: '',
      ...spec,
    },
    origin: { source: 'strategy', trusted: true },
    input: compileSchemaInput({ at: id, reserved: [], schema }).input,
    output: { project: (value) => value as string },
    invoke: () => `this is ${id}`,
  };
}

const read = (key = 'a') => calls(call('probe__read', { key }));

const nothingOrFail = (key: string) => {
  if (key === 'fail') throw new Error('no');
  return undefined;
};

describe('an injection strategy', () => {
  it('adds tools, which the model may call in the next step', async () => {
    const strategy = new Told(({ step }) => (step === 1 ? { add: [toolOf('extra')] } : {}));
    const { events, result } = await playWith([strategy], [read(), calls(call('extra'))]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 1, provider: 'told', tools: ['extra'] },
    ]);
    expect(eventsOf(events, 'tools-injected')[0]).not.toHaveProperty('instanceId');
    expect(resultsIn(result.messages)).toEqual(['a', 'this is extra']);
  });

  it('removes tools; a call of one is answered with how to get it back', async () => {
    const strategy = new Told(() => ({ remove: ['probe__write', 'nothing'] }));
    const { events, result, model } = await playWith(
      [strategy],
      [read(), calls(call('probe__write', { key: 'a' }))],
    );
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { step: 1, tools: ['probe__write'], reason: 'told' },
    ]);
    expect(model.requests[1]?.toolIds).not.toContain('probe__write');
    expect(result.toolCalls.at(-1)).toMatchObject({ error: { code: 'tool_gone' } });
  });

  it('gives a removed tool back, at the end of the list', async () => {
    const catalogued: Tool[] = [];
    const strategy = new Told(({ step }) =>
      step === 1 ? { remove: ['probe__write'] } : { add: catalogued },
    );
    const model = new ScriptedModel([
      read('a'),
      read('b'),
      calls(call('probe__write', { key: 'c' })),
      text('Done.'),
    ]);
    const module = await openModule(model);
    catalogued.push(module.get(ToolCatalog).resolve('probe__write'));
    const { result } = await play(module.get(ToolLoopService), ask({ injection: [strategy] }));
    expect(model.requests[2]?.toolIds.at(-1)).toBe('probe__write');
    expect(result.toolCalls.at(-1)).toMatchObject({ status: 'succeeded' });
  });

  it('replaces tools for good without reaching the cap, which counts what a run holds', async () => {
    const phase = new Told(({ step }) => ({
      remove: [`phase${step - 1}`],
      add: [toolOf(`phase${step}`)],
    }));
    const { events, result, model } = await playWith([phase], ['a', 'b', 'c', 'd'].map(read), {
      limits: { injectedTools: 1 },
    });
    expect(eventsOf(events, 'warning')).toEqual([]);
    expect(model.requests.at(-1)?.toolIds.filter((id) => id.startsWith('phase'))).toEqual([
      'phase4',
    ]);
    expect(result.injectedTools.map(({ id }) => id)).toEqual([
      'phase1',
      'phase2',
      'phase3',
      'phase4',
    ]);
  });

  it('is not asked to evaluate results that do not concern it, and fails as in evaluate where it cannot tell', async () => {
    const strategy = new Glancing(() => ({ add: [toolOf('extra')] }));
    const { events } = await playWith([strategy], ['a', 'b', 'c'].map(read));
    expect(strategy.seen.map(({ last }) => last.live)).toEqual(['b']);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([{ step: 2, tools: ['extra'] }]);
    expect(eventsOf(events, 'warning')).toMatchObject([{ step: 3, code: 'injection_failed' }]);
  });

  it('looks at every result: of a tool that returns nothing, and of one that fails', async () => {
    const strategy = new Told(({ last }) =>
      last.record.declaredId === 'probe__send' ? { add: [toolOf('after_send')] } : {},
    );
    const script = [
      calls(
        call('probe__send', { key: 'a' }),
        call('probe__read', { key: 'fail' }),
        call('probe__raed', {}),
      ),
    ];
    const { result } = await playWith([strategy], script, { context: { act: nothingOrFail } });
    expect(
      strategy.seen.map(({ last }) => [last.record.id, last.record.status, last.live]),
    ).toEqual([
      ['probe__send', 'succeeded', undefined],
      ['probe__read', 'failed', undefined],
    ]);
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['after_send']);
  });

  it('sees the run, the transcript, the toolset and the live result', async () => {
    const customer = new Customer('a', 'Ann');
    const strategy = new Told(() => ({}));
    const script = [calls(call('probe__customer', { key: 'a' }))];
    await playWith([strategy], script, { context: { act: () => customer } });
    const [context] = strategy.seen;
    expect(context?.last).toMatchObject({
      depth: 0,
      tool: { id: 'probe__customer' },
      returns: Customer,
    });
    expect(context?.last.live).toBe(customer);
    expect(context?.run).toMatchObject({ tenant: 'acme', actor: { id: 'alice' } });
    expect(context?.history.map(({ role }) => role)).toEqual(['user', 'assistant']);
    expect(context?.toolset.map(({ id }) => id)).toContain('customer_a_getAverageSpend');
  });

  it("runs behind the entities' own, the application's before the request's", async () => {
    const order: string[] = [];
    const noting = (name: string) => new Told(() => void order.push(name), name);
    const model = new ScriptedModel([read(), text('Done.')]);
    const loop = await openShop(model, { injection: [noting('application')] });
    await play(loop, ask({ injection: [noting('request')] }));
    expect(order).toEqual(['application', 'request']);
  });

  it('obeys the policy by the declared id', async () => {
    const strategy = new Told(() => ({ add: [toolOf('extra'), toolOf('secret')] }));
    const { result } = await playWith([strategy], [read()], {
      policy: { allow: ['*'], deny: ['probe__write'] },
      exclude: [({ id }) => id === 'secret'],
    });
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['extra']);
  });

  it('cannot bring an untrusted tool in through a glob', async () => {
    const strategy = new Told(() => ({
      add: [{ ...toolOf('extra'), origin: { source: 'mcp', trusted: false } }],
    }));
    const { result } = await playWith([strategy], [read()]);
    expect(result.injectedTools).toEqual([]);
  });

  it('cannot put another declaration under an id that is taken', async () => {
    const strategy = new Told(() => ({
      add: [
        toolOf('probe__read', { declaredId: 'other' }),
        toolOf('x', { declaredId: 'one' }),
        toolOf('x', { declaredId: 'two' }),
      ],
    }));
    const { result } = await playWith([strategy], [read('a'), read('b'), calls(call('x'))]);
    expect(result.injectedTools.map(({ declaredId }) => declaredId)).toEqual(['one']);
    expect(resultsIn(result.messages)).toEqual(['a', 'b', 'this is x']);
  });
});

const boom = () => {
  throw new Error('secret');
};

describe('invariant 5: a strategy that', () => {
  it.each<[string, (context: ToolInjectionContext) => unknown]>([
    ['throws', boom],
    ['rejects', () => Promise.reject(new Error('secret'))],
    ['returns nothing', () => undefined],
    ['returns null', () => null],
    ['returns tools that are none', () => ({ add: [{}] })],
    ['returns no list', () => ({ add: 7 })],
    ['adds a tool whose `when` throws', () => ({ add: [{ ...toolOf('extra'), when: boom }] })],
  ])('%s costs a warning, and neither the results of the step nor the run', async (_, tell) => {
    const { events, result } = await playWith(
      [new Told(tell)],
      [calls(call('probe__write', { key: 'a' }))],
    );
    expect(result).toMatchObject({ finishReason: 'stop', injectedTools: [] });
    expect(result.toolCalls).toMatchObject([{ status: 'succeeded' }]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { code: 'injection_failed', message: 'The injection strategy told failed.' },
    ]);
    expect(JSON.stringify(events)).not.toContain('secret');
  });

  it('fails does not keep the next one from its work', async () => {
    const strategies = [
      new Told(boom),
      new Told(({ step }) => (step === 1 ? { add: [toolOf('extra')] } : {})),
    ];
    const { result } = await playWith(strategies, [read()]);
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['extra']);
  });

  it('hangs does not outlive the run', async () => {
    const model = new ScriptedModel([read()]);
    const loop = await openShop(model);
    const { result } = await play(
      loop,
      ask({ injection: [new Told(() => new Promise(() => undefined))], limits: { runMs: 150 } }),
    );
    expect(result).toMatchObject({ finishReason: 'timeout', toolCalls: [{ status: 'succeeded' }] });
  });

  it('was interrupted by the end of its run has not failed, and nothing says that it has', async () => {
    const errors = jest.spyOn(Logger.prototype, 'error');
    try {
      const loop = await openShop(new ScriptedModel([read()]));
      const handle = loop.open(
        ask({
          injection: [
            new Told(() => {
              handle.cancel();
              return new Promise(() => undefined);
            }),
          ],
        }),
      );
      const events = await collect(handle.events$);
      expect(await resultOf(handle)).toMatchObject({
        finishReason: 'aborted',
        toolCalls: [{ status: 'succeeded' }],
      });
      expect(eventsOf(events, 'warning')).toEqual([]);
      expect(errors).not.toHaveBeenCalled();
    } finally {
      errors.mockRestore();
    }
  });

  it('never answers is waited for as long as a call may take, and no longer', async () => {
    const strategies = [
      new Told(() => new Promise(() => undefined)),
      new Told(() => ({ add: [toolOf('extra')] })),
    ];
    const { events, result } = await playWith(strategies, [read()], { limits: { toolCallMs: 20 } });
    expect(result.finishReason).toBe('stop');
    expect(result.injectedTools.map(({ id }) => id)).toEqual(['extra']);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { code: 'injection_failed', message: 'The injection strategy told failed.' },
    ]);
  });

  it('hands over a predicate that throws, as `exclude` does, costs no run', async () => {
    const strategy = new Told(() => ({ add: [toolOf('extra')] }));
    const exclude = [({ id }: { readonly id: string }) => (id === 'extra' ? boom() : false)];
    const { result } = await playWith([strategy], [read()], { exclude });
    expect(result).toMatchObject({ finishReason: 'stop', injectedTools: [] });
  });
});
