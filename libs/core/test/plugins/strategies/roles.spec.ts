import { describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import {
  PendingService,
  type LoopRequest,
  type Policy,
  subRunTool,
  type Tool,
  type ToolCallContext,
  ToolCatalog,
  type ToolLoopOptions,
  ToolLoopService,
} from '@toolloop/core';
import {
  assumeRoles,
  type ToolInjection,
  ToolInjectionStrategy,
  toolSearch,
} from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { ask, openModule } from '../../fixtures/shop.module.js';

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });

const policy: Policy = {
  version: 'v1',
  allow: ['probe__read', 'tools__search'],
  flow: 'off',
  roles: {
    staff: { allow: ['probe__write'] },
    boss: { allow: ['probe__send'] },
    trainee: { deny: ['probe__write'] },
  },
};

/** Who has which roles at the moment, as a server would keep it. */
class Directory {
  readonly roles = new Map<string, readonly string[]>();

  readonly actorRoles = (actor: unknown): readonly string[] =>
    this.roles.get((actor as { readonly id: string }).id) ?? [];
}

interface Stage {
  readonly directory: Directory;
  readonly model: ScriptedModel;
  readonly module: TestingModule;
  readonly loop: ToolLoopService;
  readonly approvals: PendingService;
  readonly play: (request?: Partial<LoopRequest>) => Promise<PlayedRun>;
}

async function stage(
  script: readonly ScriptedTurn[],
  options: Partial<ToolLoopOptions> = {},
): Promise<Stage> {
  const directory = new Directory();
  const model = new ScriptedModel(script);
  const module = await openModule(model, { policy, actorRoles: directory.actorRoles, ...options });
  const loop: ToolLoopService = module.get(ToolLoopService);
  return {
    directory,
    model,
    module,
    loop,
    approvals: module.get(PendingService),
    play: (request) => play(loop, ask(request)),
  };
}

const isDown = () => {
  throw new Error('The directory is down.');
};

/** Gives a tool after every result. */
class Giving extends ToolInjectionStrategy {
  override readonly name = 'giving';

  constructor(private readonly tool: Tool) {
    super();
  }

  override evaluate(): ToolInjection {
    return { add: [this.tool] };
  }
}

/** What the model was offered, step by step. */
const offered = ({ requests }: ScriptedModel) =>
  requests.map(({ toolIds }) =>
    toolIds.filter((id) => id.startsWith('probe__')).map((id) => id.slice(7)),
  );

/** A tool by which the roles of whoever calls it change. */
const becoming = (directory: Directory, ...roles: readonly string[]) => ({
  act: (key: string, { actor }: ToolCallContext) => {
    if (key === 'login') directory.roles.set((actor as { readonly id: string }).id, roles);
    return key;
  },
});

describe('a change of the roles of whom a run acts for', () => {
  it('gives the run in its next step what they may use by then, and says so', async () => {
    const {
      directory,
      model,
      play: run,
    } = await stage([calls(read('login')), calls(write('w')), text('Done.')]);
    const { events, result } = await run({ context: becoming(directory, 'staff') });
    expect(offered(model)).toEqual([['read'], ['read', 'write'], ['read', 'write']]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 2, provider: 'roles', tools: ['probe__write'] },
    ]);
    expect(result.toolCalls.map(({ status }) => status)).toEqual(['succeeded', 'succeeded']);
  });

  it('takes from it what they may not, and a call of it says why', async () => {
    const {
      directory,
      model,
      play: run,
    } = await stage([calls(read('login')), calls(write('w')), text('Done.')]);
    directory.roles.set('alice', ['staff']);
    const { events, result } = await run({ context: becoming(directory) });
    expect(offered(model)).toEqual([['read', 'write'], ['read'], ['read']]);
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { step: 2, tools: ['probe__write'], reason: 'roles' },
    ]);
    expect(result.toolCalls[1]).toMatchObject({ error: { code: 'tool_gone' } });
  });

  it('holds for the calls of the same answer that come after it', async () => {
    const { directory, play: run } = await stage([calls(read('login'), write('w')), text('Done.')]);
    directory.roles.set('alice', ['staff']);
    const { result } = await run({ context: becoming(directory) });
    expect(result.toolCalls[1]).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
    });
  });

  it('brings back what it took, at the end', async () => {
    const {
      directory,
      model,
      play: run,
    } = await stage([calls(read('login')), calls(read('back')), text('Done.')]);
    directory.roles.set('alice', ['staff', 'boss']);
    await run({
      context: {
        act: (key: string) => {
          directory.roles.set('alice', key === 'back' ? ['staff', 'boss'] : ['boss']);
        },
      },
    });
    expect(offered(model)).toEqual([
      ['read', 'write', 'send'],
      ['read', 'send'],
      ['read', 'send', 'write'],
    ]);
  });

  it('brings back what it took where the run has waited meanwhile', async () => {
    const asking: Policy = { ...policy, requireApproval: [{ tools: ['probe__send'] }] };
    const script = [calls(read('login')), calls(call('probe__send', { key: 's' })), text('Done.')];
    const { directory, loop, approvals, model } = await stage(script, { policy: asking });
    directory.roles.set('alice', ['staff', 'boss']);
    const { runId } = await loop.run(ask({ context: becoming(directory, 'boss') }));
    directory.roles.set('alice', ['staff', 'boss']);
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [{ approvalId } = { approvalId: '' }] = await approvals.list(who);
    await approvals.decide({ approvalId, decision: 'approve' }, who);
    await (
      await loop.resume(runId, who)
    ).result;
    expect(offered(model).slice(1)).toEqual([
      ['read', 'send'],
      ['read', 'send', 'write'],
    ]);
  });

  it('gives nothing that the run does not select, or a strategy keeps back', async () => {
    const one = await stage([calls(read('login')), text('Done.')]);
    await one.play({ context: becoming(one.directory, 'staff'), exclude: ['probe__write'] });
    expect(offered(one.model)).toEqual([['read'], ['read']]);
    const other = await stage([
      calls(read('login')),
      calls(call('tools__search', { query: 'Changes' })),
      text('Done.'),
    ]);
    await other.play({
      context: becoming(other.directory, 'staff'),
      injection: [toolSearch({ tools: ['probe__write'] })],
    });
    expect(offered(other.model)).toEqual([['read'], ['read'], ['read', 'write']]);
  });

  it('denies everything when it cannot be found out, and the run continues', async () => {
    const { directory, loop, model } = await stage([
      calls(read('broken')),
      calls(read('r')),
      text('Done.'),
    ]);
    directory.roles.set('alice', ['staff']);
    const act = () => Object.assign(directory.roles, { get: isDown });
    const { result } = await play(loop, ask({ context: { act } }));
    expect(offered(model)[1]).toEqual([]);
    expect(result.toolCalls.map(({ status }) => status)).toEqual(['succeeded', 'failed']);
    expect(result.finishReason).toBe('stop');
  });

  it('belongs to one tenant and actor, though other runs continue beside it', async () => {
    const asked: string[] = [];
    const script = (request: {
      readonly messages: readonly unknown[];
    }): ReturnType<typeof text> => {
      asked.push(String(request.messages.length));
      return request.messages.length > 2 ? text('Done.') : calls(read('login'));
    };
    const { directory, loop } = await stage([script, script, script, script]);
    const act = async (key: string, { actor, tenant }: ToolCallContext) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (tenant === 'acme') directory.roles.set((actor as { readonly id: string }).id, ['staff']);
      return key;
    };
    const runs = await Promise.all([
      play(loop, ask({ context: { act } })),
      play(loop, ask({ actor: { id: 'bob' }, tenant: 'globex', context: { act } })),
    ]);
    expect(runs.map(({ events }) => eventsOf(events, 'tools-injected').length)).toEqual([1, 0]);
    expect(asked).toHaveLength(4);
  });
});

describe('assumeRoles', () => {
  const stepUp = assumeRoles({ start: [], to: [{ after: 'probe__read', roles: ['staff'] }] });

  it('lets a run hold fewer roles than its actor has, until a result gives them', async () => {
    const {
      directory,
      model,
      play: run,
    } = await stage([
      calls(write('early')),
      calls(read('login')),
      calls(write('w')),
      text('Done.'),
    ]);
    directory.roles.set('alice', ['staff', 'boss']);
    const { events, result } = await run({ injection: [stepUp] });
    expect(offered(model)).toEqual([['read'], ['read'], ['read', 'write'], ['read', 'write']]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { provider: 'roles', tools: ['probe__write'] },
    ]);
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'denied',
      'succeeded',
      'succeeded',
    ]);
  });

  it('gives no role that the actor does not have', async () => {
    const { directory, model, play: run } = await stage([calls(read('login')), text('Done.')]);
    directory.roles.set('alice', ['boss']);
    await run({
      injection: [
        assumeRoles({ start: ['boss'], to: [{ after: 'probe__read', roles: ['staff', 'admin'] }] }),
      ],
    });
    expect(offered(model)).toEqual([['read', 'send'], ['read']]);
  });

  it('lays down no role that denies', async () => {
    const { directory, model, play: run } = await stage([text('Done.')]);
    directory.roles.set('alice', ['staff', 'trainee']);
    await run({ injection: [assumeRoles({ start: ['staff'] })] });
    expect(offered(model)).toEqual([['read']]);
  });

  it('holds where injection is turned off, and in lists', async () => {
    const {
      directory,
      model,
      loop,
      play: run,
    } = await stage([text('Done.')], { injection: [stepUp] });
    directory.roles.set('alice', ['staff']);
    await run({ injection: false });
    expect(offered(model)).toEqual([['read']]);
    expect((await loop.list(ask())).map(({ id }) => id)).not.toContain('probe__write');
  });

  it('holds when a run continues after it waited', async () => {
    const asking: Policy = { ...policy, requireApproval: [{ tools: ['probe__read'] }] };
    const { directory, loop, approvals, model } = await stage([calls(read('r')), text('Done.')], {
      policy: asking,
    });
    directory.roles.set('alice', ['staff', 'boss']);
    const laying = assumeRoles({
      start: ['staff'],
      to: [{ when: ({ status }) => status === 'succeeded', roles: [] }],
    });
    const first = await loop.run(ask({ injection: [laying] }));
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [{ approvalId } = { approvalId: '' }] = await approvals.list(who);
    await approvals.decide({ approvalId, decision: 'approve' }, who);
    const { prompt: _prompt, ...again } = ask();
    await (
      await loop.resume(first.runId, again)
    ).result;
    expect(offered(model)).toEqual([
      ['read', 'write'],
      ['read', 'write'],
    ]);
  });

  it.each(['all' as const, ['staff', 'boss']])(
    'holds in a sub-run, which takes up nothing by %j, whatever gives it tools',
    async (roles) => {
      const inner = new ScriptedModel([calls(read('login')), text('So.')]);
      const tools = [
        subRunTool({
          id: 'research',
          description: 'Finds out.',
          tools: ['probe__*'],
          model: inner,
        }),
      ];
      const options = { tools, policy: { ...policy, allow: ['probe__read', 'research'] } };
      const {
        directory,
        model,
        module,
        play: run,
      } = await stage([calls(call('research', { prompt: 'Go.' })), text('Done.')], options);
      directory.roles.set('alice', ['staff', 'boss']);
      const giving = new Giving(module.get(ToolCatalog).resolve('probe__write'));
      const { result } = await run({
        injection: [
          assumeRoles({ start: ['boss'], to: [{ after: 'probe__read', roles }] }),
          giving,
        ],
      });
      expect([...offered(inner), ...offered(model)]).toEqual(
        [1, 2, 3, 4].map(() => ['read', 'send']),
      );
      expect(result.toolCalls[0]?.subRun?.toolCalls).toMatchObject([{ status: 'succeeded' }]);
    },
  );

  it('is no strategy where a change waits for nothing', () => {
    expect(() => assumeRoles({ start: [], to: [{ roles: 'all' }] })).toThrow('has no trigger');
  });
});
