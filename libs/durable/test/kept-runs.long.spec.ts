import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import type { Pending, RunLog } from '@toolloop/core/stores';
import { JobQueue, SqlRunLog, SqlStores } from '@toolloop/durable';
import { RetentionSweep } from '../src/retention.js';
import { onEachDatabase } from './each-database.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
/** Loses its connection when it has queued the run that it was to wake. */
class FailingRunLog extends SqlRunLog {
  isConnected = false;

  override async wake(runId: string): Promise<void> {
    await super.wake(runId);
    if (!this.isConnected) throw new Error('The connection is gone.');
  }
}

const newRun = () => ({
  runId: randomUUID(),
  tenant: 'acme',
  actorId: 'alice',
  loop: undefined,
  request: { prompt: 'Go on.' },
});

function approvalFor(runId: string, expiresAt = '2099-01-01T00:00:00.000Z'): Pending {
  const call = { runId, toolCallId: 'call_1', declaredId: 'bank__pay' };
  const id = randomUUID();
  const about = {
    approvalId: id,
    step: 1,
    tool: 'bank__pay',
    args: {},
    reason: 'It is dear.',
    expiresAt,
  };
  return {
    id,
    kind: 'approval',
    request: { ...call, ...about, mayEdit: false, mayRemember: false },
    binding: {
      ...call,
      tenant: 'acme',
      requesterId: 'alice',
      instanceId: undefined,
      argsHash: 'ab',
      policyVersion: 'v1',
    },
    admitted: [],
    rule: 'requireApproval[0]',
    createdAt: '2026-01-01T00:00:00.000Z',
    expiresAt,
  };
}

/** A run in that state, by its id. */
async function kept(runs: RunLog, status: 'waiting' | 'ended' | 'running'): Promise<string> {
  const run = newRun();
  const { runId } = run;
  const hold = { runId, ...(await runs.begin(run, { owner: 'one', forMs: 60_000 })) };
  const events: readonly LoopEvent[] = [
    {
      type: 'text-delta',
      step: 1,
      text: 'x',
      runId,
      sequence: 1,
      timestamp: '2026-01-01T00:00:00.000Z',
    },
  ];
  const ending =
    status === 'running'
      ? undefined
      : { status, finishReason: status === 'ended' ? ('stop' as const) : ('waiting' as const) };
  await runs.append(hold, {
    entries: [{ type: 'begin', key: 'begin', value: {} }],
    events,
    ...(ending && { ending }),
  });
  return runId;
}

onEachDatabase('what is kept of runs', (open) => {
  let jobs: JobQueue;
  let runs: FailingRunLog;

  describe('in one place', () => {
    beforeAll(async () => {
      jobs = new JobQueue(open());
      runs = new FailingRunLog(open(), jobs);
      await runs.open();
    });
    afterAll(() => jobs.onApplicationShutdown());

    it('has an answer and the run that it wakes together, or neither of them', async () => {
      const { pending } = new SqlStores(open(), runs);
      const runId = await kept(runs, 'waiting');
      const approval = approvalFor(runId);
      await pending.add(approval);
      const answer = {
        decision: 'approve',
        decidedBy: 'mia',
        decidedAt: '2026-01-02T00:00:00.000Z',
      } as const;
      const { id } = approval;
      await expect(pending.answer(id, answer)).rejects.toThrow('The connection is gone.');
      expect((await pending.find(id))?.answer).toBeUndefined();
      expect(await runs.find(runId)).toMatchObject({ status: 'waiting' });
      runs.isConnected = true;
      expect(await pending.answer(id, answer)).toMatchObject({ answer });
      expect(await runs.find(runId)).toMatchObject({ status: 'queued' });
    });

    it('withdraws its approvals as soon as it has ended, though its process gets no further', async () => {
      const { pending } = new SqlStores(open(), runs);
      const run = newRun();
      const hold = { ...run, ...(await runs.begin(run, { owner: 'one', forMs: 60_000 })) };
      const [asked, decided, another] = [
        approvalFor(run.runId),
        approvalFor(run.runId),
        approvalFor(randomUUID()),
      ];
      for (const approval of [asked, decided, another]) await pending.add(approval);
      const answer = {
        decision: 'deny',
        decidedBy: 'mia',
        decidedAt: '2026-01-02T00:00:00.000Z',
      } as const;
      runs.isConnected = true;
      await pending.answer(decided.id, answer);
      await runs.append(hold, {
        entries: [],
        events: [],
        ending: { status: 'ended', finishReason: 'aborted' },
      });
      expect((await pending.find(asked.id))?.answer).toMatchObject({
        decision: 'deny',
        isWithdrawn: true,
      });
      expect((await pending.find(decided.id))?.answer).toEqual(answer);
      expect((await pending.find(another.id))?.answer).toBeUndefined();
    });

    it('withdraws its approvals when it is deleted after they have expired, and stays while one is open', async () => {
      const { pending } = new SqlStores(open(), runs);
      const [old, fresh] = [
        approvalFor(randomUUID(), '2026-01-02T00:00:00.000Z'),
        approvalFor(randomUUID()),
      ];
      for (const { request, binding } of [old, fresh])
        await runs.add(
          { runId: request.runId, tenant: binding.tenant, actorId: 'alice' },
          'waiting',
        );
      for (const approval of [old, fresh]) await pending.add(approval);
      await open().query(
        `update toolloop.runs set updated_at = updated_at - interval '40 days' where run_id = any($1::text[])`,
        [[old.request.runId, fresh.request.runId]],
      );
      expect(await new RetentionSweep(open(), { suspendedRuns: 30 }).sweep()).toBe(1);
      expect((await pending.find(old.id))?.answer).toMatchObject({ isWithdrawn: true });
      expect((await pending.find(fresh.id))?.answer).toBeUndefined();
    });

    it('is deleted with all of it once it is over for long enough, and nothing else is', async () => {
      const old = {
        ended: await kept(runs, 'ended'),
        waiting: await kept(runs, 'waiting'),
        running: await kept(runs, 'running'),
      };
      await open().query(
        `update toolloop.runs set ended_at = ended_at - interval '40 days', created_at = created_at - interval '40 days',
           updated_at = updated_at - interval '40 days' where run_id = any($1::text[])`,
        [Object.values(old)],
      );
      const fresh = await kept(runs, 'ended');
      expect(await new RetentionSweep(open(), {}).sweep()).toBe(0);
      expect(await new RetentionSweep(open(), { runs: 50 }).sweep()).toBe(0);
      expect(await new RetentionSweep(open(), { runs: 30 }).sweep()).toBe(1);
      expect(await runs.find(old.ended)).toBeUndefined();
      for (const runId of [old.waiting, old.running, fresh])
        expect(await runs.find(runId)).toBeDefined();
      const parts =
        'select (select count(*)::int from toolloop.run_entries where run_id = $1) as entries,';
      const rows = await open().query(
        `${parts} (select count(*)::int from toolloop.run_events where run_id = $1) as events`,
        [old.ended],
      );
      expect(rows).toEqual([{ entries: 0, events: 0 }]);
    });
  });
});
