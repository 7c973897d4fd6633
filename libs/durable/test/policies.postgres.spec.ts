import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  LlmTool,
  PendingService,
  type Policy,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
  type ToolLoopOptions,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { PolicyService, RunService } from '@toolloop/core/runs';
import { RunLog } from '@toolloop/core/stores';
import { DurableHealth, DurableModule } from '@toolloop/durable';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { Client } from 'pg';
import { createServerDatabase, describePostgres, onServer } from './databases.js';

const OPEN: Policy = { version: 'open', allow: ['*'], flow: 'off' };
const root = { actor: { id: 'root' }, tenant: 'acme' };
const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const bob = { actor: { id: 'bob' }, tenant: 'globex' };
const why = { reason: 'It goes wrong.' };
/**
 * Far less than never, and more than a busy machine takes. That it is within a second is a figure
 * of `npm run bench -- --only stops`.
 */
const IN_TIME_MS = 10_000;

@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Looks.', effect: 'read_only', reveal: 'all' })
  look(@ToolParam('key', { description: 'At what' }) key: string): string {
    return key;
  }

  @LlmTool({ description: 'Acts.', effect: 'state_change', reveal: 'all' })
  act(@ToolParam('key', { description: 'On what' }) key: string): string {
    return key;
  }
}

@Injectable()
class Staff extends ActorDirectory<{ readonly id: string }> {
  find(id: string): Promise<{ readonly id: string }> {
    return Promise.resolve({ id });
  }
}

interface DeskProcess {
  readonly module: TestingModule;
  readonly policies: PolicyService;
  readonly engine: DataPolicyEngine;
  readonly health: DurableHealth;
  readonly statusOf: (tool: string, who?: typeof alice) => Promise<string>;
}

const operators = (actor: unknown): 'all' | false =>
  (actor as { readonly id: string }).id === 'root' && 'all';

/** Resolves to the milliseconds until it holds. */
async function msUntil(holds: () => boolean | Promise<boolean>, most = 240_000): Promise<number> {
  const begun = performance.now();
  while (!(await holds())) {
    if (performance.now() - begun > most) throw new Error('It does not hold.');
    await wait(5);
  }
  return performance.now() - begun;
}

/** Resolves once what waits for alice is open to no answer any more. */
async function untilExpired(module: TestingModule): Promise<void> {
  const [approval] = await module.get(PendingService).list(alice);
  const expiresAt = Date.parse(approval?.expiresAt ?? '');
  await msUntil(() => Date.now() > expiresAt);
}

describePostgres('policies and stops of several processes', () => {
  let server: Awaited<ReturnType<typeof createServerDatabase>>;
  let opened: TestingModule[] = [];
  beforeEach(async () => {
    server = await createServerDatabase();
  });
  afterEach(async () => {
    await Promise.all(opened.map((module) => module.close()));
    opened = [];
    await server.drop();
  });

  async function start(
    more: Partial<ToolLoopOptions> = {},
    script: readonly ScriptedTurn[] = [],
  ): Promise<DeskProcess> {
    const model = new ScriptedModel(script);
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot({ url: server.url, connections: 4 }),
        ToolLoopModule.forRoot({ model, policy: OPEN, operators, ...more }),
      ],
      providers: [DeskTools, Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    opened.push(module);
    const loop: ToolLoopService = module.get(ToolLoopService);
    return {
      module,
      policies: module.get(PolicyService),
      engine: module.get(DataPolicyEngine),
      health: module.get(DurableHealth),
      statusOf: async (tool, who = alice) =>
        (await loop.call({ ...who, tool, args: { key: 'k' } })).record.status,
    };
  }

  /** Ends the connections that hear notifications, again as soon as they are back. */
  async function withoutNotifications(work: () => Promise<void>): Promise<void> {
    const name = new URL(server.url).pathname.slice(1);
    const over = new AbortController();
    let cuts = 0;
    const cut = async (): Promise<void> => {
      while (!over.signal.aborted) {
        cuts += await onServer(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and application_name = 'toolloop listener'`,
        );
        await wait(20);
      }
    };
    const cutting = cut();
    try {
      await msUntil(() => cuts > 0);
      await work();
    } finally {
      over.abort();
      await cutting;
    }
  }

  it('are seen by the other process, also with its notifications cut off', async () => {
    const [one, other] = [await start(), await start()];
    expect(await other.statusOf('desk__act')).toBe('succeeded');
    const stop = await one.policies.stop({ tool: 'desk__act' }, root, why);
    expect(await msUntil(() => other.engine.isHeld('acme', 'desk__act'))).toBeLessThan(IN_TIME_MS);
    await withoutNotifications(async () => {
      await one.policies.release(stop.stopId, root, why);
      expect(await msUntil(() => !other.engine.isHeld('acme', 'desk__act'))).toBeLessThan(
        IN_TIME_MS,
      );
      await one.policies.stop({}, root, { ...why, everywhere: true });
      expect(await msUntil(() => other.engine.isHeld('globex', 'desk__look'))).toBeLessThan(
        IN_TIME_MS,
      );
      expect(await other.statusOf('desk__look', bob)).toBe('denied');
    });
    await withoutNotifications(async () => {
      const put = { expected: 0, reason: 'x', everywhere: true };
      await other.policies.put({ ...OPEN, version: '2', deny: ['desk__look'] }, root, put);
      expect(await msUntil(() => one.engine.policies[0]?.version === '2')).toBeLessThan(IN_TIME_MS);
    });
  });

  it('survive a restart of all processes', async () => {
    const before = await start();
    await before.policies.put({ ...OPEN, version: 'kept', deny: ['desk__act'] }, root, {
      expected: 0,
      reason: 'x',
      everywhere: true,
    });
    await before.policies.put({ ...OPEN, version: 'acme' }, root, { expected: 0, reason: 'x' });
    await before.policies.stop({ tool: 'desk__look' }, root, why);
    await before.module.close();
    const after = await start();
    expect(after.engine.policies).toMatchObject([{ version: 'kept' }]);
    expect(await after.policies.versions(root)).toMatchObject([
      { number: 1, tenant: 'acme', author: 'root' },
    ]);
    expect(await after.statusOf('desk__act', bob)).toBe('denied');
    expect(await after.statusOf('desk__look')).toBe('denied');
    expect(await after.statusOf('desk__look', bob)).toBe('succeeded');
  });

  it('let one of two puts at the same time win, in whichever process', async () => {
    const [one, other] = [await start(), await start()];
    for (let expected = 0; expected < 5; expected += 1) {
      const put = { expected, reason: 'x', everywhere: true };
      const puts = [one, other, one, other].map(({ policies }, index) =>
        policies.put({ ...OPEN, version: `${expected}.${index}` }, root, put),
      );
      const settled = await Promise.allSettled(puts);
      expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const lost: unknown[] = settled.flatMap((settling) =>
        settling.status === 'rejected' ? [settling.reason as unknown] : [],
      );
      expect(lost).toMatchObject(
        Array.from({ length: 3 }, () => ({ name: 'PolicyError', code: 'conflict' })),
      );
    }
    expect(
      await msUntil(() => one.engine.policies[0]?.version === other.engine.policies[0]?.version),
    ).toBeLessThan(IN_TIME_MS);
  });

  it.each<[string, (client: Client) => Promise<unknown>, (client: Client) => Promise<unknown>]>([
    [
      'hangs',
      (client) => client.query('begin; lock table toolloop.policy_state in access exclusive mode'),
      (client) => client.query('commit'),
    ],
    [
      'fails',
      (client) => client.query('alter table toolloop.policy_state rename to policy_state_gone'),
      (client) => client.query('alter table toolloop.policy_state_gone rename to policy_state'),
    ],
  ])(
    'leave reads alone after five seconds where the store %s, and a process that is not ready, until it is back',
    async (_, break_, mend) => {
      const { policies, health, statusOf, module } = await start();
      const client = new Client({ connectionString: server.url });
      await client.connect();
      try {
        expect(await health.readiness()).toMatchObject({ isReady: true, policy: 'readable' });
        await break_(client);
        const ms = await msUntil(() => !policies.isReady);
        expect(ms).toBeGreaterThan(3_000);
        expect(ms).toBeLessThan(IN_TIME_MS);
        expect(await health.readiness()).toMatchObject({
          isReady: false,
          database: 'up',
          policy: 'unreadable',
        });
        expect(await statusOf('desk__look')).toBe('succeeded');
        const loop: ToolLoopService = module.get(ToolLoopService);
        await expect(
          loop.call({ ...alice, tool: 'desk__act', args: { key: 'k' } }),
        ).rejects.toMatchObject({
          result: { error: { code: 'storage_unavailable' } },
        });
        await mend(client);
        expect(await msUntil(() => policies.isReady)).toBeLessThan(IN_TIME_MS);
        expect(await statusOf('desk__act')).toBe('succeeded');
      } finally {
        await client.end();
      }
    },
    60_000,
  );

  it('hold a durable run whose approval expires meanwhile, which continues once it is released', async () => {
    const policy = { ...OPEN, requireApproval: [{ tools: ['desk__act'], expiresAfterMs: 1_500 }] };
    const script = [calls(call('desk__act', { key: 'a' })), text('Done.')];
    const { policies, module } = await start({ policy }, script);
    const loop: ToolLoopService = module.get(ToolLoopService);
    const result = await loop.run({ ...alice, prompt: 'Act.' });
    expect(result.finishReason).toBe('waiting');
    const { stopId } = await policies.stop({ tool: 'desk__act' }, root, why);
    await untilExpired(module);
    await policies.release(stopId, root, why);
    const resumed = await (await loop.resume(result.runId, alice)).result;
    expect(resumed.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'approval_denied' } },
    ]);
  });

  it('leave a durable run waiting whose approval has expired, and wake it in another process once that releases them', async () => {
    const policy = { ...OPEN, requireApproval: [{ tools: ['desk__act'], expiresAfterMs: 1_500 }] };
    const one = await start({ policy }, [calls(call('desk__act', { key: 'a' }))]);
    const other = await start({ policy }, [text('Then not.')]);
    const loop: ToolLoopService = one.module.get(ToolLoopService);
    const { runId, finishReason } = await loop.run({ ...alice, prompt: 'Act.', durable: true });
    expect(finishReason).toBe('waiting');
    const { stopId } = await one.policies.stop({ tool: 'desk__act' }, root, why);
    const log: RunLog = other.module.get(RunLog, { strict: false });
    const before = await log.find(runId);
    opened = opened.filter((module) => module !== one.module);
    await one.module.close();
    const runs = other.module.get(RunService);
    // the expiry wakes it for a moment
    await msUntil(async () => {
      const found = await log.find(runId);
      return found?.status === 'waiting' && found.epoch !== before?.epoch;
    });
    await other.policies.release(stopId, root, why);
    await msUntil(async () => (await runs.get(runId, alice)).status === 'ended');
    expect(await runs.get(runId, alice)).toMatchObject({ finishReason: 'stop' });
  });
});
