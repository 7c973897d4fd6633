import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopRequest,
  type Policy,
  TenantDirectory,
  ToolError,
  ToolLoopService,
} from '@toolloop/core';
import {
  call,
  calls,
  collect,
  expectRunEndsOnce,
  ScriptedModel,
  type ScriptedTurn,
  text,
} from '@toolloop/testing';
import { desk as directiveDesk, OPEN, refund, world } from '../directives/bench.js';
import { alice, asking } from '../../fixtures/approval.shop.js';
import { openModule } from '../../fixtures/shop.module.js';
import { inAnHour } from '../../fixtures/time.js';
import { bob } from './desk.js';

const MALLORY = { actor: { id: 'mallory' }, tenant: 'acme-typo' };

/** The tenants of an application, which a spec changes. */
class Tenants extends TenantDirectory {
  readonly there = new Set(['acme', 'globex']);
  readonly asked: string[] = [];
  failure: Error | undefined;

  override exists(tenant: string): Promise<boolean> {
    this.asked.push(tenant);
    return this.failure ? Promise.reject(this.failure) : Promise.resolve(this.there.has(tenant));
  }
}

const WRITING: readonly ScriptedTurn[] = [calls(call('probe__write', { key: 'a' })), text('Done.')];

async function application(script: readonly ScriptedTurn[] = WRITING, policy: Policy = OPEN) {
  const tenants = new Tenants();
  const model = new ScriptedModel(script);
  const module = await openModule(model, {
    policy,
    providers: [{ provide: TenantDirectory, useValue: tenants }],
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const done: string[] = [];
  const context = { act: (key: string) => (done.push(key), 'done') };
  const play = async (who: Pick<LoopRequest, 'actor' | 'tenant'>) => {
    const handle = loop.open({ prompt: 'Write it.', context, ...who });
    const events = await collect(handle.events$);
    expectRunEndsOnce(events);
    return { events, result: await handle.result.catch((error: unknown) => error) };
  };
  return { tenants, model, module, loop, done, context, play };
}

describe('a tenant that the directory does not know', () => {
  it('has no run: it ends as forbidden before its model is asked, while the runs of others are made', async () => {
    const { model, done, play } = await application();
    const refused = await play(MALLORY);
    expect(refused.result).toMatchObject({
      finishReason: 'forbidden',
      finishDetail: 'The application does not know this tenant.',
      toolCalls: [],
    });
    expect(refused.events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(model.requests).toHaveLength(0);
    expect((await play(alice)).result).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['a']);
  });

  it('has no call, no session and no list of tools', async () => {
    const { loop, done, context } = await application();
    const made = await loop.call({ tool: 'probe__write', args: { key: 'a' }, context, ...MALLORY });
    expect(made.record).toMatchObject({ status: 'denied', error: { code: 'forbidden' } });
    await expect(loop.session({ ...MALLORY, context })).rejects.toMatchObject({
      code: 'forbidden',
    });
    await expect(loop.list(MALLORY)).rejects.toMatchObject({ code: 'forbidden' });
    expect(done).toEqual([]);
  });

  it('takes nothing from the session of a tenant that is there', async () => {
    const { loop, context } = await application();
    await expect(loop.session({ ...MALLORY, context })).rejects.toMatchObject({
      code: 'forbidden',
    });
    const session = await loop.session({ ...bob, context });
    expect((await session.call('probe__write', { key: 'b' })).record.status).toBe('succeeded');
  });
});

describe('a tenant that is closed', () => {
  it('is served for at most a minute more, by an open session too', async () => {
    const { tenants, loop, done, context } = await application();
    const session = await loop.session({ ...alice, context });
    tenants.there.delete('acme');
    expect((await session.call('probe__write', { key: 'a' })).record.status).toBe('succeeded');
    expect(tenants.asked).toEqual(['acme']);
    const late = await inAnHour(() => session.call('probe__write', { key: 'b' }));
    expect(late.record).toMatchObject({ status: 'denied', error: { code: 'forbidden' } });
    expect(done).toEqual(['a']);
  });

  it('ends its waiting run when its actor resumes it, withdraws what was asked, and makes no approved call', async () => {
    const { tenants, module, loop, done, context, play } = await application(WRITING, asking());
    const { result } = await play(alice);
    const { runId } = result as { readonly runId: string };
    tenants.there.delete('acme');
    const approvals: PendingService = module.get(PendingService);
    const [asked] = await approvals.list(alice);
    await approvals.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    const ended = await inAnHour(
      async () => (await loop.resume(runId, { ...alice, context })).result,
    );
    expect(ended).toMatchObject({ finishReason: 'forbidden' });
    expect(done).toEqual([]);
    await expect(loop.resume(runId, { ...alice, context })).rejects.toMatchObject({
      code: 'unknown_run',
    });
  });

  it('has its due directive refused by the process that was to perform it', async () => {
    const shared = world();
    shared.bank.before = () => {
      throw new ToolError('The bank is busy.', { retryable: true });
    };
    const asked = await directiveDesk([refund(), text('Done.')], {
      shared,
      directives: { firstDelayMs: 100, longestDelayMs: 100 },
    });
    expect(await asked.run()).toMatchObject({ finishReason: 'stop' });
    await asked.module.close();
    shared.bank.before = () => undefined;
    const tenants = new Tenants();
    tenants.there.delete('acme');
    const performing = await directiveDesk([], {
      shared,
      providers: [{ provide: TenantDirectory, useValue: tenants }],
    });
    expect(await performing.until('dead')).toMatchObject({
      attempts: 1,
      failure: { code: 'forbidden' },
    });
    expect(shared.bank.effects).toEqual([]);
  });

  it('is served again as soon as it is there again', async () => {
    const { tenants, play } = await application([...WRITING, ...WRITING]);
    tenants.there.delete('acme');
    expect((await play(alice)).result).toMatchObject({ finishReason: 'forbidden' });
    tenants.there.add('acme');
    expect((await play(alice)).result).toMatchObject({ finishReason: 'stop' });
  });
});

describe('a directory that fails', () => {
  it('lets nothing run, and its words are told to no one', async () => {
    const { tenants, model, loop, done, context, play } = await application();
    tenants.failure = new Error('The password of the directory is wrong.');
    const refused = await play(alice);
    expect(refused.result).toMatchObject({
      result: { finishReason: 'error', error: { code: 'storage_unavailable' } },
    });
    const made = loop.call({ tool: 'probe__write', args: { key: 'a' }, context, ...alice });
    await expect(made).rejects.toMatchObject({
      name: 'RunError',
      message: expect.stringContaining('The storage failed, and as far as is known'),
    });
    expect(JSON.stringify(refused.events)).not.toContain('password');
    expect(model.requests).toHaveLength(0);
    expect(done).toEqual([]);
  });

  it('keeps a run, where it hangs, no longer than its own time limit', async () => {
    const hanging = { exists: () => new Promise<boolean>(() => undefined) };
    const module = await openModule(new ScriptedModel(WRITING), {
      policy: OPEN,
      providers: [{ provide: TenantDirectory, useValue: hanging }],
    });
    const loop: ToolLoopService = module.get(ToolLoopService);
    expect(await loop.run({ prompt: 'Write it.', limits: { runMs: 50 }, ...alice })).toMatchObject({
      finishReason: 'timeout',
    });
  });
});
