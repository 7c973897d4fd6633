import { expect, it } from '@jest/globals';
import { PendingService, type Policy, ToolLoopService } from '@toolloop/core';
import { verifyAudit } from '@toolloop/core/audit';
import {
  type AuditEntry,
  type AuditHead,
  AuditStore,
  MemoryAuditStore,
  MemoryRunLog,
  type NewRun,
  RunLog,
  type RunRecord,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ effects: ['state_change'] }],
};

/**
 * A log whose first write is given up on as the server still works on it: it is kept once the run
 * was looked up, as between that and the next write.
 */
class LateRunLog extends MemoryRunLog {
  private late: (() => Promise<void>) | undefined;

  override add(run: NewRun, status: 'queued' | 'waiting'): Promise<void> {
    if (this.late) return super.add(run, status);
    this.late = () => super.add(run, status);
    return Promise.reject(new StorageUnavailableError('The connection is gone.'));
  }

  override async find(runId: string): Promise<RunRecord | undefined> {
    const found = await super.find(runId);
    if (!found) await this.late?.();
    return found;
  }
}

it('a run waits once, and continues, where the attempt to store it that was given up ends while it is stored again', async () => {
  const model = new ScriptedModel([calls(call('probe__write', { key: 'a' })), text('Done.')]);
  const module = await openModule(model, {
    policy,
    providers: [{ provide: RunLog, useValue: new LateRunLog() }],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const approvals: PendingService = module.get(PendingService);
  const request = ask();
  const { runId, finishReason } = await loop.run(request);
  expect(finishReason).toBe('waiting');
  const [asked] = await approvals.list(request);
  await approvals.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, request);
  const resumed = await loop.resume(runId, request);
  expect((await resumed.result).finishReason).toBe('stop');
});

/**
 * A store whose first append is given up on as the server still works on it: its entry is kept once
 * the chain was read, as between that and the next append.
 */
class LateAuditStore extends MemoryAuditStore {
  private late: (() => void | Promise<void>) | undefined;
  private isKept = false;

  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    if (this.late) return super.append(tenant, build);
    return super.head(tenant).then((head) => {
      const entry = build(head);
      this.late = () => super.append(tenant, () => entry);
      throw new StorageUnavailableError('The connection is gone.');
    });
  }

  override async read(
    tenant: string,
    page: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    const entries = await super.read(tenant, page);
    if (!this.isKept) await this.late?.();
    this.isKept = this.late !== undefined;
    return entries;
  }
}

it('an entry of the audit is kept once where the attempt to store it that was given up ends while it is stored again', async () => {
  const store = new LateAuditStore();
  const model = new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]);
  const audit = { key: 'a key of thirty-two bytes or more' };
  const module = await openModule(model, {
    audit,
    providers: [{ provide: AuditStore, useValue: store }],
  });
  const { finishReason } = await module.get<ToolLoopService>(ToolLoopService).run(ask());
  expect(finishReason).toBe('stop');
  const entries = await store.read('acme', { from: 1, limit: 10 });
  expect(entries.map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  expect(await verifyAudit(entries, { keys: audit.key })).toMatchObject({ valid: true });
});
