import { HttpException } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { firstValueFrom, Subject } from 'rxjs';
import { type Policy, ToolError } from '@toolloop/core';
import {
  type AuditEntry,
  AuditStore,
  type JournalClaim,
  type JournalStart,
  MemoryAuditStore,
  MemoryCallJournal,
} from '@toolloop/core/stores';
import { refund, desk, alice, mia, once, OPEN, until, world, type DeskOptions } from './bench.js';
import { text } from '@toolloop/testing';

const FOUR_EYES: Policy = {
  ...OPEN,
  requireApproval: [{ tools: ['bank__refund'], roles: ['manager'], notRequester: true }],
};
const waiting = { directives: { perform: false } };

type World = ReturnType<typeof world>;

/** Asked for by one process, and performed by another that starts afterwards. */
async function later(
  between: (shared: World) => void = () => undefined,
  options: DeskOptions = {},
) {
  const shared = world();
  const asking = await desk(once, { ...options, ...waiting, shared });
  await asking.run();
  await asking.module.close();
  between(shared);
  return desk(once, { ...options, shared });
}

describe('when a directive is performed', () => {
  it.each([
    ['the actor is gone', (shared: World) => void shared.people.known.delete('acme/alice')],
    [
      'another has the id',
      (shared: World) => void shared.people.known.set('acme/alice', mia.actor),
    ],
  ])('when %s, it is dead and says why', async (_, between) => {
    const { until: status, bank, entries } = await later(between);
    expect((await status('dead')).failure).toMatchObject({ code: 'forbidden' });
    expect(bank.effects).toEqual([]);
    expect((await entries()).map(({ kind }) => kind)).toEqual([
      'directive-started',
      'directive-dead',
    ]);
  });

  it('when policy denies it by now, it is dead, and both are in the audit', async () => {
    const shared = world();
    const asking = await desk(once, { ...waiting, shared });
    await asking.run();
    const {
      until: status,
      bank,
      entries,
    } = await desk(once, { shared, policy: { ...OPEN, version: 'v2', deny: ['bank__refund'] } });
    expect((await status('dead')).failure).toMatchObject({ code: 'policy_denied' });
    expect(bank.effects).toEqual([]);
    expect((await entries()).map(({ kind }) => kind)).toContain('directive-dead');
  });

  it('when the roles of the actor have changed, the current ones decide', async () => {
    const policy: Policy = {
      ...OPEN,
      allow: [],
      roles: { clerk: { allow: ['bank__refund', 'directives__status'] } },
    };
    const { until: status, bank } = await later(
      (shared) => void shared.people.known.set('acme/alice', { id: 'alice', roles: [] }),
      {
        policy,
      },
    );
    expect((await status('dead')).failure?.code).toBe('policy_denied');
    expect(bank.effects).toEqual([]);
  });

  it('when the policy of the run that requested it would deny it, it is not widened', async () => {
    const shared = world();
    const asking = await desk(once, { ...waiting, shared });
    await asking.run({
      policy: { ...OPEN, version: 'run', runBudgets: [{ tools: ['bank__refund'], calls: 5 }] },
    });
    const [record] = await shared.directives.list({ tenant: 'acme' });
    expect(record?.intent.authority.policies).toMatchObject([{ version: 'run' }]);
    const { until: status } = await desk(once, { shared });
    await status('succeeded');
  });
});

describe('an approval of a directive', () => {
  async function approved(options: DeskOptions = {}) {
    const shared = world();
    const asking = await desk(once, { policy: FOUR_EYES, ...options, ...waiting, shared });
    const { runId } = await asking.run();
    await asking.decide('approve');
    await asking.resume(runId);
    return { shared, asking };
  }

  it('was given to the call, and holds for its directive, once', async () => {
    const { shared, asking } = await approved();
    const { until: status, bank } = await desk(once, { policy: FOUR_EYES, shared });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
    const [record] = await shared.directives.list({ tenant: 'acme' });
    const { approvalId = '' } = record?.intent.authority.approved ?? {};
    expect(await asking.approvals.get(approvalId, mia)).toMatchObject({
      usedAt: expect.any(String),
      answer: { decidedBy: 'mia' },
    });
  });

  it('holds under another version of the policy that asks the same people', async () => {
    const { shared } = await approved();
    const { until: status, bank } = await desk(once, {
      policy: { ...FOUR_EYES, version: 'v2' },
      shared,
    });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });

  it.each([
    [
      'other people',
      { ...FOUR_EYES, requireApproval: [{ tools: ['bank__refund'], roles: ['auditor'] }] },
    ],
    ['the one who asked', { ...FOUR_EYES, requireApproval: [{ tools: ['bank__refund'] }] }],
  ])('does not hold under a policy that asks %s', async (_, policy) => {
    const { shared } = await approved();
    const { until: status, bank } = await desk(once, { policy, shared });
    expect((await status('dead')).failure?.code).toBe('approval_denied');
    expect(bank.effects).toEqual([]);
  });

  it('is not made up by performing when it was never given', async () => {
    const asked = world();
    await (await desk(once, { ...waiting, shared: asked })).run();
    const { until: status, bank } = await desk(once, { policy: FOUR_EYES, shared: asked });
    expect((await status('dead')).failure?.code).toBe('approval_denied');
    expect(bank.effects).toEqual([]);
  });

  it('requests nothing when it is denied', async () => {
    const asking = await desk(once, { policy: FOUR_EYES });
    const { runId } = await asking.run();
    await asking.decide('deny');
    const { toolCalls } = await asking.resume(runId);
    expect(toolCalls[0]?.error?.code).toBe('approval_denied');
    expect(await asking.service.list(alice)).toEqual([]);
  });

  it('performs other arguments when it has some', async () => {
    const policy = {
      ...FOUR_EYES,
      requireApproval: [{ tools: ['bank__refund'], roles: ['manager'], mayEdit: true }],
    };
    const asking = await desk(once, { policy });
    const { runId } = await asking.run();
    await asking.decide('approve', mia, { args: { orderId: 'o-1', amount: 3 } });
    await asking.resume(runId);
    await asking.until('succeeded');
    expect(asking.bank.effects.map(({ amount }) => amount)).toEqual([3]);
  });

  it('is required for a call that untrusted content may have caused, as for one that is performed at once', async () => {
    const policy: Policy = { ...OPEN, version: 'p', flow: 'values' };
    const { run, until: status, bank } = await desk([refund('o-1', 10), text('Done.')], { policy });
    await run({ prompt: 'Refund 10 of o-1.' });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });
});

/** Refunds that throw so many times before they take place. */
function failing(thrown: () => unknown, times = 1, options: DeskOptions = {}) {
  const shared = world();
  let left = times;
  shared.bank.before = () => {
    left -= 1;
    if (left >= 0) throw thrown();
  };
  return desk(once, { ...options, shared });
}

describe('an attempt', () => {
  it.each([
    ['a retryable ToolError', () => new ToolError('Busy.', { retryable: true })],
    ['a 429', () => new HttpException('slow down', 429)],
    ['a 503', () => new HttpException('closed', 503)],
  ])('is repeated after %s, and refunds once', async (_, thrown) => {
    const { run, until: status, bank } = await failing(thrown, 2);
    await run();
    expect((await status('succeeded')).attempts).toBe(3);
    expect(bank.effects).toHaveLength(1);
  });

  it('is dead at once, with the reason, when it fails for good, and redriven performs it once', async () => {
    const {
      run,
      until: status,
      bank,
      service,
    } = await failing(() => new ToolError('The order is closed.'));
    await run();
    const dead = await status('dead');
    expect(dead).toMatchObject({
      attempts: 1,
      failure: { code: 'execution_failed', safeMessage: 'The order is closed.' },
    });
    expect(bank.effects).toEqual([]);
    await service.redrive(dead.directiveId, alice);
    expect((await status('succeeded')).attempts).toBe(1);
    expect(bank.effects).toHaveLength(1);
  });

  it('every time is dead after as many as its tool says', async () => {
    const { run, until: status } = await failing(
      () => new ToolError('Busy.', { retryable: true }),
      99,
      { directive: { attempts: 3 } },
    );
    await run();
    expect((await status('dead')).attempts).toBe(3);
  });

  it.each([
    ['an exception', () => new Error('connection reset')],
    ['a 500', () => new HttpException('inside', 500)],
  ])('has, with %s, an unknown outcome, and waits for a person', async (_, thrown) => {
    const { run, until: status, bank, service } = await failing(thrown);
    await run();
    const unknown = await status('unknown_outcome');
    expect(unknown.failure).toMatchObject({ code: 'unknown_outcome' });
    expect(JSON.stringify(unknown)).not.toContain('connection reset');
    await expect(service.redrive(unknown.directiveId, alice)).rejects.toMatchObject({
      code: 'outcome_needed',
    });
    await service.redrive(unknown.directiveId, alice, { tookPlace: false });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });

  it('is settled by a person after the effect, and nothing happens twice', async () => {
    const shared = world();
    shared.bank.after = () => {
      throw new Error('the answer was lost');
    };
    const { run, until: status, service, bank } = await desk(once, { shared });
    await run();
    const { directiveId } = await status('unknown_outcome');
    await service.redrive(directiveId, alice, { tookPlace: true });
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });

  it.each([null, 'no', 'false', '', 0, 1, []])(
    'is not settled by %j, which is no answer',
    async (said) => {
      const tookPlace = said as never;
      const {
        run,
        until: status,
        bank,
        service,
      } = await failing(() => new Error('connection reset'));
      await run();
      const { directiveId } = await status('unknown_outcome');
      await expect(service.redrive(directiveId, alice, { tookPlace })).rejects.toMatchObject({
        code: 'outcome_needed',
      });
      expect([(await service.get(directiveId, alice)).status, bank.effects]).toEqual([
        'unknown_outcome',
        [],
      ]);
    },
  );

  it('is not repeated when it is dead and a person says that its effect took place', async () => {
    const {
      run,
      until: status,
      bank,
      service,
    } = await failing(() => new ToolError('The order is closed.'));
    await run();
    const { directiveId } = await status('dead');
    expect(await service.redrive(directiveId, alice, { tookPlace: true })).toMatchObject({
      status: 'succeeded',
    });
    expect(bank.effects).toEqual([]);
  });

  it('is not repeated when it is dead and the decision is invalid', async () => {
    const {
      run,
      until: status,
      service,
    } = await failing(() => new ToolError('The order is closed.'));
    await run();
    const { directiveId } = await status('dead');
    await expect(
      service.redrive(directiveId, alice, { tookPlace: null as never }),
    ).rejects.toMatchObject({ code: 'outcome_needed' });
    expect((await service.get(directiveId, alice)).status).toBe('dead');
  });

  it('is repeated with the same key after an exception when the tool may repeat it', async () => {
    const {
      run,
      until: status,
      bank,
    } = await failing(() => new Error('connection reset'), 2, {
      directive: { maybeRan: 'repeat' },
    });
    await run({ requestId: 'r' });
    expect((await status('succeeded')).attempts).toBe(3);
    expect(bank.effects.map(({ key }) => key)).toEqual(['order.refund:acme:o-1:r']);
  });

  it('ends with an unknown outcome after repeated exceptions, though it may be repeated', async () => {
    const directive = { maybeRan: 'repeat', attempts: 2 } as const;
    const { run, until: status } = await failing(() => new Error('connection reset'), 99, {
      directive,
    });
    await run();
    expect((await status('unknown_outcome')).attempts).toBe(2);
  });

  it('is waited for when the application stops', async () => {
    const shared = world();
    const answer = new Subject<string>();
    shared.bank.after = () => firstValueFrom(answer);
    const first = await desk(once, { shared });
    await first.run();
    while (shared.bank.effects.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    const closing = first.module.close();
    answer.next('refunded');
    await closing;
    expect(await until(first.service, 'succeeded')).toMatchObject({ attempts: 1 });
    expect(shared.bank.effects).toHaveLength(1);
  });
});

describe('a process that has lost a directive', () => {
  /** A journal whose first answer comes when the spec says so. */
  class SlowJournal extends MemoryCallJournal {
    readonly gate = new Subject<string>();
    private isFirst = true;

    override async acquire(start: JournalStart): Promise<JournalClaim> {
      if (!this.isFirst) return super.acquire(start);
      this.isFirst = false;
      await firstValueFrom(this.gate);
      return super.acquire(start);
    }
  }

  it('leaves it alone, though it could still take the key: what was cancelled meanwhile does not happen', async () => {
    const shared = world();
    const journal = new SlowJournal();
    const acquire = shared.directives.acquire.bind(shared.directives);
    shared.directives.acquire = (reference, { owner }) => acquire(reference, { owner, forMs: 30 });
    shared.bank.before = () => {
      throw new ToolError('Closed.');
    };
    const slow = await desk(once, { shared: { ...shared, journal } });
    await slow.run();
    const { directiveId } = await slow.until('performing');
    const other = await desk(once, { shared: { ...shared, journal: journal } });
    const dead = await other.until('dead');
    expect(dead.attempts).toBe(2);
    shared.bank.before = () => undefined;
    journal.gate.next('now');
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(shared.bank.effects).toEqual([]);
    await other.service.redrive(directiveId, alice);
    await other.until('succeeded');
    expect(shared.bank.effects).toHaveLength(1);
  });
});

const never = <Result>() => new Promise<Result>(() => undefined);

describe('a process that performs', () => {
  const lively = { firstDelayMs: 5, longestDelayMs: 40, heartbeatMs: 10, takeoverMs: 60 };
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it('keeps a directive for as long as it is at it, however long that is', async () => {
    const shared = world();
    shared.bank.before = () => new Promise((resolve) => setTimeout(resolve, 300));
    const first = await desk(once, { shared, directives: lively });
    await first.run();
    await desk(once, { shared, directives: lively });
    await jest.advanceTimersByTimeAsync(400);
    expect((await first.until('succeeded')).attempts).toBe(1);
    expect(shared.bank.effects).toHaveLength(1);
  });

  it('loses it soon when it is gone', async () => {
    const shared = world();
    const dead = Object.assign(Object.create(shared.directives) as typeof shared.directives, {
      renew: () => never<boolean>(),
    });
    shared.bank.before = () => never();
    const first = await desk(once, { shared: { ...shared, directives: dead }, directives: lively });
    await first.run();
    await jest.advanceTimersByTimeAsync(20);
    await first.until('performing');
    const other = await desk(once, { shared, directives: lively });
    await jest.advanceTimersByTimeAsync(1_000);
    expect(await other.until('unknown_outcome')).toMatchObject({ attempts: 2 });
  });
});

describe('an audit that keeps nothing', () => {
  it('keeps the effect from happening, and lets it happen once it keeps again', async () => {
    const shared = world();
    const store = new MemoryAuditStore();
    const append = store.append.bind(store);
    let isDown = true;
    const refused: AuditEntry[] = [];
    store.append = (tenant, build) =>
      append(tenant, (head) => {
        const entry = build(head);
        if (!isDown || entry.kind !== 'directive-started') return entry;
        refused.push(entry);
        throw new Error('disk is full');
      });
    const {
      run,
      bank,
      until: status,
    } = await desk(once, { shared, providers: [{ provide: AuditStore, useValue: store }] });
    await run();
    while (refused.length < 2) await new Promise((resolve) => setTimeout(resolve, 2));
    expect(bank.effects).toEqual([]);
    isDown = false;
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });
});

describe('a person', () => {
  it('takes back what is pending, and it never happens', async () => {
    const shared = world();
    const asking = await desk(once, { ...waiting, shared });
    await asking.run();
    const [one] = await asking.service.list(alice);
    expect(await asking.service.cancel(one?.directiveId ?? '', alice, 'Never mind.')).toMatchObject(
      { status: 'cancelled' },
    );
    const { service, bank, entries } = await desk(once, { shared });
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect([bank.effects, (await service.list(alice))[0]?.status]).toEqual([[], 'cancelled']);
    await expect(service.cancel(one?.directiveId ?? '', alice)).rejects.toMatchObject({
      code: 'not_possible',
    });
    const kinds = (await entries()).map(({ kind }) => kind);
    expect(kinds).toEqual(['directive-refused']);
  });

  it('has undone what was performed, once, with a key of its own and what was performed', async () => {
    const { run, until: status, service, bank } = await desk();
    await run({ requestId: 'r' });
    const { directiveId } = await status('succeeded');
    expect(await service.cancel(directiveId, alice)).toMatchObject({
      status: 'pending',
      task: 'compensate',
    });
    await status('compensated');
    const key = 'order.refund:acme:o-1:r';
    expect(bank.effects).toMatchObject([
      { did: 'refund', key },
      { did: 'undo', key: `${key}:compensate`, of: key, orderId: 'o-1', amount: 10 },
    ]);
    await expect(service.cancel(directiveId, alice)).rejects.toMatchObject({
      code: 'not_possible',
    });
  });

  it('is told where the tool has no way back', async () => {
    const {
      run,
      until: status,
      service,
    } = await desk(once, { directive: { compensate: undefined } });
    await run();
    const { directiveId } = await status('succeeded');
    await expect(service.cancel(directiveId, alice)).rejects.toMatchObject({
      code: 'not_possible',
    });
  });

  it('sees and takes back only their own without a role; an operator sees the tenant and decides', async () => {
    const shared = world();
    shared.bank.before = () => {
      shared.bank.before = () => undefined;
      throw new ToolError('Closed.');
    };
    const {
      run,
      service,
      until: status,
    } = await desk(once, { shared, directives: { operators: ['manager'] } });
    await run();
    const { directiveId } = await status('dead');
    const carl = { actor: { id: 'carl', roles: ['clerk'] }, tenant: 'acme' };
    await expect(service.get(directiveId, carl)).rejects.toMatchObject({ code: 'not_found' });
    expect(await service.list(carl)).toEqual([]);
    await expect(service.redrive(directiveId, alice)).rejects.toMatchObject({
      code: 'not_permitted',
    });
    expect(await service.list(mia)).toHaveLength(1);
    await service.redrive(directiveId, mia);
    await status('succeeded');
    await expect(service.cancel(directiveId, alice)).rejects.toMatchObject({
      code: 'not_permitted',
    });
    await service.cancel(directiveId, mia);
    await status('compensated');
  });

  it('decides alone when another decides at the same time', async () => {
    const shared = world();
    shared.bank.before = () => {
      shared.bank.before = () => undefined;
      throw new ToolError('Closed.');
    };
    const { run, service, until: status, bank } = await desk(once, { shared });
    await run();
    const { directiveId } = await status('dead');
    const both = await Promise.allSettled([
      service.redrive(directiveId, alice),
      service.redrive(directiveId, alice),
    ]);
    expect(both.map(({ status: one }) => one).toSorted()).toEqual(['fulfilled', 'rejected']);
    await status('succeeded');
    expect(bank.effects).toHaveLength(1);
  });
});
