import { randomUUID } from 'node:crypto';
import { type BeforeApplicationShutdown, Injectable, Optional } from '@nestjs/common';
import { type JsonObject, StorageUnavailableError, type ToolFailure } from '@toolloop/protocol';
import { BoundedStores } from '../../call/bounded-stores.js';
import { CallFailure, unexplained } from '../../call/call-failure.js';
import { Interruption, withinTime } from '../../contracts/interruption.js';
import { longerThanStores } from '../../call/store-calls.js';
import { ToolRunner } from '../../call/tool-runner.js';
import { Plugins } from '../../plugin/plugins.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import {
  type DirectiveChange,
  type DirectiveRecord,
  type DirectiveReference,
  type DirectiveStore,
  type StopWork,
  versionOf,
} from '../../contracts/directive.js';
import { Logger } from '../../findings/logger.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import { HeldLease } from '../../run/held-lease.js';
import type { ToolLoopOptions } from '../../run/loop-options.js';
import { LoopSettings } from '../../run/loop-settings.js';
import { ToolExplorer } from '../../tools/discovery/tool-explorer.js';
import { AuditTrail } from '../audit/audit-trail.js';
import { type AttemptOutcome, effectKeyOf, MOST_PUT_OFFS, verdictOn } from './attempt-verdict.js';
import { DirectiveAttempt } from './directive-attempt.js';
import { DirectiveAudit } from './directive-audit.js';
import { directiveToolOf } from './directive-execution.js';
import { directiveOptionsOf } from './directive-options.js';
import { DirectiveScopes } from './directive-scopes.js';
import { HeldDirectives } from './held-directives.js';

/**
 * Performs directives, each once, in the name of who asked: through the one pipeline, which checks,
 * permits and authorises the call anew.
 */
@Injectable()
export class DirectiveRunner implements BeforeApplicationShutdown {
  private readonly logger = new Logger(DirectiveRunner.name);
  private readonly shutdown = new AbortController();
  private mostMs = 0;
  private stop: StopWork | undefined;
  private readonly held: HeldDirectives;

  private readonly store: DirectiveStore;
  private readonly audit: DirectiveAudit;
  private readonly options: ToolLoopOptions;
  private readonly scopes: DirectiveScopes;

  constructor(
    stores: BoundedStores,
    private readonly runner: ToolRunner,
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    identity: ActorIdentity,
    explorer: ToolExplorer,
    plugins: Plugins,
    @Optional() trail?: AuditTrail,
  ) {
    this.options = settings.options;
    this.scopes = new DirectiveScopes(catalog, settings, identity, explorer, plugins, stores);
    this.store = stores.directives;
    this.audit = new DirectiveAudit(trail);
    this.held = new HeldDirectives(stores.directives, settings.inForce);
  }

  /** Begins to work, where this process performs directives at all. */
  async start(longestCallMs: number): Promise<void> {
    const { perform, concurrency } = directiveOptionsOf(this.options.directives);
    this.mostMs = longestCallMs * PARTS_WITH_TIME_LIMIT + MARGIN_MS;
    if (!perform) return;
    const stopWork = await this.store.work((reference) => this.perform(reference), concurrency);
    const stopHeld = this.held.follow((reference) => this.perform(reference));
    this.stop = async () => void (await Promise.all([stopWork(), stopHeld()]));
  }

  /** Takes nothing new, and waits for what is in hand; what is not over by then is interrupted. */
  async beforeApplicationShutdown(): Promise<void> {
    const stopping = this.stop?.();
    if (!stopping) return;
    await withinTime(stopping, LONGEST_STOP_MS).catch((error: unknown) =>
      this.logger.warn('Directives are interrupted.', error),
    );
    this.shutdown.abort(new Interruption('aborted', 'The application stops.'));
    await withinTime(stopping, LONGEST_KEEPING_MS).catch((error: unknown) =>
      this.logger.warn('Directives still being performed are left until their leases end.', error),
    );
  }

  private async perform(reference: DirectiveReference): Promise<void> {
    if (await this.held.takes(reference)) return;
    const { heartbeatMs: everyMs, takeoverMs } = directiveOptionsOf(this.options.directives);
    const record = await this.store.acquire(reference, { owner: randomUUID(), forMs: takeoverMs });
    if (!record) return; // another process has it, or it is over
    const lease = new HeldLease(
      () => this.store.renew({ ...reference, ...record.lease }, takeoverMs),
      { everyMs, mostMs: this.mostMs },
    );
    await this.performClaimed(record).finally(() => lease.end());
  }

  private async performClaimed(record: DirectiveRecord): Promise<void> {
    const change = await this.attempt(record);
    const more: JsonObject = change.failure ? { code: change.failure.code } : {};
    const isOver = change.status !== 'pending'; // the last word is kept before it counts
    if (isOver) await this.audit.note(change.event, record, more);
    const changed = await this.store.change(versionOf(record), change);
    if (change.failure?.code === 'storage_unavailable' && isOver)
      this.logParked(record, change.failure);
    if (changed && !isOver) await this.audit.note(change.event, record, more);
    if (!changed)
      this.logger.warn(
        `The directive ${record.intent.directiveId} was taken over meanwhile; the outcome of this attempt is not kept.`,
      );
  }

  private logParked({ intent }: DirectiveRecord, { correlationId }: ToolFailure): void {
    const reference = correlationId === undefined ? '' : ` (reference ${correlationId})`;
    this.logger.error(
      `The directive ${intent.directiveId} was put off ${MOST_PUT_OFFS} times in a row and waits for an operator${reference}.`,
    );
  }

  private async attempt(record: DirectiveRecord): Promise<DirectiveChange> {
    const attempt = new DirectiveAttempt(effectKeyOf(record), () => this.isOurs(record));
    const most =
      directiveToolOf(this.catalog, record.intent)?.directive.attempts ?? ATTEMPTS_WITHOUT_TOOL;
    const terms = { ...directiveOptionsOf(this.options.directives), attempts: most };
    const outcome = await this.outcomeOf(record, attempt, most);
    if (outcome.status === 'succeeded' || attempt.mayHaveEffect)
      return verdictOn(outcome, { record, attempt, terms });
    try {
      const earlier = await this.scopes.earlier(record);
      return verdictOn(outcome, { record, attempt, terms, ...(earlier && { earlier }) });
    } catch (error) {
      if (!StorageUnavailableError.in(error)) throw error;
      // what an earlier attempt did is not known, so this one decides nothing
      return verdictOn(PUT_OFF, { record, attempt, terms });
    }
  }

  private async outcomeOf(
    record: DirectiveRecord,
    attempt: DirectiveAttempt,
    most: number,
  ): Promise<AttemptOutcome> {
    try {
      await this.audit.record('started', record);
      if (record.attempts > most) return ENDLESS;
      const { request, scope } = await this.scopes.open(record, attempt, this.shutdown.signal);
      const { record: made, unavailable } = await this.runner.exec(request, scope);
      return unavailable ? PUT_OFF : made;
    } catch (error) {
      if (StorageUnavailableError.in(error)) return PUT_OFF;
      const failure = error instanceof CallFailure ? error.failure : unexplained();
      const { correlationId } = failure;
      if (correlationId !== undefined)
        this.logger.error(
          `The directive ${record.intent.directiveId} failed (reference ${correlationId}).`,
          error,
        );
      return { status: error instanceof CallFailure ? 'denied' : 'failed', error: failure };
    }
  }

  private async isOurs({ intent, epoch }: DirectiveRecord): Promise<boolean> {
    const now = await this.store.find(intent);
    return now?.status === 'performing' && now.epoch === epoch;
  }
}

const ATTEMPTS_WITHOUT_TOOL = 1;
/**
 * Beside the tool's own time, which its guards and its `canCall` have as well. What takes longer
 * has hung, and is anybody's.
 */
const MARGIN_MS = 60_000;
const PARTS_WITH_TIME_LIMIT = 3;
/**
 * The time for the directives in progress to end when the application stops; and then, once they
 * are interrupted, for their outcomes to be kept: an entry of the audit, and the state.
 */
const LONGEST_STOP_MS = 10_000;
const LONGEST_KEEPING_MS = longerThanStores(2);

/** The outcome of an attempt that a store prevented: it does not count. */
const PUT_OFF = {
  status: 'failed',
  error: { code: 'storage_unavailable', safeMessage: 'It could not be begun for now.' },
} as const;

const ENDLESS = {
  status: 'failed',
  error: {
    code: 'unknown_outcome',
    safeMessage:
      'It was begun again and again and never ended; it is unknown whether its effect took place.',
  },
} as const;
