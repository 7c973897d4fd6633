import type { LoopEvent, Message } from '@toolloop/core';
import { verifyAudit } from '@toolloop/core/audit';
import type { Pending, AuditEntry } from '@toolloop/core/stores';
import type { ToolMessage } from '@toolloop/protocol';
import {
  JobQueue,
  SqlRunLog,
  SqlStores,
  openDatabase,
  type Database,
  type DurableOptions,
} from '@toolloop/durable';
import { expectTranscriptValid } from '@toolloop/testing';
import { callIdOf, kindAt, placeOf, planOf, type Kind, type RunPlan } from './plan.js';
import type { Delivery, Receiver } from './receiver.js';
import { AUDIT_KEY, USERS } from './worker.application.js';

/** What was found when all was over. */
export interface Findings {
  readonly runs: number;
  readonly calls: number;
  /** Effects of calls that have a key or a transaction. */
  readonly keyed: number;
  /** Calls that were told a second time, and known again. */
  readonly repeated: number;
  /** Calls without a key of which nobody knows, and that a person did not want made again. */
  readonly unknown: number;
  /** How often such a call was made again, by a person's yes to just that. */
  readonly madeAgain: number;
  readonly approvals: number;
  /** How often a process went on with what another one had begun. */
  readonly takeovers: number;
  readonly auditEntries: number;
  /** Effects that did not take place though they were to, and runs that are gone. */
  readonly lost: number;
  /** Effects that took place more often than they were to. */
  readonly twice: number;
  readonly violations: readonly string[];
}

interface RunRow {
  readonly run_id: string;
  readonly tenant: string;
  readonly actor_id: string;
  readonly request: string;
  readonly status: string;
  readonly finish_reason: string | null;
  readonly epoch: number;
  readonly last_sequence: number;
}

/** Of a run. */
interface LeftBehind {
  readonly messages: readonly Message[];
  readonly asked: readonly Pending[];
}

/** Of one of its calls. */
interface CallLeft {
  readonly kind: Kind;
  readonly result: ToolMessage;
  readonly times: number;
  /** What people were asked about it, the latest last. */
  readonly answers: readonly Pending[];
}

const MOST_PENDING = 10_000;

/** Looks at what dead workers left in the database, and at what they did to the world. */
export class Inspection {
  private readonly violations: string[] = [];
  private readonly stores: SqlStores;
  private readonly runs: SqlRunLog;
  private readonly effects = new Map<string, Delivery[]>();
  private readonly counts = {
    runs: 0,
    calls: 0,
    keyed: 0,
    unknown: 0,
    madeAgain: 0,
    approvals: 0,
    takeovers: 0,
    auditEntries: 0,
    lost: 0,
    twice: 0,
  };

  private constructor(
    private readonly database: Database,
    private readonly receiver: Receiver,
  ) {
    this.stores = new SqlStores(database);
    this.runs = new SqlRunLog(database, new JobQueue(database));
  }

  static async of(
    durable: DurableOptions,
    receiver: Receiver,
    acknowledged: ReadonlySet<string>,
  ): Promise<Findings> {
    const database = await openDatabase(durable);
    try {
      return await new Inspection(database, receiver).all(acknowledged);
    } finally {
      await database.close();
    }
  }

  private async all(acknowledged: ReadonlySet<string>): Promise<Findings> {
    const bookings = await this.database.query<Delivery>('select place, tenant from bookings');
    for (const effect of [...this.receiver.performed, ...bookings])
      this.effects.set(effect.place, [...(this.effects.get(effect.place) ?? []), effect]);
    const rows = await this.database.query<RunRow>(
      'select run_id, tenant, actor_id, request, status, finish_reason, epoch, last_sequence from toolloop.runs',
    );
    const kept = new Set(rows.map(({ run_id: runId }) => runId));
    for (const runId of acknowledged) {
      if (kept.has(runId)) continue;
      this.counts.lost += 1;
      this.say(runId, 'it was acknowledged and is lost');
    }
    for (const row of rows) await this.inspect(row);
    for (const place of this.effects.keys()) this.say(place, 'an effect that belongs to no run');
    for (const { tenant } of USERS) await this.audit(tenant);
    const repeated = this.receiver.deliveries - this.receiver.performed.length;
    return { ...this.counts, repeated, violations: this.violations };
  }

  private async inspect(row: RunRow): Promise<void> {
    const plan = planOf((JSON.parse(row.request) as { readonly prompt: string }).prompt);
    this.counts.runs += 1;
    if (row.status !== 'ended' || row.finish_reason !== 'stop')
      this.say(plan.name, `it is ${row.status} (${row.finish_reason ?? '-'})`);
    const events = await this.runs.events(row.run_id, { after: 0, limit: 100_000 });
    this.inspectEvents(plan, row, events);
    const { conversations } = this.stores;
    const messages = await conversations.load({
      tenant: row.tenant,
      actorId: row.actor_id,
      conversationId: plan.name,
    });
    this.inspectTranscript(plan, messages);
    const asked = await this.stores.pending.list({
      tenant: row.tenant,
      runId: row.run_id,
      limit: MOST_PENDING,
    });
    for (let step = 0; step < plan.steps; step += 1)
      this.inspectCall(plan, step, row.tenant, { messages, asked });
  }

  /** No gap, and one end, which is last; the ends of parts that waited are none. */
  private inspectEvents({ name }: RunPlan, row: RunRow, events: readonly LoopEvent[]): void {
    const gap = events.findIndex(({ sequence }, index) => sequence !== index + 1);
    if (gap !== -1) this.say(name, `its events have a gap at ${gap + 1}`);
    if (events.length !== row.last_sequence)
      this.say(name, `it has ${events.length} events and says ${row.last_sequence}`);
    const ends = events.filter((event) => event.type === 'run-end');
    const final = ends.filter(({ finishReason }) => finishReason !== 'waiting');
    if (final.length !== 1 || events.at(-1) !== final[0])
      this.say(name, `it has ${final.length} ends, or the end is not last`);
    const waits = ends.length - final.length;
    this.counts.approvals += events.filter(({ type }) => type === 'approval-decision').length;
    this.counts.takeovers += Math.max(
      0,
      row.epoch - 1 - waits - (name.startsWith('start') ? 1 : 0),
    );
  }

  private inspectTranscript({ name, steps }: RunPlan, messages: readonly Message[]): void {
    try {
      expectTranscriptValid(messages);
    } catch (error) {
      this.say(name, String(error));
    }
    const results = messages.filter(({ role }) => role === 'tool');
    if (results.length !== steps)
      this.say(name, `its transcript has ${results.length} results instead of ${steps}`);
  }

  private inspectCall(
    plan: RunPlan,
    step: number,
    tenant: string,
    { messages, asked }: LeftBehind,
  ): void {
    const place = placeOf(plan, step);
    const kind = kindAt(plan, step);
    const effects = this.effects.get(place) ?? [];
    this.effects.delete(place);
    this.counts.calls += 1;
    if (kind !== 'look' && kind !== 'act') this.counts.keyed += effects.length;
    if (effects.some((effect) => effect.tenant !== tenant))
      this.say(place, `its effect was another tenant's`);
    const result = messages.filter((message) => message.role === 'tool')[step];
    const answers = asked.filter(({ binding }) => binding.toolCallId === callIdOf(step));
    if (kind !== 'order' && kind !== 'act' && answers.length > 0)
      this.say(place, `somebody was asked about a ${kind}`);
    // else it was said already
    if (result) this.inspectOutcome(place, { kind, result, times: effects.length, answers });
  }

  private inspectOutcome(place: string, { kind, result, times, answers }: CallLeft): void {
    const isError = result.isError === true;
    const told = JSON.stringify(result.content);
    const isUnknown = isError && kind === 'act' && told.includes('it is unknown whether');
    const madeAgain =
      kind === 'act' ? answers.filter(({ usedAt }) => usedAt !== undefined).length : 0;
    this.counts.madeAgain += madeAgain;
    if (isUnknown) this.inspectLeft(place, answers);
    if (isError && !isUnknown) this.say(place, `a ${kind} came to: ${told}`);
    const [least, most] = expectedEffects(kind, isError);
    this.counts.lost += Number(times < least);
    this.counts.twice += Number(times > most + madeAgain);
    if (times < least || times > most + madeAgain)
      this.say(place, `a ${kind} took place ${times} times, made again ${madeAgain} times`);
  }

  private inspectLeft(place: string, answers: CallLeft['answers']): void {
    this.counts.unknown += 1;
    if (answers.at(-1)?.answer?.decision !== 'deny')
      this.say(place, 'it was left, and nobody had said so');
  }

  private async audit(tenant: string): Promise<void> {
    const verification = await verifyAudit(this.entriesOf(tenant), { keys: AUDIT_KEY, tenant });
    if (verification.valid) this.counts.auditEntries += verification.entries;
    else this.say(`the audit of ${tenant}`, verification.message);
  }

  private async *entriesOf(tenant: string): AsyncGenerator<AuditEntry> {
    for (let from = 1; ;) {
      const page = await this.stores.audit.read(tenant, { from, limit: 1_000 });
      yield* page;
      if (page.length === 0) return;
      from += page.length;
    }
  }

  private say(where: string, problem: string): void {
    this.violations.push(`${where}: ${problem}`);
  }
}

/**
 * How often the effect of a call may have taken place where nobody had it made again, by how it
 * ended.
 */
function expectedEffects(kind: Kind, isError: boolean): readonly [least: number, most: number] {
  if (kind === 'look') return [0, 0];
  return kind === 'act' && isError ? [0, 1] : [1, 1];
}
