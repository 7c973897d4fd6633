import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import type { ToolFailure } from '@toolloop/protocol';
import type { ApprovalAnswer, ApprovalRecord } from '../contracts/approval.js';
import type { CallJournal, JournalClaim, JournalHold, JournalOutcome, JournalStart } from '../contracts/stores.js';
import type { Tool } from '../contracts/tool.js';
import { isExpired } from '../pending/approval.service.js';
import { type ApprovalQuestion, AskedApprovals, type AskedCall, nobodyFor } from './approvals.js';
import { BoundedStores } from './bounded-stores.js';
import { CallFailure, Interruption, type MethodState, refuseWhenAborted, untilAborted, withinTime } from './call-failure.js';
import { type CallProgress, limitsOf } from './call.js';
import type { DirectiveAttempt } from './directive-attempt.js';
import { declaredKeyOf, isRepeatable, journalHoldOf } from './idempotency-key.js';
import { PolicyGate } from './policy-gate.js';
import type { ReadArguments } from './read-arguments.js';

/** A journal that has not answered by then must not keep the run from ending. */
const LONGEST_FINISH_MS = 10_000;
/** Beside the time of its attempts, a call has this long until its outcome is kept. */
const KEEPING_MS = 1_000;
/** A tool may have no limit at all; nobody waits for one longer than a day. */
const LONGEST_CALL_MS = 86_400_000;
/** Between two looks at a call that is under way elsewhere: at first, and at most. */
const FIRST_LOOK_MS = 20;
const LONGEST_LOOK_MS = 500;

/** A person's word on a call of which nobody knows whether it took place: a yes makes it again, once; anything else leaves it. */
@Injectable()
export class RepeatGate {
  constructor(
    private readonly asked: AskedApprovals,
    private readonly policy: PolicyGate,
  ) {}

  /**
   * `repeat` where a person said yes, and `reconsider` where one answered while the run waited: what let the call in may have changed meanwhile.
   * Throws `unknown_outcome`, and `CallPending` where the run waits for an answer.
   */
  async authorise(call: AskedCall): Promise<'repeat' | 'reconsider'> {
    const { progress } = call;
    if (nobodyFor(progress.scope) !== undefined) throw left();
    const { record, answer } = await this.question(call);
    if (answer) {
      await this.use(record, answer, progress);
      return 'repeat';
    }
    if (isExpired(record)) throw left('Nobody decided in time whether to make it again.');
    this.policy.refund(progress); // it is counted when it is made
    if (!(await this.asked.answered(record, progress))) throw left('Nobody decided in time whether to make it again.');
    return 'reconsider';
  }

  /** A yes that is used up was for the attempt before: of the one that followed nobody knows either. */
  private async question(call: AskedCall): Promise<{ readonly record: ApprovalRecord; readonly answer: ApprovalAnswer | undefined }> {
    const { scope, request } = call.progress;
    const question = questionOf(call.progress);
    const known = await this.asked.find(scope.approvals.repeatOf(request.call.toolCallId), call, question);
    if (known && !known.isUsed) return { record: known, answer: known.answer };
    const record = await this.asked.ask(call, question);
    scope.approvals.askRepeat(request.call.toolCallId, record.request.approvalId);
    return { record, answer: undefined };
  }

  private async use(record: ApprovalRecord, answer: ApprovalAnswer, progress: CallProgress): Promise<void> {
    await this.asked.tell(record, answer, progress);
    if (answer.decision === 'deny') throw left(denialText(answer));
    const refusal = await this.asked.use(record);
    if (refusal !== undefined) throw left(`${refusal}, so it was not made again.`);
  }
}

/** Stage 5: takes the idempotency key of a mutating call before its effect, so that the effect happens at most once. */
@Injectable()
export class EffectGuard {
  private readonly logger = new Logger(EffectGuard.name);
  private readonly journal: CallJournal;

  constructor(
    stores: BoundedStores,
    private readonly repeats: RepeatGate,
  ) {
    this.journal = stores.journal;
  }

  /**
   * The outcome of a call that was already performed; undefined when it is this caller's to perform. `reconsider` where a person answered in between whether
   * to make it again: then it is let in anew. Throws `unknown_outcome`, and `CallPending` where the run waits for that answer.
   */
  async claim(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<PerformedCall | Reconsidered | undefined> {
    if (isEffectless(tool)) return undefined;
    progress.idempotencyKey = declaredKeyOf(tool, input.built, progress);
    progress.claimId = randomUUID();
    const start = startOf(tool, input.canonical, progress);
    const { performing } = progress.scope;
    const claim = await this.answered(tool, start, progress);
    switch (claim.status) {
      case 'started':
        if (performing) await this.hold(start, performing);
        return undefined;
      case 'taken_over':
        progress.hasTakenOver = true;
        return undefined;
      case 'finished':
        return claim.outcome;
      case 'in_progress':
        return this.again({ tool, input, progress }, start, claim.kept);
      case 'conflict':
        throw CallFailure.of('execution_failed', conflictText(progress));
    }
  }

  /**
   * What the key says. Who has it may be alive, and is waited for as long as they may take; unless somebody knows them to be gone, as of a run that was taken over
   * and of a directive whose lease is over.
   */
  private async answered(tool: Tool, start: JournalStart, progress: CallProgress): Promise<JournalClaim | TakenOver> {
    const { request, scope } = progress;
    const isGone = scope.performing !== undefined || request.mayHaveRun === true;
    for (let pause = FIRST_LOOK_MS; ; pause = Math.min(2 * pause, LONGEST_LOOK_MS)) {
      const claim = await this.begin(tool, start, progress);
      if (claim.status !== 'in_progress') return claim;
      if (isGone ? !mayRepeat(tool, progress) : claim.leftMs <= 0) return claim;
      if (isGone && (await this.takeOver(start, progress))) return { status: 'taken_over' };
      await wait(Math.min(pause, claim.leftMs), undefined, { signal: scope.signal }).catch(() => refuseWhenAborted(scope.signal));
    }
  }

  /** A call that ended without a word. Nobody knows whether it took place, unless its transaction was committed. */
  private async again(
    call: AskedCall,
    start: JournalStart,
    kept: CommittedCall['kept'] | undefined,
  ): Promise<PerformedCall | Reconsidered | undefined> {
    const { tool, input, progress } = call;
    if (!kept && (await this.repeats.authorise(call)) === 'reconsider') return { status: 'reconsider' };
    if (!(await this.takeOver(start, progress))) return this.claim(tool, input, progress);
    progress.hasTakenOver = true;
    return kept && { status: 'committed', kept };
  }

  /** False where the call has ended meanwhile. */
  private async takeOver(start: JournalStart, { scope }: CallProgress): Promise<boolean> {
    await scope.performing?.begin();
    return untilAborted(this.journal.takeOver(start, start.mostMs), scope.signal);
  }

  /** A directive that was lost meanwhile is somebody else's to perform, or cancelled. */
  private async hold(key: JournalHold, performing: DirectiveAttempt): Promise<void> {
    try {
      await performing.begin();
    } catch (error) {
      await this.journal.release(key);
      throw error;
    }
  }

  /** Does not wait for the journal once the run is aborted; a key that is taken all the same is given back. */
  private async begin(tool: Tool, start: JournalStart, progress: CallProgress): Promise<JournalClaim> {
    const claiming = this.journal.begin(start);
    try {
      return await untilAborted(claiming, progress.scope.signal);
    } catch (error) {
      if (!(error instanceof Interruption)) throw error;
      const release = ({ status }: JournalClaim) =>
        status === 'started' ? this.settle(tool, progress, () => this.journal.release(start)) : undefined;
      claiming.then(release).catch(() => undefined); // nobody waits for it any more
      throw error;
    }
  }

  /** Keeps what the call came to. */
  async succeed(tool: Tool, outcome: JournalOutcome, progress: CallProgress): Promise<void> {
    if (isEffectless(tool)) return;
    await this.settle(tool, progress, () => this.journal.finish(journalHoldOf(progress), outcome));
  }

  /**
   * Keeps what a call came to that failed. Where the method had answered, the effect took place and only its answer is missing. Where it was not called the key is given
   * back: the call may be made yet. A call with an unknown outcome stays begun.
   */
  async fail(tool: Tool, { failure, method }: FailedCall, progress: CallProgress): Promise<void> {
    if (isEffectless(tool) || failure.code === 'unknown_outcome') return;
    const key = journalHoldOf(progress);
    await this.settle(tool, progress, () => {
      if (method === 'answered') return this.journal.finish(key, { status: 'succeeded', content: failure.safeMessage, ui: null, failure });
      // A directive keeps its failures itself, and may be attempted again.
      if (method === 'not_called' || progress.scope.performing) return this.journal.release(key);
      return this.journal.finish(key, { status: 'failed', failure });
    });
  }

  /** When the journal fails the key stays taken, which errs on the side of no second effect. */
  private async settle(tool: Tool, { scope }: CallProgress, tell: () => Promise<void>): Promise<void> {
    try {
      await withinTime(tell(), LONGEST_FINISH_MS);
    } catch (error) {
      this.logger.error(`The outcome of ${tool.spec.declaredId} could not be stored (run ${scope.run.runId}).`, error);
    }
  }
}

/** A failure, and how far the method had come. */
interface FailedCall {
  readonly failure: ToolFailure;
  readonly method: MethodState | undefined;
}

/** A call whose effect took place before. */
type PerformedCall = JournalOutcome | CommittedCall;

/** One whose process died between the commit of its transaction and its last word, which is this caller's to say. */
interface CommittedCall {
  readonly status: 'committed';
  readonly kept: { readonly result?: unknown };
}

/** A call that somebody who is gone had begun is this caller's now. */
interface TakenOver {
  readonly status: 'taken_over';
}

/** To be let in anew. */
interface Reconsidered {
  readonly status: 'reconsider';
}

/** A read; or a sub-run, which changes things by its calls alone: each of them has a key of its own. */
function isEffectless({ spec, subRun }: Tool): boolean {
  return spec.effect === 'read_only' || subRun !== undefined;
}

/** Without a key of its own a call conflicts only where a client used a request's id for another request. */
function conflictText({ idempotencyKey }: CallProgress): string {
  return idempotencyKey === undefined
    ? 'This request was already used for another call, so the call was not made.'
    : 'This was already done with other arguments, so the call was not made. Check what was done before.';
}

/** Whether whoever performs the call knows its key again, so that beginning it once more does no harm. */
function mayRepeat(tool: Tool, { scope }: CallProgress): boolean {
  return scope.performing ? tool.directive?.maybeRan === 'repeat' : isRepeatable(tool);
}

function startOf({ spec, entity }: Tool, args: string, progress: CallProgress): JournalStart {
  const instance = entity && { instanceId: entity.instanceId };
  const { run, limits, retry = false } = progress.scope;
  const mostMs = Math.min(limitsOf(progress).toolCallMs * (retry ? limits.attempts : 1) + KEEPING_MS, LONGEST_CALL_MS);
  return { ...journalHoldOf(progress), runId: run.runId, declaredId: spec.declaredId, ...instance, args, mostMs };
}

const REASON =
  'It is unknown whether this call took place: it was begun before, and its outcome was not stored. Approve to make it again; deny to leave it.';
/** What asks, in the place of a rule of a policy. */
const ASKS = 'unknown_outcome';

/** Whom policy wants asked about such a call decides on its repetition as well; what they decide is for this one call as it was begun. */
function questionOf({ decision }: CallProgress): ApprovalQuestion {
  const { policyVersion = '', approval = [] } = decision ?? {};
  return { reason: REASON, rule: ASKS, policyVersion, terms: approval, mayEdit: false, mayRemember: false };
}

/** Of a call that was begun before. */
export function left(why?: string): CallFailure {
  const told = 'This call was begun before and it is unknown whether its effect took place. Do not repeat it; check first.';
  return CallFailure.of('unknown_outcome', why === undefined ? told : `${told} ${why}`);
}

function denialText({ reason }: ApprovalAnswer): string {
  return `A person decided not to make it again.${reason === undefined ? '' : ` They said: ${reason}`}`;
}
