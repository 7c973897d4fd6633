import { describe, expect, it } from '@jest/globals';
import { firstValueFrom, Subject } from 'rxjs';
import { PendingService, type Policy } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { type PendingApproval, PendingStore, MemoryRunLog, RunLog } from '@toolloop/core/stores';
import { HOUR_MS, inAnHour } from '../fixtures/time.js';
import { call, calls, text } from '@toolloop/testing';
import { PendingAudit } from '../../src/plugins/audit/pending-audit.js';
import { ActorIdentity } from '../../src/policy/actor-identity.js';
import { MemoryPendingStore } from '../../src/memory/memory-pending-store.js';
import { resultsIn, resultOf } from '../fixtures/played-run.js';
import { alice, desk } from './bench.js';

const pay = (amount: number, to = 'ann') => call('bank__pay', { to, amount });
const note = (words: string) => call('notes__add', { text: words });
const off: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const cfo = { actor: { id: 'carl', roles: ['cfo'] }, tenant: 'acme' };

describe('`remember`', () => {
  it('a remembered yes to the small rule does not answer the stricter rule of another approver', async () => {
    const policy: Policy = {
      ...off,
      requireApproval: [
        { tools: ['bank__pay'], mayRemember: true },
        {
          tools: ['bank__pay'],
          arguments: { properties: { amount: { minimum: 1000 } } },
          roles: ['cfo'],
        },
      ],
    };
    const shop = await desk([calls(pay(1)), calls(pay(1_000_000)), text('Done.')], policy);
    const first = await shop.run();
    await shop.decide('approve', alice, { remember: true });
    const second = await shop.resume(first.runId);
    expect(shop.done.map(({ args }) => args)).toEqual([{ to: 'ann', amount: 1 }]);
    expect(second.finishReason).toBe('waiting');
  });

  it('a remembered yes does not answer for the flow of information', async () => {
    const policy: Policy = {
      ...off,
      flow: 'taint',
      requireApproval: [{ tools: ['mail__send'], mayRemember: true }],
    };
    const script = [
      calls(call('mail__send', { to: 'ann' })),
      calls(call('inbox__read')),
      calls(call('mail__send', { to: 'mallory' })),
      text('Done.'),
    ];
    const shop = await desk(script, policy);
    const first = await shop.run();
    await shop.decide('approve', alice, { remember: true });
    await shop.resume(first.runId);
    expect(shop.done.filter(({ id }) => id === 'mail').map(({ args }) => args)).toEqual([
      { to: 'ann' },
    ]);
  });

  it('a remembered yes does not answer for a budget that asks', async () => {
    const policy: Policy = {
      ...off,
      runBudgets: [
        { tools: ['bank__pay'], sum: { argument: '/amount', most: 100 }, beyond: 'ask' },
      ],
      requireApproval: [{ tools: ['bank__pay'], mayRemember: true }],
    };
    const shop = await desk([calls(pay(1)), calls(pay(5000)), text('Done.')], policy);
    const first = await shop.run();
    await shop.decide('approve', alice, { remember: true });
    await shop.resume(first.runId);
    expect(shop.done).toHaveLength(1);
  });
});

describe('two policies', () => {
  it('a yes remembered for the run’s own policy does not answer for the application’s', async () => {
    const app: Policy = {
      ...off,
      requireApproval: [
        {
          arguments: { properties: { amount: { minimum: 1000 } }, required: ['amount'] },
          roles: ['cfo'],
        },
      ],
    };
    const own: Policy = {
      ...off,
      version: 'own',
      requireApproval: [{ tools: ['bank__pay'], mayRemember: true }],
    };
    const shop = await desk([calls(pay(1)), calls(pay(1_000_000)), text('Done.')], app);
    const first = await shop.run({ policy: own });
    await shop.decide('approve', alice, { remember: true });
    await shop.resume(first.runId, { policy: own });
    expect(shop.done).toHaveLength(1);
  });
});

describe('a denial', () => {
  it('holds, though the policy is replaced by one that would not ask', async () => {
    const shop = await desk([calls(pay(1)), text('Well.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const first = await shop.run();
    await shop.decide('deny');
    shop.module.get(DataPolicyEngine).replace({ ...off, version: 'v2' });
    await shop.resume(first.runId);
    expect(shop.done).toEqual([]);
  });

  it('the policy that the run itself was given still asks when it is resumed without it', async () => {
    const shop = await desk([calls(pay(1)), text('Well.')], off);
    const first = await shop.run({
      policy: { ...off, version: 'run', requireApproval: [{ tools: ['bank__pay'] }] },
    });
    expect(first.finishReason).toBe('waiting');
    await shop.resume(first.runId);
    expect(shop.done).toEqual([]);
  });
});

describe('an edit', () => {
  it('reaches nothing that only the CFO may approve when a clerk makes it', async () => {
    const policy: Policy = {
      ...off,
      requireApproval: [
        { tools: ['bank__pay'], roles: ['clerk'], mayEdit: true },
        {
          tools: ['bank__pay'],
          arguments: { properties: { amount: { minimum: 1000 } } },
          roles: ['cfo'],
        },
      ],
    };
    const shop = await desk([calls(pay(1)), text('Done.')], policy);
    const first = await shop.run();
    await shop.decide('approve', alice, { args: { to: 'ann', amount: 1_000_000 } });
    await shop.resume(first.runId);
    expect(shop.done).toEqual([]);
  });

  it('is in the audit: what was performed can be read there', async () => {
    const shop = await desk([calls(pay(1)), text('Done.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'], mayEdit: true }],
    });
    const first = await shop.run();
    await shop.decide('approve', alice, { args: { to: 'bob', amount: 77 } });
    await shop.resume(first.runId);
    expect(shop.done).toMatchObject([{ args: { to: 'bob', amount: 77 } }]);
    expect(JSON.stringify(await shop.entries())).toContain('"amount":77');
  });
});

describe('the audit', () => {
  it('holds a person’s decision though the run is never resumed', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    await shop.run();
    await shop.decide('deny');
    expect((await shop.entries()).map(({ kind }) => kind)).toContain('approval-decision');
  });

  it('holds an attempt to decide that was refused', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'], roles: ['cfo'] }],
    });
    await shop.run();
    const before = (await shop.entries()).length;
    await expect(shop.decide('approve')).rejects.toMatchObject({ code: 'not_permitted' });
    expect((await shop.entries()).length).toBeGreaterThan(before);
  });
});

describe('a run that waits', () => {
  it('makes the approved call at its last step still', async () => {
    const shop = await desk([calls(pay(1)), text('Done.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const first = await shop.run({ limits: { steps: 1 } });
    await shop.decide('approve');
    await shop.resume(first.runId, { limits: { steps: 1 } });
    expect(shop.done).toHaveLength(1);
  });

  it('continues without the call once its approval has expired', async () => {
    const shop = await desk([calls(pay(1)), text('Done.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'], expiresAfterMs: HOUR_MS }],
    });
    const first = await shop.run();
    await inAnHour(async () => {
      const resumed = await shop.resume(first.runId);
      expect(resumed.toolCalls).toMatchObject([
        { status: 'denied', error: { code: 'approval_denied' } },
      ]);
      expect([resumed.finishReason, shop.done, await shop.approvals.list(alice)]).toEqual([
        'stop',
        [],
        [],
      ]);
    });
  });

  it('is not lost when the client leaves as soon as it has seen the request', async () => {
    const policy: Policy = { ...off, requireApproval: [{ tools: ['bank__pay'] }] };
    const shop = await desk([calls(note('first'), pay(1)), text('Done.')], policy);
    const handle = shop.loop.open(shop.request());
    for await (const event of handle) if (event.type === 'approval-request') break;
    const result = await resultOf(handle);
    expect(shop.done).toMatchObject([{ id: 'note' }]);
    // either the run can be resumed, or its transcript holds the write that was made
    const resumable = await shop.module.get(RunLog).find(handle.runId);
    expect(
      resumable !== undefined || resultsIn(result.messages).some((one) => one.includes('noted')),
    ).toBe(true);
  });

  it('is not lost when the resumed run is never read', async () => {
    const shop = await desk([calls(pay(1)), text('Done.')], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const first = await shop.run();
    await shop.decide('approve');
    await shop.loop.resume(first.runId, alice); // the client is gone before anybody reads
    await expect(shop.resume(first.runId)).resolves.toMatchObject({ finishReason: 'stop' });
  });

  it('keeps an expiry that the policy set beyond a day', async () => {
    const week = 7 * 86_400_000;
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'], expiresAfterMs: week }],
    });
    await shop.run();
    const [one] = await shop.approvals.list(alice);
    expect(Date.parse(one?.expiresAt ?? '') - Date.now()).toBeGreaterThan(week - 60_000);
  });
});

/** Lets the second `find` answer late, as a database may. */
class SlowLog extends MemoryRunLog {
  delay: Promise<void> | undefined;
  override async find(runId: string) {
    const { delay } = this;
    const found = await super.find(runId);
    if (delay) await delay;
    return found;
  }
}

describe('two who resume', () => {
  it('the later one does not continue from its outdated state', async () => {
    const store = new SlowLog();
    const script = [
      calls(pay(1)),
      calls(pay(2)),
      calls(call('inbox__read')),
      text('Done.'),
      text('x'),
    ];
    const shop = await desk(
      script,
      { ...off, requireApproval: [{ tools: ['bank__pay'] }] },
      { providers: [{ provide: RunLog, useValue: store }] },
    );
    const first = await shop.run();
    await shop.decide('approve');
    const gate = new Subject<void>();
    store.delay = firstValueFrom(gate);
    const late = shop.loop.resume(first.runId, alice);
    store.delay = undefined;
    expect(await shop.resume(first.runId)).toMatchObject({ finishReason: 'waiting', steps: 2 });
    await shop.decide('approve');
    gate.next();
    // The run had made pay(1) and waits for pay(2), which is approved: who looked before knows
    // neither.
    await expect((await late).result).rejects.toMatchObject({
      name: 'InvalidRequestError',
      code: 'unknown_run',
    });
    expect(await shop.resume(first.runId)).toMatchObject({ finishReason: 'stop' });
    expect(shop.done.map(({ args }) => args)).toContainEqual({ to: 'ann', amount: 2 });
  });
});

describe('held writes', () => {
  it('a remembered yes does not let a write overtake one that waits', async () => {
    const policy: Policy = {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }, { tools: ['notes__add'], mayRemember: true }],
    };
    const shop = await desk(
      [calls(note('a')), calls(pay(1), note('paid 1')), text('Done.')],
      policy,
    );
    const first = await shop.run();
    await shop.decide('approve', alice, { remember: true });
    expect(await shop.resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    expect(shop.done.map(({ args }) => args)).toEqual([{ text: 'a' }]);
  });
});

describe('a list', () => {
  it('shows my approval, though a hundred of a colleague’s are older', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const store = shop.module.get(PendingStore);
    await shop.run();
    const [mine] = await shop.approvals.list(alice);
    const record = (await store.find(mine?.approvalId ?? '')) as PendingApproval | undefined;
    const fresh = new MemoryPendingStore();
    for (let index = 0; index < 100; index += 1)
      await fresh.add({
        ...record!,
        id: `b${index}`,
        request: { ...record!.request, approvalId: `b${index}` },
        binding: { ...record!.binding, requesterId: 'bob' },
      });
    await fresh.add(record!);
    const service = new PendingService(fresh, new ActorIdentity({}), new PendingAudit());
    expect(await service.list(alice)).toHaveLength(1);
  });

  it('a tenant that floods does not make another tenant’s approval disappear', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const store = shop.module.get(PendingStore);
    await shop.run();
    const [mine] = await shop.approvals.list(alice);
    const record = (await store.find(mine?.approvalId ?? '')) as PendingApproval | undefined;
    for (let index = 0; index < 10_000; index += 1)
      await store.add({
        ...record!,
        request: { ...record!.request, approvalId: `g${index}` },
        binding: { ...record!.binding, tenant: 'globex' },
      });
    expect(await shop.approvals.list(alice)).toHaveLength(1);
  });
});

describe('terms', () => {
  it('an answer given under weaker terms does not hold once the rule wants a CFO, though the version is the same', async () => {
    const shop = await desk([calls(pay(1))], {
      ...off,
      requireApproval: [{ tools: ['bank__pay'] }],
    });
    const first = await shop.run();
    await shop.decide('approve');
    shop.module
      .get(DataPolicyEngine)
      .replace({ ...off, requireApproval: [{ tools: ['bank__pay'], roles: ['cfo'] }] });
    await shop.resume(first.runId);
    expect(shop.done).toEqual([]);
    expect(await shop.approvals.list(cfo)).toHaveLength(1);
  });
});
