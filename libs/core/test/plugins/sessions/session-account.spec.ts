import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { LlmTool, type Policy, type Tool, ToolProvider, ToolSource } from '@toolloop/core';
import type { SessionRequest, ToolOrigin, ToolsChange } from '@toolloop/core/contracts';
import { ToolSources } from '@toolloop/core/sources';
import {
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '@toolloop/core/strategies';
import {
  type AccountAddition,
  AccountStore,
  MemoryAccountStore,
  type SessionAccount,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { collect } from '@toolloop/testing';
import { setTimeout as wait } from 'node:timers/promises';
import { toolOf } from '../../tools/tools.js';
import { alice } from '../../fixtures/approval.shop.js';
import { atOnce, stopClocks } from '../../fixtures/time.js';
import { provided, QUICK, Remote, remoteTool } from '../sources/remote.js';
import { key, shop } from './desk.js';

const TRIFECTA: Policy = { version: '1', allow: ['*'], flow: 'trifecta' };

/**
 * A source that says of its tool that it only reads, and whose tool asks for more than it may have.
 */
class Hostile extends ToolSource {
  readonly origin: ToolOrigin = { source: 'vendor', trusted: false };

  override tools(): readonly Tool[] {
    const one = toolOf({ id: 'vendor__read', origin: this.origin });
    const labels = { returns: 'trusted', reads: 'public', egress: false } as const;
    return [{ ...one, spec: { ...one.spec, effect: 'read_only', labels } }];
  }
}

afterEach(() => {
  jest.useRealTimers();
});

describe('the account of a session', () => {
  it('lets a session that has read nothing untrusted send, and asks once it has', async () => {
    const { open, done } = await shop({ policy: TRIFECTA });
    const session = await open({ scope: 'desk' });
    expect((await session.call('probe__send', key('1'))).record.status).toBe('succeeded');
    await session.call('probe__read', key('2'));
    const { record, waiting } = await session.call('probe__send', key('3'));
    expect(record).toMatchObject({ status: 'waiting', decision: { rule: 'flow: trifecta' } });
    expect(waiting).toBeDefined();
    expect(done).toEqual(['1', '2']);
  });

  it('is not there without a scope: then arguments count as written by a model that has read everything', async () => {
    const { open } = await shop({ policy: TRIFECTA });
    expect((await (await open()).call('probe__send', key('1'))).waiting).toBeDefined();
  });

  it('invariant 15: takes no taint away from a client that may have read anything elsewhere, and adds what it reads here', async () => {
    const { open, accounts } = await shop({ policy: TRIFECTA });
    const outside = await open({ scope: 'desk', readsElsewhere: true });
    expect(
      (await (await open({ scope: 'desk' })).call('probe__send', key('1'))).record.status,
    ).toBe('succeeded');
    expect((await outside.call('probe__send', key('2'))).waiting).toBeDefined();
    await outside.call('probe__read', key('3'));
    expect(
      (await accounts.add({ tenant: 'acme', actorId: 'alice', scope: 'desk' }, {}, 60_000))
        .isTainted,
    ).toBe(true);
    expect(
      (await (await open({ scope: 'desk' })).call('probe__send', key('4'))).waiting,
    ).toBeDefined();
  });

  it('invariant 15: does not speak for what a person wrote, and is told of what they read all the same', async () => {
    const { open, done } = await shop({ policy: { version: '1', allow: ['*'] } });
    const [person, client] = [
      await open({ scope: 'desk', argsOrigin: 'actor' }),
      await open({ scope: 'desk' }),
    ];
    expect((await client.call('probe__write', key('1'))).record.status).toBe('succeeded');
    await person.call('probe__read', key('2'));
    expect((await person.call('probe__write', key('3'))).record.status).toBe('succeeded');
    expect((await client.call('probe__write', key('4'))).record).toMatchObject({
      status: 'waiting',
      decision: { rule: 'flow: taint' },
    });
    expect(done).toEqual(['1', '2', '3']);
  });

  it('is taken over by the next session of the same actor in the same scope, and by no other', async () => {
    const { open } = await shop({ policy: TRIFECTA });
    const first = await open({ scope: 'desk' });
    await first.call('probe__read', key('1'));
    await first.close();
    const sends = async (request: Partial<SessionRequest>) =>
      (await (await open(request)).call('probe__send', key('2'))).record.status;
    expect(await sends({ scope: 'desk' })).toBe('waiting');
    expect(await sends({ scope: 'chat' })).toBe('succeeded');
    expect(await sends({ scope: 'desk', actor: { id: 'mia' } })).toBe('succeeded');
    expect(await sends({ scope: 'desk', tenant: 'globex' })).toBe('succeeded');
  });

  it('is one for sessions that are open at once, in this process and in another', async () => {
    const accounts = new MemoryAccountStore();
    const [here, there] = [
      await shop({ policy: TRIFECTA, accounts }),
      await shop({ policy: TRIFECTA, accounts }),
    ];
    const sessions = [
      await here.open({ scope: 'desk' }),
      await here.open({ scope: 'desk' }),
      await there.open({ scope: 'desk' }),
    ];
    await sessions[0]?.call('probe__read', key('1'));
    for (const session of sessions)
      expect((await session.call('probe__send', key('2'))).record.status).toBe('waiting');
  });

  it('expires when it was not used for the idle time', async () => {
    const { open } = await shop({ policy: TRIFECTA, sessions: { idleMs: 60_000 } });
    stopClocks();
    const first = await open({ scope: 'desk' });
    await first.call('probe__read', key('1'));
    await first.close();
    jest.advanceTimersByTime(90_000);
    expect(
      (await (await open({ scope: 'desk' })).call('probe__send', key('2'))).record.status,
    ).toBe('succeeded');
  });

  it('is tainted by a call that waited in a session and was resumed after the session was closed', async () => {
    const policy: Policy = { ...TRIFECTA, requireApproval: [{ tools: ['probe__read'] }] };
    const { open, decide, runs, context, accounts } = await shop({
      policy,
      sessions: { idleMs: 60_000 },
    });
    stopClocks();
    const session = await open({ scope: 'desk' });
    const { runId } = await session.call('probe__read', key('1'));
    await session.close();
    jest.advanceTimersByTime(90_000); // the account has expired
    expect(
      (await accounts.add({ tenant: 'acme', actorId: 'alice', scope: 'desk' }, {}, 60_000))
        .isTainted,
    ).toBe(false);
    await decide('approve');
    await collect(await runs.resume(runId, { ...alice, context }));
    expect(
      (await (await open({ scope: 'desk' })).call('probe__send', key('2'))).waiting,
    ).toBeDefined();
  });

  it('is tainted by the description of a tool that no one has pinned', async () => {
    const providers = [{ provide: Symbol('vendor'), useClass: Hostile }];
    const { open } = await shop({
      policy: { ...TRIFECTA, allow: ['*', 'vendor__read'] },
      providers,
    });
    const session = await open({ scope: 'desk' });
    expect((await session.call('probe__send', key('1'))).waiting).toBeDefined();
  });

  it('counts budgets of policy over all sessions at once, and none of their calls goes beyond', async () => {
    const accounts = new MemoryAccountStore();
    const budget: Policy = {
      version: '1',
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['probe__write'], calls: 5 }],
    };
    const first = await shop({ policy: budget, accounts });
    const desks = [first, await shop({ policy: budget, accounts })];
    const sessions = await Promise.all(
      [...desks, ...desks].map((desk) => desk.open({ scope: 'desk' })),
    );
    const calls = sessions.flatMap((session, number) =>
      Array.from({ length: 5 }, (_, index) =>
        session.call('probe__write', key(`${number}-${index}`), {
          requestId: `${number}-${index}`,
        }),
      ),
    );
    await Promise.all(calls);
    const done = desks.flatMap((desk) => desk.done);
    expect(done.length).toBeGreaterThan(0);
    expect(done.length).toBeLessThanOrEqual(5);
    const later = await first.open({ scope: 'desk' });
    for (let index = done.length; index < 7; index += 1)
      await later.call('probe__write', key(`later-${index}`));
    expect(desks.flatMap((desk) => desk.done).length).toBeLessThanOrEqual(5);
    expect((await later.call('probe__write', key('more'))).record).toMatchObject({
      error: { code: 'budget_exceeded' },
    });
  });

  it('counts a budget over sessions that come one after the other', async () => {
    const budget: Policy = {
      version: '1',
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['probe__*'], calls: 3 }],
    };
    const { open, done } = await shop({ policy: budget });
    for (let index = 0; index < 5; index += 1) {
      const session = await open({ scope: 'desk' });
      await session.call('probe__read', key(`${index}`));
      await session.close();
    }
    expect(done).toEqual(['0', '1', '2']);
  });

  it('counts `callsPerTool` within one session alone, however its calls are made: what outlives a session are budgets', async () => {
    const { open } = await shop();
    const request = { scope: 'desk', limits: { callsPerTool: 2 } };
    for (const options of [{}, { signal: new AbortController().signal }]) {
      const session = await open(request);
      const made = [];
      for (let index = 0; index < 3; index += 1)
        made.push((await session.call('probe__read', key(`${index}`), options)).record.error?.code);
      expect(made).toEqual([undefined, undefined, 'budget_exceeded']);
    }
  });

  it('closes a session after three refused calls in a row, and the next one after its first, unless a call succeeded', async () => {
    const { open } = await shop();
    const session = await open({ scope: 'desk' });
    for (let index = 0; index < 3; index += 1)
      expect((await session.call(`guess__${index}`)).record.error?.code).toBe('unknown_tool');
    await expect(session.call('probe__read', key('a'))).rejects.toMatchObject({
      code: 'unknown_session',
    });
    const next = await open({ scope: 'desk' });
    await next.call('guess__4');
    expect(next.isOpen).toBe(false);
    const third = await open({ scope: 'desk' });
    await third.call('probe__read', key('a'));
    await third.call('guess__5');
    expect(third.isOpen).toBe(true);
  });
});

/** A store that does what a test says, and works as ever after that. */
class TroubledAccounts extends AccountStore {
  trouble: ((addition: AccountAddition) => Promise<SessionAccount> | undefined) | undefined;
  readonly store = new MemoryAccountStore();

  override add(...given: Parameters<AccountStore['add']>): Promise<SessionAccount> {
    return this.trouble?.(given[1]) ?? this.store.add(...given);
  }
}

const gone = (): Promise<never> => Promise.reject(new StorageUnavailableError('gone'));

/** Reads nothing that anyone else wrote. */
@ToolProvider({ namespace: 'bell' })
class Bell {
  @LlmTool({
    description: 'Rings.',
    effect: 'read_only',
    labels: { returns: 'trusted', reads: 'public' },
    reveal: 'all',
  })
  ring(): string {
    return 'rung';
  }
}

/** Brings a tool that no one has pinned. */
class Brings extends ToolInjectionStrategy {
  override readonly name = 'brings';

  override evaluate({ last }: ToolInjectionContext): ToolInjection {
    return last.tool.id === 'bell__ring' ? { add: [remoteTool('github__issue')] } : {};
  }
}

const full = ({ isTainted }: AccountAddition) =>
  isTainted ? Promise.reject(new Error('full')) : undefined;

describe('the tools of a session whose account cannot be told', () => {
  const policy: Policy = { ...TRIFECTA, allow: ['*', 'github__issue'] };

  it('invariant 15: have none that comes later and that no one has pinned: it is shown once the account counts it as read', async () => {
    const accounts = new TroubledAccounts();
    const remote = new Remote(() => []);
    const { open, module } = await shop({
      policy,
      accounts,
      providers: [Bell, provided(remote)],
      sources: QUICK,
    });
    const session = await open({ scope: 'desk' });
    const told: ToolsChange[] = [];
    session.changes$.subscribe((change) => told.push(change));
    accounts.trouble = full;
    remote.answer = () => [remoteTool('github__issue')];
    await module.get(ToolSources).refresh('github');
    expect((await session.list()).map(({ id }) => id)).not.toContain('github__issue');
    expect([told, session.describe('github__issue'), session.tools.has('github__issue')]).toEqual([
      [],
      undefined,
      false,
    ]);
    expect((await session.call('bell__ring')).ui).toBe('rung');
    accounts.trouble = undefined;
    expect((await session.list()).map(({ id }) => id)).toContain('github__issue');
    expect(told).toMatchObject([{ added: [{ id: 'github__issue' }], removed: [] }]);
    await session.close();
    expect(
      (await (await open({ scope: 'desk' })).call('probe__send', key('2'))).waiting,
    ).toBeDefined();
  });

  it('invariant 15: have none that a result brings and that no one has pinned, and the result stands', async () => {
    const accounts = new TroubledAccounts();
    const { open } = await shop({
      policy,
      accounts,
      providers: [Bell, provided(new Remote(() => []))],
      sources: QUICK,
    });
    const session = await open({ scope: 'desk', injection: [new Brings()] });
    accounts.trouble = full;
    const made = await session.call('bell__ring');
    expect([made.ui, made.injectedTools, session.describe('github__issue')]).toEqual([
      'rung',
      [],
      undefined,
    ]);
    accounts.trouble = undefined;
    expect((await session.call('bell__ring')).injectedTools.map(({ id }) => id)).toEqual([
      'github__issue',
    ]);
    expect(
      (await accounts.add({ tenant: 'acme', actorId: 'alice', scope: 'desk' }, {}, 60_000))
        .isTainted,
    ).toBe(true);
  });
});

describe('a session whose account is in trouble', () => {
  it('makes no call that the account could not be told of, and keeps it as a run that is resumed when the store is back', async () => {
    const accounts = new TroubledAccounts();
    const { open, done, runs, context } = await shop({ policy: TRIFECTA, accounts });
    const session = await open({ scope: 'desk' });
    accounts.trouble = ({ isTainted }) => (isTainted ? gone() : undefined);
    const failed = await session.call('probe__read', key('1')).catch((error: unknown) => error);
    expect(failed).toMatchObject({
      result: { finishReason: 'error', error: { code: 'storage_unavailable' } },
    });
    expect(done).toEqual([]);
    accounts.trouble = undefined;
    const { runId } = (failed as { readonly result: { readonly runId: string } }).result;
    await collect(await runs.resume(runId, { ...alice, context }));
    expect(done).toEqual(['1']);
    expect((await session.call('probe__send', key('2'))).waiting).toBeDefined();
  });

  it('is not opened, and takes no place, where the account cannot be read', async () => {
    const accounts = new TroubledAccounts();
    const { open } = await shop({ accounts, sessions: { perActor: 1 } });
    accounts.trouble = () => Promise.reject(new Error('The table is gone.'));
    await expect(open({ scope: 'desk' })).rejects.toMatchObject({
      name: 'StorageUnavailableError',
      cause: new Error('The table is gone.'),
    });
    accounts.trouble = undefined;
    expect((await open({ scope: 'desk' })).isOpen).toBe(true);
  });

  it('ends a call at once when it is closed while the store hangs', async () => {
    const accounts = new TroubledAccounts();
    const { open, done } = await shop({ accounts });
    const session = await open({ scope: 'desk' });
    accounts.trouble = () => new Promise(() => undefined);
    const made = session.call('probe__read', key('1')).catch((error: unknown) => error);
    await wait(20);
    await atOnce(session.close());
    expect(await atOnce(made)).toMatchObject({ result: { finishReason: 'aborted' } });
    expect(done).toEqual([]);
  });

  it('hands out what a call has done where only its end could not be counted', async () => {
    const accounts = new TroubledAccounts();
    const { open } = await shop({ accounts });
    const session = await open({ scope: 'desk' });
    await session.call('probe__read', key('1'));
    accounts.trouble = ({ isRefused }) =>
      isRefused === undefined ? undefined : Promise.reject(new Error('full'));
    expect((await session.call('guess__1')).record.error?.code).toBe('unknown_tool');
    expect((await session.call('probe__read', key('2'))).ui).toBe('2 done');
  });
});
