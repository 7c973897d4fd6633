import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { PendingService, LlmTool, policies, ToolParam, ToolProvider } from '@toolloop/core';
import { PendingStore } from '@toolloop/core/stores';
import { withdraw } from '../../../src/plugins/inbox/withdrawal.js';
import { RunApprovals } from '../../../src/plugins/approvals/run-approvals.js';
import { Bench } from '../../call/bench.js';

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  readonly paid: number[] = [];

  @LlmTool({ description: 'Pays.', effect: 'state_change', reveal: [] })
  pay(@ToolParam('amount', { description: 'How much', type: 'number' }) amount: number): void {
    this.paid.push(amount);
  }
}

/**
 * A run whose process died after a person was asked: it is taken up by a process that knows nothing
 * of the question.
 */
async function desk() {
  const bench = await Bench.start({ providers: [BankTools] });
  const store = bench.module.get(PendingStore);
  return {
    store,
    tools: bench.module.get(BankTools),
    approve: async () => {
      const [open] = await store.list({ tenant: 'acme', pending: true });
      await bench.module
        .get(PendingService)
        .decide(
          { approvalId: open?.id ?? '', decision: 'approve' },
          { actor: { id: 'ada' }, tenant: 'acme' },
        );
    },
    attempt: (amount = 5) =>
      bench
        .run({ policies: [policies.approveWrites], approvals: new RunApprovals('suspend') })
        .exec('bank__pay', { amount }),
  };
}

describe('an approval whose run lost its id', () => {
  it('is found again by its call, so that a person is asked once', async () => {
    const { attempt, approve, store, tools } = await desk();
    expect((await attempt()).isPending).toBe(true);
    expect((await attempt()).isPending).toBe(true);
    await approve();
    expect((await attempt()).record.status).toBe('succeeded');
    expect(tools.paid).toEqual([5]);
    expect(await store.list({ tenant: 'acme' })).toHaveLength(1);
  });

  it('does not stand for the same call with other arguments', async () => {
    const { attempt, approve, store, tools } = await desk();
    await attempt(5);
    await approve();
    expect((await attempt(500)).isPending).toBe(true);
    expect(tools.paid).toEqual([]);
    expect(await store.list({ tenant: 'acme' })).toHaveLength(2);
  });

  it('is asked for anew where it was withdrawn, since no person said no', async () => {
    const { attempt, approve, store, tools } = await desk();
    await attempt();
    const [asked] = await store.list({ tenant: 'acme' });
    await withdraw(store, asked?.id ?? '');
    expect((await attempt()).isPending).toBe(true);
    await approve();
    expect((await attempt()).record.status).toBe('succeeded');
    expect(tools.paid).toEqual([5]);
  });
});
