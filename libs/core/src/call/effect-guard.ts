import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { ToolFailure } from '@toolloop/protocol';
import type {
  CallJournal,
  JournalClaim,
  JournalHold,
  JournalOutcome,
  JournalStart,
} from '../contracts/call-journal.js';
import { isUsable, type PendingAnswer, type PendingApproval } from '../contracts/pending.js';
import type { Tool } from '../contracts/tool.js';
import { Logger } from '../findings/logger.js';
import { type ApprovalQuestion, unaskableReason } from '../plugins/approvals/approval-question.js';
import type { AskedApprovals } from '../plugins/approvals/asked-approvals.js';
import { isExpired } from '../plugins/inbox/pending.service.js';
import type { BoundedStores } from './bounded-stores.js';
import { CallFailure, type MethodState, notBegun } from './call-failure.js';
import { advance, type AuthorisedCall } from './call.js';
import { declaredKeyOf, isRepeatable, journalKeyOf } from './idempotency-key.js';
import { Interruption, untilAborted } from '../contracts/interruption.js';
import type { EffectAttempt } from './outcome.js';
import { unknownOutcome } from './unknown-outcome.js';

/**
 * Stage 5: takes the idempotency key of a mutating call before its effect, so that the effect
 * happens at most once.
 */
export class EffectGuard {
  private readonly logger = new Logger(EffectGuard.name);
  private readonly journal: CallJournal;
  private readonly repeats: RepeatGate;

  constructor(stores: BoundedStores, approvals: AskedApprovals) {
    this.journal = stores.journal;
    this.repeats = new RepeatGate(approvals);
  }

  /**
   * Returns the outcome of a call that was performed before; undefined when the call is this
   * caller's to perform. `reconsider` where a person answered meanwhile whether to make it again:
   * then it has to be let in anew.
   *
   * @throws {CallFailure} `unknown_outcome`.
   * @throws {CallPending} Where the run waits for that answer.
   */
  async claim(call: AuthorisedCall): Promise<PerformedCall | Reconsidered | undefined> {
    const idempotencyKey = declaredKeyOf(call);
    if (idempotencyKey !== undefined) advance(call, { idempotencyKey });
    const start = startOf(call);
    const { performing } = call.scope;
    const claim = await this.answered(call, start);
    switch (claim.status) {
      case 'acquired':
        advance(call, { lease: claim.lease });
        if (performing) await this.hold({ ...start, ...claim.lease }, performing);
        return undefined;
      case 'stolen':
        advance(call, { hasTakenOver: true });
        return undefined;
      case 'finished':
        return claim.outcome;
      case 'in_progress':
        return this.again(call, start, claim.kept);
      case 'conflict':
        throw CallFailure.of('execution_failed', conflictText(call));
    }
  }

  /**
   * Asks the journal for the key. The process that has it may be alive, and is waited for as long
   * as it may take; unless it is known to be gone, as for a run that was taken over and for a
   * directive whose lease is over.
   */
  private async answered(
    call: AuthorisedCall,
    start: JournalStart,
  ): Promise<JournalClaim | Stolen> {
    const { request, scope } = call;
    const isGone = scope.performing !== undefined || request.mayHaveRun === true;
    for (let pause = FIRST_LOOK_MS; ; pause = Math.min(2 * pause, LONGEST_LOOK_MS)) {
      const claim = await this.acquire(call, start);
      if (claim.status !== 'in_progress') return claim;
      if (isGone ? !mayRepeat(call) : claim.leftMs <= 0) return claim;
      if (isGone && (await this.steal(call, start))) return { status: 'stolen' };
      await wait(Math.min(pause, claim.leftMs), undefined, { signal: scope.signal }).catch(() => {
        throw notBegun(scope.signal);
      });
    }
  }

  /**
   * A call that ended without a word: whether it took place is unknown, unless its transaction was
   * committed.
   */
  private async again(
    call: AuthorisedCall,
    start: JournalStart,
    kept: CommittedCall['kept'] | undefined,
  ): Promise<PerformedCall | Reconsidered | undefined> {
    if (!kept && (await this.repeats.authorise(call)) === 'reconsider')
      return { status: 'reconsider' };
    if (!(await this.steal(call, start))) return this.claim(call);
    advance(call, { hasTakenOver: true });
    return kept && { status: 'committed', kept };
  }

  /** False where the call has ended meanwhile. */
  private async steal(call: AuthorisedCall, start: JournalStart): Promise<boolean> {
    const { performing, signal } = call.scope;
    await performing?.begin();
    const lease = await untilAborted(this.journal.steal(start, start), signal);
    if (lease) advance(call, { lease });
    return lease !== undefined;
  }

  /**
   * An effect that another process has by now, or that was cancelled, is not this caller's to
   * perform.
   */
  private async hold(key: JournalHold, performing: EffectAttempt): Promise<void> {
    try {
      await performing.begin();
    } catch (error) {
      await this.journal.release(key);
      throw error;
    }
  }

  /**
   * Does not wait for the journal once the run is aborted; a key that is taken all the same is
   * given back.
   */
  private async acquire(call: AuthorisedCall, start: JournalStart): Promise<JournalClaim> {
    await call.scope.keepValues?.(call.request.call.toolCallId);
    const claiming = this.callsOf(call).acquire(start);
    try {
      return await untilAborted(claiming, call.scope.signal);
    } catch (error) {
      if (!(error instanceof Interruption)) throw error;
      const release = (claim: JournalClaim) =>
        claim.status === 'acquired'
          ? this.settle(call, () => this.journal.release({ ...start, ...claim.lease }))
          : undefined;
      claiming.then(release).catch(() => undefined); // the run does not wait for it any more
      throw error;
    }
  }

  /** A durable run begins and finishes its calls together with what it writes. */
  private callsOf({ scope }: AuthorisedCall): Pick<CallJournal, 'acquire' | 'finish'> {
    return scope.journal?.calls ?? this.journal;
  }

  /** Keeps the outcome of a call that succeeded. */
  async succeed(call: AuthorisedCall, outcome: JournalOutcome): Promise<void> {
    const hold = holdOf(call);
    if (hold) await this.settle(call, () => this.callsOf(call).finish(hold, outcome));
  }

  /**
   * Keeps the outcome of a call that failed. Where the method had answered, the effect took place
   * and only its answer is missing. Where it was not called the key is given back: the call may be
   * made yet. A call with an unknown outcome stays in flight.
   */
  async fail(call: AuthorisedCall, { failure, method }: FailedCall): Promise<void> {
    const hold = holdOf(call);
    if (!hold || failure.code === 'unknown_outcome') return;
    await this.settle(call, () => {
      const journal = this.callsOf(call);
      if (method === 'answered')
        return journal.finish(hold, {
          status: 'succeeded',
          content: failure.safeMessage,
          ui: null,
          failure,
        });
      // A directive keeps its failures itself, and may be attempted again.
      if (method === 'not_called' || call.scope.performing) return this.journal.release(hold);
      return journal.finish(hold, { status: 'failed', failure });
    });
  }

  /**
   * When the journal fails the key stays taken, which errs on the side of no second effect. One
   * that is slow for a run that was interrupted is still told.
   */
  private async settle({ tool, scope }: AuthorisedCall, tell: () => Promise<void>): Promise<void> {
    try {
      await tell();
    } catch (error) {
      if (error instanceof Interruption) return;
      this.logger.error(
        `The outcome of ${tool.spec.declaredId} could not be stored (run ${scope.run.runId}).`,
        error,
      );
    }
  }
}

/** Beside the time of its attempts, a call has this long until its outcome is kept. */
const KEEPING_MS = 1_000;
/** The longest lease of a call: a tool may have no limit at all. */
const LONGEST_CALL_MS = 86_400_000;
/** Between two looks at a call that is under way elsewhere: at first, and at most. */
const FIRST_LOOK_MS = 20;
const LONGEST_LOOK_MS = 500;

/**
 * A person's answer about a call whose outcome is unknown: a yes makes it again, once; anything
 * else leaves it.
 */
class RepeatGate {
  constructor(private readonly approvals: AskedApprovals) {}

  /**
   * Returns `repeat` where a person said yes, and `reconsider` where the answer came while the run
   * waited: what let the call in may have changed meanwhile.
   *
   * @throws {CallFailure} `unknown_outcome`.
   * @throws {CallPending} Where the run waits for an answer.
   */
  async authorise(call: AuthorisedCall): Promise<'repeat' | 'reconsider'> {
    const { scope, charge } = call;
    if (unaskableReason(scope) !== undefined) throw unknownOutcome();
    const { record, answer } = await this.question(call);
    if (answer) {
      await this.use(record, answer, call);
      return 'repeat';
    }
    if (isExpired(record)) throw unknownOutcome(UNDECIDED);
    if (charge) scope.spending.takeBack(charge); // it is counted when it is made
    if (!(await this.approvals.answered(record, call))) throw unknownOutcome(UNDECIDED);
    return 'reconsider';
  }

  /**
   * A yes that is used up was for the attempt before: the outcome of the one that followed is
   * unknown, too.
   */
  private async question(
    call: AuthorisedCall,
  ): Promise<{ readonly record: PendingApproval; readonly answer: PendingAnswer | undefined }> {
    const { scope, request } = call;
    const question = questionOf(call);
    const known = await this.approvals.findSame(
      scope.approvals.repeatOf(request.call.toolCallId),
      call,
      question,
    );
    if (known && known.usedAt === undefined) return { record: known, answer: known.answer };
    let record = await this.approvals.ask(call, question, known?.id);
    while (record.usedAt !== undefined)
      record = await this.approvals.ask(call, question, record.id);
    scope.approvals.askRepeat(request.call.toolCallId, record.id);
    return { record, answer: record.answer };
  }

  private async use(
    record: PendingApproval,
    answer: PendingAnswer,
    call: AuthorisedCall,
  ): Promise<void> {
    await this.approvals.tell(record, answer, call);
    if (!isUsable(answer)) throw unknownOutcome(denialText(answer));
    const refusal = await this.approvals.use(record);
    if (refusal !== undefined) throw unknownOutcome(`${refusal}, so it was not made again.`);
  }
}

const UNDECIDED = 'No decision was made in time whether to make it again.';

/** A failure, and how far the method had come. */
interface FailedCall {
  readonly failure: ToolFailure;
  readonly method: MethodState | undefined;
}

/** A call whose effect took place before. */
type PerformedCall = JournalOutcome | CommittedCall;

/**
 * One whose process died between the commit of its transaction and its last word, which is this
 * caller's to say.
 */
interface CommittedCall {
  readonly status: 'committed';
  readonly kept: { readonly result?: unknown };
}

/** A call that a process which is gone had begun is this caller's now. */
interface Stolen {
  readonly status: 'stolen';
}

/** The call is to be admitted anew. */
interface Reconsidered {
  readonly status: 'reconsider';
}

/**
 * Returns whether a call needs the journal. A read does not; nor does a sub-run, which changes
 * things by its calls alone, each of which has a key of its own.
 */
export const isGuarded = ({ spec, subRun }: Tool): boolean =>
  spec.effect !== 'read_only' && subRun === undefined;

/** The proof that its key is the call's; undefined for a call without an effect. */
function holdOf(call: AuthorisedCall): JournalHold | undefined {
  return call.lease && { ...journalKeyOf(call), ...call.lease };
}

/**
 * Without a key of its own a call conflicts only where a client used a request's id for another
 * request.
 */
function conflictText({ idempotencyKey }: AuthorisedCall): string {
  return idempotencyKey === undefined
    ? 'This request was already used for another call, so the call was not made.'
    : 'This was already done with other arguments, so the call was not made. Check what was done before.';
}

/**
 * Returns whether beginning the call once more does no harm, since its receiver recognises its key.
 */
function mayRepeat({ tool, scope }: AuthorisedCall): boolean {
  return scope.performing ? scope.performing.mayRepeat(tool) : isRepeatable(tool);
}

function startOf(call: AuthorisedCall): JournalStart {
  const { tool, input, scope } = call;
  const { spec, entity } = tool;
  const instance = entity && { instanceId: entity.instanceId };
  const { run, limits, retry = false } = scope;
  const forMs = Math.min(
    call.limits.toolCallMs * (retry ? limits.attempts : 1) + KEEPING_MS,
    LONGEST_CALL_MS,
  );
  return {
    ...journalKeyOf(call),
    owner: randomUUID(),
    forMs,
    runId: run.runId,
    declaredId: spec.declaredId,
    ...instance,
    args: input.canonical,
  };
}

const REASON =
  'It is unknown whether this call took place: it was begun before, and its outcome was not stored. Approve to make it again; deny to leave it.';
/** The name of the question, in the place of a policy's rule. */
const ASKS = 'unknown_outcome';

/**
 * Makes the question about such a call. The approvers whom policy names for the call decide on its
 * repetition as well; their answer is for this one call as it was begun.
 */
function questionOf({ decision }: AuthorisedCall): ApprovalQuestion {
  const { policyVersion = '', approval = [] } = decision ?? {};
  return {
    reason: REASON,
    rule: ASKS,
    policyVersion,
    terms: approval,
    mayEdit: false,
    mayRemember: false,
  };
}

function denialText({ reason }: PendingAnswer): string {
  return `A person decided not to make it again.${reason === undefined ? '' : ` They said: ${reason}`}`;
}
