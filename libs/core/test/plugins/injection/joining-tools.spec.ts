import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type LoopRequest,
  type Policy,
  subRunTool,
  type Tool,
  type ToolLoopOptions,
  ToolLoopService,
} from '@toolloop/core';
import {
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '@toolloop/core/strategies';
import type { JSONSchema7 } from 'json-schema';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule } from '../../fixtures/shop.module.js';

const reached: string[] = [];
beforeEach(() => void reached.splice(0));

/** A tool as a server that nobody vouches for would describe it. */
function remote(
  id: string,
  { source = 'remote', ...spec }: Partial<Tool['spec']> & { readonly source?: string } = {},
): Tool {
  const inputSchema = spec.inputSchema ?? {
    type: 'object',
    properties: {},
    additionalProperties: false,
  };
  return {
    spec: {
      id,
      declaredId: id,
      description: 'Does it, somewhere else.',
      inputSchema,
      effect: 'read_only',
      labels: { returns: 'trusted', reads: 'public', egress: false },
      redaction: { kind: 'reveal', fields: 'all' },
      schemaHash: id,
      ...spec,
    },
    origin: { source, trusted: false },
    input: {
      schema: inputSchema,
      hidden: [],
      reserved: [],
      normalize: (args) => args,
      read: (value) => ({ value }),
    },
    output: { project: (value) => String(value) },
    invoke: () => reached.push(`${source} ${id}`),
  };
}

/** Joins a run once it has looked where the server is. */
class Joining extends ToolInjectionStrategy {
  override readonly name = 'servers';

  constructor(
    private readonly tools: () => readonly Tool[],
    override readonly announced: readonly string[] = ['remote__lookUp'],
  ) {
    super();
  }

  override evaluate({ last, step }: ToolInjectionContext): ToolInjection {
    if (last.record.declaredId !== 'probe__read') return {};
    return step > 1
      ? { remove: ['remote__lookUp'], howToGetBack: 'The server has left.' }
      : { add: this.tools() };
  }
}

const has = ({ toolset }: ToolInjectionContext) =>
  toolset.some(({ id }) => id === 'remote__lookUp');
const read = calls(call('probe__read', { key: 'a' }));
const naming: Policy = { allow: ['probe__*', 'remote__lookUp'], flow: 'off' };

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
}

async function playWith(
  tools: readonly Tool[],
  script: readonly ScriptedTurn[],
  {
    request = {},
    ...options
  }: Partial<ToolLoopOptions> & {
    readonly request?: Partial<LoopRequest>;
    readonly announced?: readonly string[];
  } = {},
): Promise<Played> {
  const { announced, ...rest } = options;
  const model = new ScriptedModel([...script, text('Done.')]);
  const module = await openModule(model, {
    policy: naming,
    injection: [new Joining(() => tools, announced)],
    ...rest,
  });
  const played = await play(module.get(ToolLoopService), ask(request));
  return { ...played, model };
}

describe('tools of a server that joins a run', () => {
  it('join where a policy names them, and can be called', async () => {
    const { result, events, model } = await playWith(
      [remote('remote__lookUp')],
      [read, calls(call('remote__lookUp'))],
    );
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { provider: 'servers', tools: ['remote__lookUp'] },
    ]);
    expect(model.requests[1]?.toolIds.at(-1)).toBe('remote__lookUp');
    expect(reached).toEqual(['remote remote__lookUp']);
    expect(result.toolCalls[1]).toMatchObject({
      status: 'succeeded',
      decision: { rule: 'allow: remote__lookUp' },
    });
  });

  it('say nothing that is trusted, whatever they say of themselves', async () => {
    const { result } = await playWith(
      [remote('remote__lookUp')],
      [read, calls(call('remote__lookUp'))],
    );
    expect(
      result.messages.find(
        (message) => message.role === 'tool' && message.toolName === 'remote__lookUp',
      ),
    ).toMatchObject({
      labels: { returns: 'untrusted' },
    });
  });

  it('do not join by a glob (invariant 2)', async () => {
    const { model } = await playWith([remote('remote__lookUp')], [read], {
      policy: { allow: ['*'], flow: 'off' },
    });
    expect(model.requests[1]?.toolIds).not.toContain('remote__lookUp');
  });

  it('leave again, and a call of one says why', async () => {
    const { result, events } = await playWith(
      [remote('remote__lookUp')],
      [read, read, calls(call('remote__lookUp'))],
    );
    expect(eventsOf(events, 'tools-removed')).toMatchObject([{ tools: ['remote__lookUp'] }]);
    expect(result.toolCalls.at(-1)?.error).toMatchObject({
      code: 'tool_gone',
      safeMessage: expect.stringContaining('The server has left.'),
    });
  });

  it("are left out with an id that differs only in case from one of the application's", async () => {
    const { events } = await playWith([remote('probe__Read')], [read]);
    expect(eventsOf(events, 'warning').map(({ message }) => message)).toEqual([
      'The tool "probe__Read" of remote was not added: its id differs only in case from that of another tool.',
    ]);
  });

  it("never take the place of one of the application's, listed or not", async () => {
    const policy: Policy = { allow: ['probe__read', 'probe__write'], flow: 'off' };
    const taking = [
      remote('probe__read'),
      remote('probe__write'),
      remote('probe__x', { declaredId: 'probe__write' }),
    ];
    const { events, result } = await playWith(
      taking,
      [read, read, calls(call('probe__write', { key: 'w' }))],
      {
        policy,
        request: { exclude: ['probe__write'] },
      },
    );
    expect(reached).toEqual([]);
    expect(eventsOf(events, 'warning').map(({ message }) => message)).toEqual(
      taking.map(({ spec }) =>
        expect.stringContaining(
          `"${spec.id}" of remote was not added: the application has another of its id.`,
        ),
      ),
    );
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
      'failed',
    ]);
  });

  it('never take the place of one of another server', async () => {
    await playWith(
      [remote('remote__lookUp'), remote('remote__lookUp', { source: 'other' })],
      [read, calls(call('remote__lookUp'))],
    );
    expect(reached).toEqual(['remote remote__lookUp']);
  });

  it.each<[string, Tool, string]>([
    [
      'an id that no provider takes',
      remote('remote lookUp'),
      'not accepted by every model provider',
    ],
    [
      'another declared id',
      remote('remote__lookUp', { declaredId: 'remote__other' }),
      'Its declared id is not its id',
    ],
    [
      'a reserved argument',
      remote('remote__lookUp', {
        inputSchema: {
          type: 'object',
          properties: { tenantId: { type: 'string' } },
          required: ['tenantId'],
          additionalProperties: false,
        },
      }),
      'reserved name',
    ],
    [
      'a schema of no object',
      remote('remote__lookUp', { inputSchema: { type: 'string' } }),
      'must be "object"',
    ],
    [
      'a schema of five megabytes',
      remote('remote__lookUp', { inputSchema: { description: 'x'.repeat(5_000_000) } }),
      'characters',
    ],
    ['no effect', remote('remote__lookUp', { effect: 'harmless' as never }), 'is not an effect'],
    [
      'an entity',
      {
        ...remote('remote__lookUp'),
        entity: { provider: 'Customer', instanceId: 'c-1', depth: 1 },
      },
      'belongs to an entity',
    ],
  ])('do not join with %s, and the run says so', async (_, tool, problem) => {
    const { events, model, result } = await playWith([tool], [read]);
    expect(model.requests[1]?.toolIds.filter((id) => id.startsWith('remote'))).toEqual([]);
    expect(eventsOf(events, 'warning')).toMatchObject([
      { code: 'injection_failed', message: expect.stringContaining(problem) },
    ]);
    expect(result.finishReason).toBe('stop');
  });

  it('join with a union that is written as one schema', async () => {
    const at: JSONSchema7 = { anyOf: [{ type: 'string' }, { type: 'number' }] };
    const inputSchema: JSONSchema7 = { type: 'object', properties: { at } };
    const { model } = await playWith([remote('remote__lookUp', { inputSchema })], [read]);
    const shown = model.requests[1]?.tools.find(({ id }) => id === 'remote__lookUp');
    expect(shown?.inputSchema).toEqual({
      type: 'object',
      properties: { at: { type: ['string', 'number'] } },
    });
  });

  it('are known to policies, selections and sub-runs by their announced ids alone', async () => {
    await expect(playWith([], [], { announced: [] })).rejects.toThrow(
      'The policy names "remote__lookUp"',
    );
    const { model } = await playWith([remote('remote__lookUp')], [read], {
      request: { exclude: ['remote__lookUp'] },
    });
    expect(model.requests[1]?.toolIds).not.toContain('remote__lookUp');
  });

  it('are there in a sub-run whose list names them', async () => {
    const inner = new ScriptedModel([calls(call('remote__lookUp')), text('So.')]);
    const research = subRunTool({
      id: 'research',
      description: 'Finds out.',
      tools: ['remote__lookUp'],
      model: inner,
    });
    const vouched = { remote__lookUp: { effect: 'read_only' } } as const;
    const policy = {
      allow: ['probe__*', 'remote__lookUp', 'research'],
      flow: 'off',
      vouched,
    } as const;
    const script = [read, calls(call('research', { prompt: 'Go.' }))];
    await playWith([remote('remote__lookUp')], script, { policy, tools: [research] });
    expect(inner.requests[0]?.toolIds).toEqual(['remote__lookUp']);
    expect(reached).toEqual(['remote remote__lookUp']);
  });
});

describe('strategies on one result', () => {
  it('all act on it, in their order, each on what the one before has left', async () => {
    class Saying extends ToolInjectionStrategy {
      constructor(
        override readonly name: string,
        private readonly say: (context: ToolInjectionContext) => ToolInjection,
      ) {
        super();
      }

      override evaluate(context: ToolInjectionContext): ToolInjection {
        return context.last.record.step === 1 ? this.say(context) : {};
      }
    }
    const seen: boolean[] = [];
    const injection = [
      new Saying('first', () => ({ add: [remote('remote__lookUp')] })),
      new Saying('second', (context) => {
        seen.push(has(context));
        return { remove: ['remote__lookUp', 'probe__write'] };
      }),
      new Saying('third', (context) => {
        seen.push(has(context));
        return {};
      }),
    ];
    const announcing = new Joining(() => []);
    const { model, events } = await playWith([], [read], { injection: [announcing, ...injection] });
    expect(seen).toEqual([true, false]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([{ provider: 'first' }]);
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { reason: 'second', tools: ['remote__lookUp', 'probe__write'] },
    ]);
    expect(model.requests[1]?.toolIds).not.toContain('probe__write');
  });
});
