import { randomUUID } from 'node:crypto';
import { afterEach, expect, it } from '@jest/globals';
import { tool } from '@toolloop/core';
import { verifyAudit } from '@toolloop/core/audit';
import { DirectiveService } from '@toolloop/core/directives';
import type { AuditEntry, AuditStore } from '@toolloop/core/stores';
import {
  type Database,
  JobQueue,
  SqlAuditStore,
  SqlDirectiveStore,
  SqlRunLog,
  SqlStores,
} from '@toolloop/durable';
import { call, calls, text } from '@toolloop/testing';
import { onEachDatabase } from './each-database.js';
import { asking, DeskProcess, type ProcessOptions, type World } from './fixtures/desk.process.js';
import { dying, inquiry, never, quick, scripted, until } from './fixtures/durable-runs.js';

const KEY = 'x'.repeat(32);
const SECRET = 'permission denied for table audit at /var/lib/postgresql';

type Append = Parameters<AuditStore['append']>;
/** The fate of an entry about what has happened. */
type Trouble = 'refused' | 'kept without an answer' | 'waits for ever';

/** The audit of a process that has trouble with outcomes for as long as it lives. */
class TroubledAudit extends SqlAuditStore {
  private tellWaiting: () => void = () => undefined;
  readonly waiting = new Promise<void>((resolve) => (this.tellWaiting = resolve));

  constructor(
    database: Database,
    public trouble: Trouble | undefined,
  ) {
    super(database);
  }

  override async append(...[tenant, build]: Append): Promise<void> {
    let isOutcome = false;
    await super
      .append(tenant, (head) => {
        const entry = build(head);
        isOutcome = ['outcome', 'denied', 'directive-succeeded'].includes(entry.kind);
        if (isOutcome && this.trouble === 'refused') throw refusal();
        if (isOutcome && this.trouble === 'waits for ever') throw new Waits();
        return entry;
      })
      .catch((error: unknown) => (error instanceof Waits ? this.wait() : Promise.reject(error)));
    if (isOutcome && this.trouble === 'kept without an answer') throw refusal();
  }

  private wait(): Promise<void> {
    this.tellWaiting();
    return never();
  }
}

class Waits extends Error {}

function refusal(): Error {
  return Object.assign(new Error(SECRET), { code: '42501' });
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** The desk that processes of one database share; some have trouble with the audit. */
class Desk implements World {
  readonly effects: string[] = [];
  readonly tenant = randomUUID();
  readonly alice = {
    actor: { id: 'alice', tenant: this.tenant },
    tenant: this.tenant,
    prompt: 'Go on.',
  };
  during?: (key: string) => Promise<void> | void;
  private trouble: Trouble | undefined;
  private audit: TroubledAudit | undefined;

  constructor(private readonly database: Database) {}

  open(): ReturnType<World['open']> {
    const { database } = this;
    const jobs = new JobQueue(database);
    const runs = new SqlRunLog(database, jobs);
    const stores = new SqlStores(database, runs, new SqlDirectiveStore(database, jobs));
    this.audit = new TroubledAudit(database, this.trouble);
    Object.assign(stores, { audit: this.audit });
    return Promise.resolve({ runs, stores, close: () => jobs.onApplicationShutdown() });
  }

  async start(
    trouble: Trouble | undefined,
    turns: Parameters<typeof scripted>,
    options: ProcessOptions = {},
  ): Promise<DeskProcess> {
    this.trouble = trouble;
    const process = await DeskProcess.start(this, scripted(...turns), {
      audit: { key: KEY },
      ...options,
      options: { ...quick, ...options.options },
    });
    closing.push(() => process.close());
    return process;
  }

  /** Resolves once the audit of the process that was started last leaves an outcome unanswered. */
  async isWaiting(): Promise<void> {
    await this.audit?.waiting;
  }

  /** Ends the trouble of that process. */
  mend(): void {
    if (this.audit) this.audit.trouble = undefined;
  }

  async entries(): Promise<readonly AuditEntry[]> {
    return new SqlAuditStore(this.database).read(this.tenant, { from: 1, limit: 1_000 });
  }

  async kinds(): Promise<readonly string[]> {
    return (await this.entries()).map(({ kind }) => kind);
  }

  async owed(): Promise<number> {
    const rows = await this.database.query<{ entry: string }>(
      'select entry from toolloop.owed_audit',
    );
    return rows.filter(({ entry }) => entry.includes(this.tenant)).length;
  }

  /** Resolves once everything that is owed is in the chain. */
  async settled(): Promise<readonly AuditEntry[]> {
    while ((await this.owed()) > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    const entries = await this.entries();
    const verification = await verifyAudit(entries, { keys: KEY });
    if (!verification.valid) throw new Error(JSON.stringify(verification));
    return entries;
  }
}

const act = (key: string) => calls(call('desk__act', { key }));
const ONE_CALL = [act('a'), text('Done.')];
const durable = { durable: true } as const;

onEachDatabase('an outcome that the audit has not taken when its process dies', (database) => {
  it.each<Trouble>(['refused', 'kept without an answer'])(
    'invariant 14: is in the chain once if it was %s, though the run has ended',
    async (trouble) => {
      const desk = new Desk(database());
      const first = await desk.start(trouble, ONE_CALL, { options: dying });
      expect((await first.loop.run({ ...durable, ...desk.alice })).finishReason).toBe('stop');
      expect(await desk.owed()).toBe(1);
      await first.close();
      await desk.start(undefined, []);
      const entries = await desk.settled();
      expect(entries.map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
      expect(desk.effects).toEqual([`${desk.tenant} a`]);
      expect(Date.parse(entries[1]?.at ?? '')).toBeLessThanOrEqual(Date.now());
    },
  );

  it('is in the chain once, though the run continues in another process', async () => {
    const desk = new Desk(database());
    const first = await desk.start('refused', [act('a'), act('b')], { options: dying });
    const isStuck = new Promise<void>((resolve) => {
      desk.during = (key) => (key === 'b' ? (resolve(), never()) : undefined);
    });
    const handle = first.loop.open({ ...durable, ...desk.alice });
    handle.result.catch(() => undefined);
    await isStuck;
    delete desk.during;
    expect([await desk.owed(), await desk.kinds()]).toEqual([1, ['decision', 'decision']]);
    await database().query(
      `update toolloop.runs set expires_at = now() - interval '1 s' where status = 'running'`,
    );
    const second = await desk.start(undefined, [text('Done.')]);
    while ((await second.runs.get(handle.runId, desk.alice)).status === 'running')
      await new Promise((resolve) => setTimeout(resolve, 10));
    const entries = await desk.settled();
    const ofFirst = entries.filter(
      ({ kind, step }) => (kind === 'outcome' || kind === 'denied') && step === 1,
    );
    expect(ofFirst.map(({ kind }) => kind)).toEqual(['outcome']);
    expect(desk.effects).toEqual([`${desk.tenant} a`, `${desk.tenant} b`]);
  });

  it('is in the chain once, though the run was cancelled while the audit did not answer', async () => {
    const desk = new Desk(database());
    const first = await desk.start('waits for ever', ONE_CALL, { options: dying });
    const handle = first.loop.open({ ...durable, ...desk.alice });
    handle.result.catch(() => undefined);
    await desk.isWaiting();
    handle.cancel('Not needed.');
    await until(first, handle.runId, 'ended', desk.alice);
    expect(await desk.owed()).toBe(1);
    await desk.start(undefined, []);
    expect((await desk.settled()).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it('is in the chain once, though a sub-run of the run made the call', async () => {
    const desk = new Desk(database());
    const tools = [inquiry(scripted(...ONE_CALL))];
    const turns = [calls(call('inquire', { prompt: 'Act.' })), text('Done.')];
    const first = await desk.start('refused', turns, { options: dying, tools });
    const result = await first.loop.run({ ...durable, ...desk.alice });
    expect([result.finishReason, await desk.owed()]).toEqual(['stop', 2]);
    await first.close();
    await desk.start(undefined, [], { tools });
    const outcomes = (await desk.settled()).filter(({ kind }) => kind === 'outcome');
    expect(outcomes.map(({ declaredId }) => declaredId)).toEqual(['desk__act', 'inquire']);
  });

  it('is in the chain once, though several processes find it at once', async () => {
    const desk = new Desk(database());
    const first = await desk.start('refused', ONE_CALL, { options: dying });
    await first.loop.run({ ...durable, ...desk.alice });
    await Promise.all([1, 2, 3].map(() => desk.start(undefined, [])));
    expect((await desk.settled()).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it('is in the chain once, though its run has been deleted', async () => {
    const desk = new Desk(database());
    const first = await desk.start('refused', ONE_CALL, { options: dying });
    const { runId } = await first.loop.run({ ...durable, ...desk.alice });
    await database().query('delete from toolloop.runs where run_id = $1', [runId]);
    await desk.start(undefined, []);
    expect((await desk.settled()).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it('is owed no longer once the audit of its own process takes it', async () => {
    const desk = new Desk(database());
    const process = await desk.start('refused', ONE_CALL);
    await process.loop.run({ ...durable, ...desk.alice });
    desk.mend();
    expect((await desk.settled()).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
  });

  it('is refused where it was changed, and keeps no other from the chain', async () => {
    const desk = new Desk(database());
    const first = await desk.start('refused', [act('a'), act('b'), text('Done.')], {
      options: dying,
    });
    await first.loop.run({ ...durable, ...desk.alice });
    await first.close();
    const changed = await database().query<{ entry_id: string }>(
      `update toolloop.owed_audit set entry = replace(entry, 'succeeded', 'failed')
       where entry_id = (select entry_id from toolloop.owed_audit where entry like $1 order by at limit 1) returning entry_id`,
      [`%${desk.tenant}%`],
    );
    await desk.start(undefined, []);
    while ((await desk.owed()) > 1) await new Promise((resolve) => setTimeout(resolve, 10));
    const entries = await desk.entries();
    expect(entries.filter(({ kind }) => kind === 'outcome')).toHaveLength(1);
    expect(entries.map(({ entryId }) => entryId)).not.toContain(changed[0]?.entry_id);
    await database().query('delete from toolloop.owed_audit');
  });

  it('holds no more than the chain would', async () => {
    const desk = new Desk(database());
    const process = await desk.start('refused', [act('s3cret'), text('Done.')], { options: dying });
    await process.loop.run({ ...durable, ...desk.alice });
    const rows = await database().query<{ entry: string }>('select entry from toolloop.owed_audit');
    expect(JSON.stringify(rows)).toMatch(/argsHash/);
    expect(JSON.stringify(rows)).not.toMatch(/s3cret/);
    await desk.start(undefined, []);
    await desk.settled();
  });
});

onEachDatabase('an outcome beside durable runs that the audit has not taken', (database) => {
  it('is in the chain once if its run is suspended when the process dies', async () => {
    const desk = new Desk(database());
    const turns = [
      calls(call('desk__look', { key: 'a' }), call('desk__act', { key: 'b' })),
      text('Done.'),
    ];
    const first = await desk.start('refused', turns, { options: dying, policy: asking });
    const { runId, finishReason } = await first.loop.run(desk.alice);
    expect([finishReason, await desk.owed()]).toEqual(['waiting', 1]);
    await first.close();
    const second = await desk.start(undefined, [text('Done.')], { policy: asking });
    await desk.settled();
    const [asked] = await second.approvals.list(desk.alice);
    await second.approvals.decide(
      { approvalId: asked?.approvalId ?? '', decision: 'approve' },
      desk.alice,
    );
    const resumed = await second.loop.resume(runId, desk.alice);
    expect((await resumed.result).finishReason).toBe('stop');
    const outcomes = (await desk.settled()).filter(({ kind }) => kind === 'outcome');
    expect(outcomes.map(({ declaredId }) => declaredId)).toEqual(['desk__look', 'desk__act']);
  });

  it('is in the chain once if a program made the call and its process dies', async () => {
    const desk = new Desk(database());
    const first = await desk.start('refused', [], { options: dying });
    const { actor, tenant } = desk.alice;
    await first.loop.call({ tool: 'desk__act', args: { key: 'a' }, actor, tenant });
    expect(await desk.owed()).toBe(1);
    await first.close();
    await desk.start(undefined, []);
    expect((await desk.settled()).map(({ kind }) => kind)).toEqual(['decision', 'outcome']);
    expect(desk.effects).toEqual([`${desk.tenant} a`]);
  });

  it('is in the chain once if it is that of a directive whose process dies', async () => {
    const desk = new Desk(database());
    const remind = tool({
      id: 'remind',
      description: 'Reminds a customer.',
      input: { type: 'object', properties: {}, additionalProperties: false },
      effect: 'external_side_effect',
      reveal: 'all',
      directive: { type: 'remind', subject: 'all' },
      execute: () => `reminded ${desk.effects.push('reminded')} times`,
    });
    const first = await desk.start('refused', [calls(call('remind', {})), text('Done.')], {
      options: dying,
      tools: [remind],
    });
    await first.loop.run(desk.alice);
    const directives = first.module.get(DirectiveService);
    while ((await directives.list(desk.alice))[0]?.status !== 'succeeded')
      await new Promise((resolve) => setTimeout(resolve, 10));
    await first.close();
    expect(await desk.owed()).toBe(3);
    await desk.start(undefined, [], { tools: [remind] });
    const kinds = (await desk.settled()).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'outcome')).toHaveLength(2);
    expect(kinds.filter((kind) => kind === 'directive-succeeded')).toHaveLength(1);
    expect(desk.effects).toEqual(['reminded']);
  });
});
