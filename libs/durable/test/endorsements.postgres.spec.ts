import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  PendingError,
  PendingService,
  type Policy,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { EndorsementService, PolicyService } from '@toolloop/core/runs';
import { DurableModule } from '@toolloop/durable';
import { ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { openMailDesk, readsMail, sendsMail } from '../../core/test/fixtures/mail-desk.js';
import { createServerDatabase, describePostgres } from './databases.js';

interface Person {
  readonly id: string;
}

class Staff extends ActorDirectory<Person> {
  override find(id: string): Promise<Person> {
    return Promise.resolve({ id });
  }
}

const { tools, sent } = openMailDesk();
const addressees = (): string[] => sent.map(({ to }) => to);

const POLICY: Policy = {
  version: 'v1',
  allow: ['mail__*'],
  endorsements: [{ tools: ['mail__send'], arguments: ['to'], always: true }],
};
const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const ops = { actor: { id: 'ops' }, tenant: 'acme' };
const done = text('Done.');

describePostgres('what people trust in several processes', () => {
  let server: Awaited<ReturnType<typeof createServerDatabase>>;
  const opened: TestingModule[] = [];
  beforeAll(async () => {
    server = await createServerDatabase();
  });
  afterAll(() => server.drop());
  beforeEach(() => {
    sent.splice(0);
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((module) => module.close()));
  });

  async function start(...script: readonly ScriptedTurn[]) {
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot({ url: server.url, connections: 4 }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel(script),
          policy: POLICY,
          tools,
          operators: (actor, action) => (actor as Person).id === 'ops' && action === 'policy',
        }),
      ],
      providers: [Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    opened.push(module);
    const loop: ToolLoopService<Person> = module.get(ToolLoopService);
    return {
      close: () => module.close(),
      pending: module.get<PendingService>(PendingService),
      endorsements: module.get(EndorsementService),
      policies: module.get(PolicyService),
      engine: module.get(DataPolicyEngine),
      run: (who = alice) => loop.run({ ...who, prompt: 'Go on.' }),
      resume: async (runId: string) => (await loop.resume(runId, alice)).result,
    };
  }

  it('holds for the rest of a run in whichever process continues it, once decided in another', async () => {
    const first = await start(readsMail, sendsMail('ann@acme.example'));
    const { runId, finishReason } = await first.run();
    expect(finishReason).toBe('waiting');
    await first.close();
    const second = await start(sendsMail('ann@acme.example'), sendsMail('bob@acme.example'));
    const [asked] = await second.pending.list(alice);
    const said = { approvalId: asked?.approvalId ?? '', decision: 'approve' } as const;
    const forged = second.pending.decide(said, alice, { endorse: { arguments: ['body'] } });
    await expect(forged).rejects.toMatchObject({ code: 'invalid_answer' });
    await second.pending.decide(said, alice, { endorse: { arguments: ['to'] } });
    const next = await second.resume(runId);
    expect([next.finishReason, addressees()]).toEqual([
      'waiting',
      ['ann@acme.example', 'ann@acme.example'],
    ]);
    await second.close();
    const third = await start(sendsMail('ann@acme.example'), done);
    const [other] = await third.pending.list(alice);
    await third.pending.decide({ approvalId: other?.approvalId ?? '', decision: 'deny' }, alice);
    const last = await third.resume(runId);
    expect([last.finishReason, sent.length]).toEqual(['stop', 3]);
    expect(last.toolCalls.at(-1)?.decision).toMatchObject({
      kind: 'allow',
      endorsedBy: said.approvalId,
    });
  });

  it('holds for good in every process and after a restart, in its tenant alone, until it is rolled back', async () => {
    const one = await start(readsMail, sendsMail('tax@acme.example'), done);
    const other = await start(
      readsMail,
      sendsMail('tax@acme.example'),
      done,
      readsMail,
      sendsMail('tax@acme.example'),
    );
    const { runId } = await one.run();
    const [asked] = await one.pending.list(alice);
    const approvalId = asked?.approvalId ?? '';
    await one.pending.decide({ approvalId, decision: 'approve' }, alice);
    await one.resume(runId);
    const given = { argument: 'to', reason: 'Our accountant.' };
    await expect(
      other.endorsements.always(approvalId, given, { ...ops, tenant: 'globex' }),
    ).rejects.toMatchObject({ code: 'not_found' });
    const before = other.engine.storeRevision;
    const { number, author } = await other.endorsements.always(approvalId, given, ops);
    expect(author).toBe('ops');
    while (other.engine.storeRevision === before) await wait(5);
    expect((await other.run()).finishReason).toBe('stop');
    expect((await other.run({ ...alice, tenant: 'globex' })).finishReason).toBe('waiting');
    const restarted = await start(
      readsMail,
      sendsMail('tax@acme.example'),
      done,
      readsMail,
      sendsMail('tax@acme.example'),
    );
    expect((await restarted.run()).finishReason).toBe('stop');
    await restarted.policies.rollback(0, ops, { expected: number, reason: 'They have moved.' });
    expect((await restarted.run()).finishReason).toBe('waiting');
  });

  it('decides a group once, though people in two processes decide parts of it at once', async () => {
    const to = ['a', 'b', 'c', 'd'].map((name) => `${name}@acme.example`);
    const [one, other] = [await start(readsMail, sendsMail(...to), done), await start(done)];
    const { runId } = await one.run();
    const [group] = await other.pending.groups(alice, { runId });
    const [a, b, c, d] = (group?.calls ?? []).map(({ approvalId }) => approvalId);
    const decide = (
      at: typeof one,
      ids: readonly (string | undefined)[],
      decision: 'approve' | 'deny',
    ) =>
      at.pending.decideTogether(ids.map(String), { decision }, alice).then(
        () => 'taken',
        (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
      );
    const ends = await Promise.all([
      decide(one, [a, b, c], 'approve'),
      decide(other, [c, b, d], 'approve'),
    ]);
    expect(ends).toContain('already_answered');
    for (const id of [a, b, c, d]) await decide(one, [id], 'approve');
    expect((await one.pending.list(alice, { runId })).length).toBe(0);
    expect((await other.resume(runId)).finishReason).toBe('stop');
    expect(addressees().toSorted()).toEqual(to);
  });
});
