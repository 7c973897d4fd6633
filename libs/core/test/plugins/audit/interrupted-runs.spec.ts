import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { type Policy, tool, ToolLoopService } from '@toolloop/core';
import {
  type AuditEntry,
  type AuditHead,
  AuditStore,
  MemoryAuditStore,
} from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, openModule } from '../../fixtures/shop.module.js';

/** Takes as long as a busy database: longer than an interrupted run waits. */
class SlowAuditStore extends MemoryAuditStore {
  override async append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): Promise<void> {
    await wait(60);
    await super.append(tenant, build);
  }

  override async head(tenant: string): Promise<AuditHead | undefined> {
    await wait(60);
    return super.head(tenant);
  }
}

const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const RUNS = 4;

describe('the audit of runs that are cancelled while a tool is at work', () => {
  it('has the outcome of every call, though the store takes longer than the runs do', async () => {
    const store = new SlowAuditStore();
    const begun: number[] = [];
    const stay = tool({
      id: 'stay',
      description: 'Takes its time.',
      input: { type: 'object', properties: {}, additionalProperties: false },
      effect: 'read_only',
      reveal: 'all',
      execute: () => {
        begun.push(1);
        return new Promise<never>(() => undefined);
      },
    });
    const module = await openModule(
      new ScriptedModel(
        Array.from({ length: RUNS }, () => calls(call('stay', {}))).concat(text('Done.')),
      ),
      {
        policy,
        tools: [stay],
        audit: { key: 'x'.repeat(32) },
        providers: [{ provide: AuditStore, useValue: store }],
      },
    );
    const errors: unknown[] = [];
    module.useLogger({
      log: () => undefined,
      warn: () => undefined,
      error: (message: unknown) => void errors.push(message),
    });
    const loop = module.get(ToolLoopService);
    const runs = Array.from({ length: RUNS }, () => loop.open(ask()));
    const ended = runs.map((run) => run.result.catch(() => undefined));
    while (begun.length < RUNS) await wait(5);
    for (const run of runs) run.cancel('Not needed.');
    await Promise.all(ended);
    const outcomes = async (): Promise<number> => {
      const entries = await store.read('acme', { from: 1, limit: 100 });
      return entries.filter(({ kind }) => kind === 'outcome').length;
    };
    while ((await outcomes()) < RUNS && errors.length === 0) await wait(20);
    expect(errors).toEqual([]);
    await module.close();
  });
});
