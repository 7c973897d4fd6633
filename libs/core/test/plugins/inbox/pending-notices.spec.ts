import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Test } from '@nestjs/testing';
import {
  type ConfigurationError,
  type LoopRequest,
  Notifier,
  type PendingNotice,
  PendingService,
  type Policy,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import type { ApprovalTerms } from '@toolloop/core/policy';
import { MemoryPendingStore, PendingStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { PendingNotices } from '../../../src/plugins/inbox/pending-notices.js';

const HOUR = 3_600_000;
const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const as = (id: string, ...roles: string[]) => ({ actor: { id, roles }, tenant: 'acme' });

/** Notes what it is told, and fails as often as the test says. */
class Told extends Notifier {
  readonly notices: PendingNotice[] = [];
  failures = 0;

  override notify(notice: PendingNotice): Promise<void> {
    this.notices.push(notice);
    return this.failures > 0
      ? Promise.reject(new Error(`down, ${(this.failures -= 1)} times more`))
      : Promise.resolve();
  }
}

/** Never answers. */
class Hanging extends Notifier {
  override notify(): Promise<void> {
    return new Promise(() => undefined);
  }
}

const pay = tool({
  id: 'bank__pay',
  description: 'Pays.',
  effect: 'state_change',
  input: { type: 'object', properties: { to: { type: 'string' } } },
  reveal: 'all',
  execute: () => 'paid',
});

async function desk(
  terms: ApprovalTerms,
  {
    notifiers = [new Told()],
    store = new MemoryPendingStore(),
    asks = 1,
  }: { notifiers?: Notifier[]; store?: PendingStore; asks?: number } = {},
) {
  const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off', requireApproval: [terms] };
  const pays = calls(call('bank__pay', { to: 'SECRET-IBAN' }));
  const model = new ScriptedModel(Array.from({ length: asks }, () => pays).concat(text('Paid.')));
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy,
        tools: [pay],
        providers: [{ provide: PendingStore, useValue: store }],
      }),
    ],
    providers: notifiers.map((useValue, index) => ({ provide: `notifier ${index}`, useValue })),
  }).compile();
  module.useLogger(false);
  await module.init();
  const notices = module.get(PendingNotices);
  const inbox: PendingService = module.get(PendingService);
  const loop: ToolLoopService = module.get(ToolLoopService);
  const pass = async (ms: number): Promise<void> => {
    jest.setSystemTime(Date.now() + ms);
    await notices.sweep();
  };
  return {
    module,
    notices,
    inbox,
    loop,
    pass,
    ask: (more: Partial<LoopRequest> = {}) => loop.run({ prompt: 'Pay.', ...alice, ...more }),
    store,
  };
}

describe('notices about what waits', () => {
  beforeEach(() => {
    jest.useFakeTimers({
      doNotFake: [
        'nextTick',
        'setImmediate',
        'queueMicrotask',
        'setTimeout',
        'clearTimeout',
        'setInterval',
        'clearInterval',
      ],
    });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  it('come after four hours, then every eight, and the last one says that it has expired', async () => {
    const told = new Told();
    const { ask, pass } = await desk({ roles: ['manager'] }, { notifiers: [told] });
    await ask();
    for (let hour = 0; hour < 30; hour += 1) await pass(HOUR);
    const [first] = told.notices;
    const hours = told.notices.map(({ noticeId, type }) => `${type} ${noticeId.split('.')[1]}`);
    expect(hours).toEqual([
      `reminder ${4 * HOUR}`,
      `reminder ${12 * HOUR}`,
      `reminder ${20 * HOUR}`,
      'expired expired',
    ]);
    expect(first).toMatchObject({
      kind: 'approval',
      tenant: 'acme',
      tool: 'bank__pay',
      requesterId: 'alice',
      roles: ['manager'],
    });
  });

  it('have no argument in them', async () => {
    const told = new Told();
    const { ask, pass } = await desk(
      { roles: ['manager'], reason: 'SECRET-REASON' } as ApprovalTerms,
      { notifiers: [told] },
    );
    await ask();
    await pass(5 * HOUR);
    expect(JSON.stringify(told.notices)).not.toContain('SECRET');
  });

  it('are told of a rehearsal, and let further people approve it, as of a single call', async () => {
    const told = new Told();
    const terms: ApprovalTerms = {
      roles: ['manager'],
      escalation: [{ afterMs: 5 * HOUR, roles: ['director'] }],
    };
    const { ask, pass, inbox, loop } = await desk(terms, { notifiers: [told] });
    const { runId } = await ask({ rehearse: true });
    await pass(4 * HOUR);
    await pass(HOUR);
    expect(told.notices).toMatchObject([
      { type: 'reminder', kind: 'rehearsal', runId, requesterId: 'alice', roles: ['manager'] },
      { type: 'escalation', kind: 'rehearsal', roles: ['manager', 'director'] },
    ]);
    const director = as('dora', 'director');
    const [asked] = await inbox.inbox(director, { kind: 'rehearsal' });
    await inbox.answer({ rehearsalId: asked?.id, decision: 'approve' }, director, runId);
    expect(await (await loop.resume(runId, alice)).result).toMatchObject({
      rehearsal: { status: 'performed' },
    });
    expect(JSON.stringify(told.notices)).not.toContain('SECRET');
  });

  it('end with the answer, and with a withdrawal', async () => {
    const told = new Told();
    const { ask, pass, inbox } = await desk({}, { notifiers: [told], asks: 2 });
    for (const decision of ['approve', 'withdraw'] as const) {
      await ask();
      const [request] = await inbox.list(alice);
      await inbox.decide({ approvalId: request?.approvalId ?? '', decision }, alice);
      await pass(5 * HOUR);
    }
    expect(told.notices).toEqual([]);
  });

  it('let further people answer, from then on and not before', async () => {
    const told = new Told();
    const terms: ApprovalTerms = {
      roles: ['manager'],
      escalation: [{ afterMs: 2 * HOUR, roles: ['director'] }],
    };
    const { ask, pass, inbox, loop } = await desk(terms, { notifiers: [told] });
    const { runId } = await ask();
    const director = as('dora', 'director');
    expect(await inbox.list(director)).toEqual([]);
    await pass(2 * HOUR - 1);
    expect([told.notices, await inbox.list(director)]).toEqual([[], []]);
    await pass(1);
    expect(told.notices).toMatchObject([{ type: 'escalation', roles: ['manager', 'director'] }]);
    const [request] = await inbox.list(director);
    await expect(
      inbox.decide(
        { approvalId: request?.approvalId ?? '', decision: 'approve' },
        as('eve', 'clerk'),
      ),
    ).rejects.toMatchObject({
      code: 'not_found',
    });
    await inbox.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, director);
    expect(await (await loop.resume(runId, alice)).result).toMatchObject({
      toolCalls: [{ status: 'succeeded' }],
    });
  });

  it('show in the list of the requester whose answer counts by now', async () => {
    const terms: ApprovalTerms = {
      roles: ['manager'],
      escalation: [{ afterMs: 2 * HOUR, roles: ['director'] }],
    };
    const { ask, pass, inbox } = await desk(terms);
    await ask();
    expect(await inbox.inbox(alice)).toMatchObject([
      { requestedBy: 'alice', mayAnswer: false, roles: ['manager'] },
    ]);
    await pass(2 * HOUR);
    expect(await inbox.inbox(alice)).toMatchObject([
      { mayAnswer: false, roles: ['manager', 'director'] },
    ]);
    expect(await inbox.inbox(as('dora', 'director'))).toMatchObject([{ mayAnswer: true }]);
  });

  it('never let the requester answer their own call by an escalation', async () => {
    const terms: ApprovalTerms = {
      roles: ['manager'],
      notRequester: true,
      escalation: [{ afterMs: HOUR, roles: ['clerk'] }],
    };
    const { ask, pass, inbox } = await desk(terms);
    await ask();
    await pass(2 * HOUR);
    const [request] = await inbox.list(as('alice', 'clerk'));
    const deciding = inbox.decide(
      { approvalId: request?.approvalId ?? '', decision: 'approve' },
      as('alice', 'clerk'),
    );
    await expect(deciding).rejects.toMatchObject({ code: 'not_permitted' });
  });

  it('are repeated with the same id until they are taken, and given up after ten attempts', async () => {
    const told = new Told();
    const { ask, pass } = await desk({ roles: ['manager'] }, { notifiers: [told] });
    await ask();
    told.failures = 2;
    await pass(4 * HOUR);
    for (let attempt = 0; attempt < 5; attempt += 1) await pass(60_000);
    const [first, second, third, ...more] = told.notices.map(({ noticeId }) => noticeId);
    expect([second, third, more]).toEqual([first, first, []]);
    told.failures = Infinity;
    await pass(8 * HOUR);
    for (let attempt = 0; attempt < 20; attempt += 1) await pass(300_000);
    expect(told.notices.filter(({ noticeId }) => noticeId !== first)).toHaveLength(10);
  });

  it('are told once by two processes, and by the other where one has died', async () => {
    const store = new MemoryPendingStore();
    const [one, other] = [new Told(), new Told()];
    const here = await desk({ roles: ['manager'] }, { notifiers: [one], store });
    const there = await desk({ roles: ['manager'] }, { notifiers: [other], store });
    await here.ask();
    jest.setSystemTime(Date.now() + 4 * HOUR);
    await Promise.all([here.notices.sweep(), there.notices.sweep()]);
    expect([...one.notices, ...other.notices]).toHaveLength(1);
    jest.setSystemTime(Date.now() + 8 * HOUR);
    await store.due({ owner: 'a process that dies', forMs: 30_000 }, 10);
    await there.notices.sweep();
    expect([...one.notices, ...other.notices]).toHaveLength(1);
    jest.setSystemTime(Date.now() + 31_000);
    await there.notices.sweep();
    expect([...one.notices, ...other.notices]).toHaveLength(2);
  });

  it('leave out the reminders that no process was there to tell', async () => {
    const told = new Told();
    const { ask, pass } = await desk({ roles: ['manager'] }, { notifiers: [told] });
    await ask();
    await pass(13 * HOUR);
    await pass(0);
    await pass(8 * HOUR);
    expect(told.notices.map(({ noticeId }) => Number(noticeId.split('.')[1]) / HOUR)).toEqual([
      4, 20,
    ]);
  });

  it('do not keep an application from ending where a notifier hangs', async () => {
    const { ask, module, notices } = await desk(
      { roles: ['manager'] },
      { notifiers: [new Hanging()] },
    );
    await ask();
    jest.setSystemTime(Date.now() + 4 * HOUR);
    const sweeping = notices.sweep();
    await module.close();
    expect(await sweeping).toBe(0);
  });

  it.each([
    [
      'an escalation after the approval has expired',
      { escalation: [{ afterMs: 25 * HOUR, roles: ['director'] }] },
      /never be asked/,
    ],
    ['an escalation to no one', { escalation: [{ afterMs: HOUR, roles: [] }] }, /.+/],
    ['a reminder within a minute', { remindAfterMs: 1_000 }, /.+/],
  ])('are a finding at start where the policy names %s', async (_, terms, problem) => {
    const starting = desk(terms).catch((error: ConfigurationError) => error.findings);
    expect(await starting).toMatchObject([
      { at: expect.stringContaining('requireApproval/0'), problem: expect.stringMatching(problem) },
    ]);
  });
});
