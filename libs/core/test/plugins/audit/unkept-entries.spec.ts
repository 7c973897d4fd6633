import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type LoopResult, type Policy, RunError, ToolLoopService } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import {
  type AuditEntry,
  type AuditHead,
  AuditStore,
  MemoryAuditStore,
  MemoryRunLog,
  type OwedEntry,
  RunLog,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { longerThanStores } from '../../../src/call/store-calls.js';
import { ask, openModule } from '../../fixtures/shop.module.js';

/** A store whose appends, from so many on, do what a test says. */
class TroubledAudit extends MemoryAuditStore {
  trouble: (() => void | Promise<void>) | undefined;
  /** What the store says once it has kept an entry. */
  after: ((entry: AuditEntry) => Promise<void> | undefined) | undefined;

  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    const troubled = this.trouble?.();
    return troubled ? troubled.then(() => this.kept(tenant, build)) : this.kept(tenant, build);
  }

  private kept(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    let entry: AuditEntry | undefined;
    const keeping = super.append(tenant, (head) => (entry = build(head)));
    return (entry && this.after?.(entry)) ?? keeping;
  }
}

const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const SECRET = 'could not write to file "/var/lib/postgresql/base/16384": No space left on device';

async function shop(trouble: () => void | Promise<void>) {
  const store = new TroubledAudit();
  const model = new ScriptedModel([calls(call('probe__write', { key: 'a' })), text('Done.')]);
  const module = await openModule(model, {
    policy,
    audit: { key: 'x'.repeat(32) },
    providers: [{ provide: AuditStore, useValue: store }],
  });
  const made: string[] = [];
  const context = { act: (key: string) => (made.push(key), `${key} done`) };
  store.trouble = trouble;
  return {
    store,
    model,
    made,
    context,
    loop: module.get<ToolLoopService>(ToolLoopService),
    runs: module.get<RunLog>(RunLog),
  };
}

/** The result of a run, however it ended. */
async function resultOf(running: Promise<LoopResult>): Promise<LoopResult> {
  try {
    return await running;
  } catch (error) {
    if (error instanceof RunError) return error.result;
    throw error;
  }
}

const FAILURES: readonly (readonly [string, () => void | Promise<void>])[] = [
  ['rejects', () => Promise.reject(new Error(SECRET))],
  [
    'throws at once',
    () => {
      throw new Error(SECRET);
    },
  ],
  [
    'refuses what it is for',
    () => Promise.reject(Object.assign(new Error(SECRET), { code: '42501' })),
  ],
  ['is away', () => Promise.reject(new StorageUnavailableError(SECRET))],
];

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

/** Moves the clock until the work has settled. */
async function settled<Result>(work: Promise<Result>, ms = longerThanStores(2)): Promise<Result> {
  const ends: unknown[] = [];
  work.then(
    () => ends.push('kept'),
    (error: unknown) => ends.push(error),
  );
  for (let passed = 0; ends.length === 0 && passed < ms; passed += 100)
    await jest.advanceTimersByTimeAsync(100);
  return work;
}

describe('a call whose decision is not kept by an audit that', () => {
  it.each(FAILURES)(
    '%s is not made and not told: its run ends with storage_unavailable and its transcript',
    async (_, trouble) => {
      const { loop, made, context, model } = await shop(trouble);
      const result = await settled(resultOf(loop.run(ask({ context }))));
      expect(result).toMatchObject({
        finishReason: 'error',
        error: { code: 'storage_unavailable' },
      });
      expect(result.toolCalls.map(({ error }) => error?.code)).toEqual(['aborted']);
      expect([made, model.requests.length, JSON.stringify(result)]).toEqual([
        [],
        1,
        expect.not.stringContaining('postgresql'),
      ]);
    },
  );

  it.each(FAILURES)('%s is not made by a program either, which is told so', async (_, trouble) => {
    const { loop, made, context } = await shop(trouble);
    const calling = loop.call({
      tool: 'probe__write',
      args: { key: 'a' },
      context,
      actor: { id: 'alice' },
      tenant: 'acme',
    });
    const failure = await settled(calling.catch((error: unknown) => error));
    expect(failure).toMatchObject({
      result: { finishReason: 'error', error: { code: 'storage_unavailable' } },
    });
    expect(made).toEqual([]);
  });

  it.each([0, 7_500, 9_900, 10_100, 11_400])('keeps it %d ms later is made, once', async (ms) => {
    let since: number | undefined;
    const { loop, made, context, store } = await shop(() => {
      since ??= Date.now();
      if (Date.now() - since >= Math.min(ms, 7_500)) return waited(since + ms - Date.now());
      return Promise.reject(new StorageUnavailableError());
    });
    const result = await settled(loop.run(ask({ context })), 60_000);
    expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
    expect(made).toEqual(['a']);
    expect((await store.read('acme', { from: 1, limit: 10 })).map(({ kind }) => kind)).toEqual([
      'decision',
      'outcome',
    ]);
  });
});

function waited(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

describe('the outcome of a call that an audit cannot keep at once', () => {
  it('is kept later, with the time at which it happened, and the run does not wait for it', async () => {
    let calledOff = 0;
    const { loop, made, context, store } = await shop(() => {
      calledOff += 1;
      return calledOff === 2 || calledOff === 3 ? Promise.reject(new Error(SECRET)) : undefined;
    });
    const result = await settled(loop.run(ask({ context })));
    const endedAt = Date.now();
    expect([result.finishReason, made]).toEqual(['stop', ['a']]);
    expect(await kindsIn(store)).toEqual(['decision']);
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await kindsIn(store)).toEqual(['decision', 'outcome']);
    const [, outcome] = await store.read('acme', { from: 1, limit: 10 });
    expect(Date.parse(outcome?.at ?? '')).toBeLessThanOrEqual(endedAt);
  });

  it('is owed in the log of runs until then, once', async () => {
    let isRefusing = false;
    const { loop, context, store, runs } = await shop(() =>
      isRefusing ? Promise.reject(new Error(SECRET)) : undefined,
    );
    await settled(
      loop.run(
        ask({
          context: {
            act: (key: string) => {
              isRefusing = true;
              return context.act(key);
            },
          },
        }),
      ),
    );
    expect(await runs.listOwed({ limit: 9 })).toHaveLength(1);
    isRefusing = false;
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await kindsIn(store)).toEqual(['decision', 'outcome']);
    expect(await runs.listOwed({ limit: 9 })).toEqual([]);
  });

  it('is kept once though the store kept it and gave no answer', async () => {
    const { loop, context, store } = await shop(() => undefined);
    store.after = (entry) =>
      entry.kind === 'outcome' ? Promise.reject(new Error(SECRET)) : undefined;
    await settled(loop.run(ask({ context })));
    await jest.advanceTimersByTimeAsync(10_000);
    expect(await kindsIn(store)).toEqual(['decision', 'outcome']);
  });
});

/**
 * A store behind which others append: it has an entry made, and once it may makes that anew behind
 * their entries.
 */
class BusyAudit extends AuditStore {
  mayAppend: () => void = () => undefined;
  private readonly isFree = new Promise<void>((resolve) => (this.mayAppend = resolve));

  constructor(private readonly chain: AuditStore) {
    super();
  }

  override async append(...[tenant, build]: Parameters<AuditStore['append']>): Promise<void> {
    build(undefined);
    await this.isFree;
    await this.chain.append(tenant, build);
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return this.chain.head(tenant);
  }

  override read(...page: Parameters<AuditStore['read']>): Promise<readonly AuditEntry[]> {
    return this.chain.read(...page);
  }
}

it('an entry is in the chain once that one process appends while another has it in hand', async () => {
  const chain = new MemoryAuditStore();
  const busy = new BusyAudit(chain);
  const log = new MemoryRunLog();
  const options = { key: 'x'.repeat(32) };
  const trail = new AuditTrail(busy, options, log);
  const entry = trail.note({
    tenant: 'acme',
    subject: { runId: 'run_1' },
    event: { kind: 'outcome', status: 'succeeded', durationMs: 1 },
  });
  const journal = {
    owe: (entries: readonly OwedEntry[]) => void log.owe(entries),
  };
  const keeping = trail.keep([entry], journal);
  trail.owe([entry], journal);
  await new AuditTrail(chain, options, log).settle();
  busy.mayAppend();
  await keeping;
  await trail.settle();
  expect(await kindsIn(chain)).toEqual(['outcome']);
});

async function kindsIn(store: AuditStore): Promise<string[]> {
  return (await store.read('acme', { from: 1, limit: 10 })).map(({ kind }) => kind);
}
