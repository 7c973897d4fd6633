import { PendingService, type JsonObject, ToolLoopService } from '@toolloop/core';
import type { SessionOptions, SessionRequest, ToolSession } from '@toolloop/core/contracts';
import { RunService } from '@toolloop/core/runs';
import { AccountStore, MemoryAccountStore } from '@toolloop/core/stores';
import { ScriptedModel } from '@toolloop/testing';
import { alice } from '../../fixtures/approval.shop.js';
import { openModule, type ShopOptions } from '../../fixtures/shop.module.js';

export const bob = { actor: { id: 'bob' }, tenant: 'globex' };

export interface Desk extends ShopOptions {
  readonly accounts?: AccountStore;
  readonly sessions?: SessionOptions;
}

/** A shop whose model is never asked, and what its tools did. */
export async function shop({
  accounts = new MemoryAccountStore(),
  providers = [],
  ...options
}: Desk = {}) {
  const module = await openModule(new ScriptedModel([]), {
    ...options,
    providers: [...providers, { provide: AccountStore, useValue: accounts }],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const runs: RunService = module.get(RunService);
  const done: string[] = [];
  const context = { act: (key: string) => (done.push(key), `${key} done`) };
  const open = (more: Partial<SessionRequest> = {}): Promise<ToolSession> =>
    loop.session({ ...alice, context, ...more });
  const decide = async (decision: 'approve' | 'deny') => {
    const approvals: PendingService = module.get(PendingService);
    const [first] = await approvals.list(alice);
    return approvals.decide(
      { approvalId: first?.approvalId ?? '', decision, reason: 'I say so.' },
      alice,
    );
  };
  return { module, loop, runs, accounts, done, context, open, decide };
}

export const key = (value: string): JsonObject => ({ key: value });
