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

const SLOW_MS = 60;

/** Takes as long as a busy database: longer than an interrupted run waits. */
class SlowAuditStore extends MemoryAuditStore {
  asked = 0;

  override async append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): Promise<void> {
    this.asked += 1;
    await wait(SLOW_MS);
    await super.append(tenant, build);
  }

  override async head(tenant: string): Promise<AuditHead | undefined> {
    await wait(SLOW_MS);
    return super.head(tenant);
  }
}

const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
const RUNS = 4;

/** Runs of one read each, with what they have begun and what the log was told of errors. */
async function desk() {
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
  return { module, store, begun, errors, open: () => loop.open(ask()) };
}

describe('the audit of runs that are cancelled', () => {
  it('has the outcome of every call that was at work, though the store takes longer than the runs do', async () => {
    const { module, store, begun, errors, open } = await desk();
    const runs = Array.from({ length: RUNS }, open);
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

  it('takes no decision on which no call followed, and logs no error for it', async () => {
    const { module, store, begun, errors, open } = await desk();
    const run = open();
    const ended = run.result.catch(() => undefined);
    while (store.asked === 0) await wait(1);
    run.cancel('Not needed.');
    await ended;
    await wait(5 * SLOW_MS);
    expect(errors).toEqual([]);
    expect(begun).toEqual([]);
    await module.close();
  });
});
