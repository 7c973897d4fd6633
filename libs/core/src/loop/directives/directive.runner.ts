import { Inject, Injectable, Logger, type BeforeApplicationShutdown } from '@nestjs/common';
import { BoundedStores } from '../../execution/bounded.stores.js';
import { CallFailure, unexplained } from '../../execution/call.failure.js';
import { DirectiveAttempt } from '../../execution/directive.attempt.js';
import { Interruption, withinTime } from '../../execution/interruption.js';
import { ToolRunner } from '../../execution/tool.runner.js';
import { StorageUnavailableError } from '../../protocol/errors.js';
import type { DirectiveStore, DirectiveChange, DirectiveRecord, DirectiveReference, StopWork } from '../../protocol/directive.js';
import type { JsonObject } from '../../protocol/json.js';
import { TOOL_LOOP_OPTIONS } from '../tool-loop.tokens.js';
import type { ToolLoopOptions } from '../tool-loop.options.js';
import { DirectiveAudit } from './directive.audit.js';
import { DEFAULT_DIRECTIVES } from './directive.options.js';
import { DirectiveScopes } from './directive.scopes.js';
import { HeldLease } from './held.lease.js';
import { effectKeyOf, verdictOn, versionOf, type AttemptOutcome } from './directive.verdict.js';

const ATTEMPTS_WITHOUT_TOOL = 1;
/** Beside the tool's own time, which its guards and its `canCall` have as well. What takes longer has hung, and is anybody's. */
const MARGIN_MS = 60_000;
const PARTS_WITH_TIME_LIMIT = 3;
/** What is in hand when the application stops has so long to end. */
const LONGEST_STOP_MS = 10_000;

/** Performs directives, each once, in the name of who asked: through the one pipeline, which checks, permits and authorises the call anew. */
@Injectable()
export class DirectiveRunner implements BeforeApplicationShutdown {
  private readonly logger = new Logger(DirectiveRunner.name);
  private readonly shutdown = new AbortController();
  private mostMs = 0;
  private stop: StopWork | undefined;

  private readonly store: DirectiveStore;

  constructor(
    stores: BoundedStores,
    private readonly runner: ToolRunner,
    private readonly scopes: DirectiveScopes,
    private readonly audit: DirectiveAudit,
    @Inject(TOOL_LOOP_OPTIONS) private readonly options: ToolLoopOptions,
  ) {
    this.store = stores.directives;
  }

  /** Begins to work, where this process performs directives at all. */
  async start(longestCallMs: number): Promise<void> {
    const { perform, concurrency } = { ...DEFAULT_DIRECTIVES, ...this.options.directives };
    this.mostMs = longestCallMs * PARTS_WITH_TIME_LIMIT + MARGIN_MS;
    if (perform) this.stop = await this.store.work((reference) => this.perform(reference), concurrency);
  }

  /** Takes nothing new, and waits for what is in hand; what is not over by then is interrupted. */
  async beforeApplicationShutdown(): Promise<void> {
    const stopping = this.stop?.();
    if (!stopping) return;
    await withinTime(stopping, LONGEST_STOP_MS).catch((error: unknown) => this.logger.warn('Directives are interrupted.', error));
    this.shutdown.abort(new Interruption('aborted', 'The application stops.'));
    await withinTime(stopping, LONGEST_STOP_MS).catch((error: unknown) =>
      this.logger.warn('Directives still being performed are left until their leases end.', error),
    );
  }

  private async perform(reference: DirectiveReference): Promise<void> {
    const { heartbeatMs: everyMs, takeoverMs } = { ...DEFAULT_DIRECTIVES, ...this.options.directives };
    const record = await this.store.claim(reference, takeoverMs);
    if (!record) return; // somebody else has it, or it is over
    const lease = new HeldLease(() => this.store.extend(versionOf(record), takeoverMs), { everyMs, mostMs: this.mostMs });
    await this.performClaimed(record).finally(() => lease.end());
  }

  private async performClaimed(record: DirectiveRecord): Promise<void> {
    const change = await this.attempt(record);
    const more: JsonObject = change.failure ? { code: change.failure.code } : {};
    const isOver = change.status !== 'pending'; // the last word is kept before it counts
    if (isOver) await this.audit.note(change.event, record, more);
    const changed = await this.store.change(versionOf(record), change);
    if (changed && !isOver) await this.audit.note(change.event, record, more);
    if (!changed)
      this.logger.warn(`The directive ${record.intent.directiveId} was taken over meanwhile; the outcome of this attempt is not kept.`);
  }

  private async attempt(record: DirectiveRecord): Promise<DirectiveChange> {
    const attempt = new DirectiveAttempt(effectKeyOf(record), () => this.isHeld(record));
    const most = this.scopes.toolOf(record.intent)?.directive.attempts ?? ATTEMPTS_WITHOUT_TOOL;
    const terms = { ...DEFAULT_DIRECTIVES, ...this.options.directives, attempts: most };
    const outcome = await this.outcomeOf(record, attempt, most);
    const hasEnded = outcome.status === 'succeeded' || attempt.mayHaveEffect;
    const earlier = hasEnded ? undefined : await this.scopes.earlier(record);
    return verdictOn(outcome, { record, attempt, terms, ...(earlier && { earlier }) });
  }

  private async outcomeOf(record: DirectiveRecord, attempt: DirectiveAttempt, most: number): Promise<AttemptOutcome> {
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
        this.logger.error(`The directive ${record.intent.directiveId} failed (reference ${correlationId}).`, error);
      return { status: error instanceof CallFailure ? 'denied' : 'failed', error: failure };
    }
  }

  private async isHeld({ intent, epoch }: DirectiveRecord): Promise<boolean> {
    const now = await this.store.find(intent);
    return now?.status === 'performing' && now.epoch === epoch;
  }
}

/** Of an attempt that a store kept from being made: it counts for nothing. */
const PUT_OFF = { status: 'failed', error: { code: 'aborted', safeMessage: 'It could not be begun for now.' } } as const;

const ENDLESS = {
  status: 'failed',
  error: {
    code: 'unknown_outcome',
    safeMessage: 'It was begun again and again and never ended; it is unknown whether its effect took place.',
  },
} as const;
