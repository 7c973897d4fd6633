import { Injectable, Logger } from '@nestjs/common';
import { CallJournal, type JournalClaim, type JournalKey, type JournalOutcome, type JournalStart } from '../protocol/call-journal.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import type { ReadArguments } from './argument.reader.js';
import { CallFailure } from './call.failure.js';
import type { DirectiveAttempt } from './directive.attempt.js';
import type { CallProgress } from './execution.scope.js';
import { declaredKeyOf, isRepeatable, journalKeyOf } from './idempotency-key.js';
import { Interruption, untilAborted, withinTime } from './interruption.js';

/** A journal that has not answered by then must not keep the run from ending. */
const LONGEST_FINISH_MS = 10_000;

/** Stage 5: takes the idempotency key of a mutating call before its effect, so that the effect happens at most once. */
@Injectable()
export class EffectGuard {
  private readonly logger = new Logger(EffectGuard.name);

  constructor(private readonly journal: CallJournal) {}

  /** The outcome of a call that was already performed; undefined when it is this caller's to perform. Throws `unknown_outcome`. */
  async claim(tool: Tool, { built, canonical }: ReadArguments, progress: CallProgress): Promise<JournalOutcome | undefined> {
    if (isEffectless(tool)) return undefined;
    progress.idempotencyKey = declaredKeyOf(tool, built, progress);
    const start = startOf(tool, canonical, progress);
    const { performing } = progress.scope;
    const claim = await this.begin(tool, start, progress);
    switch (claim.status) {
      case 'started':
        if (performing) await this.hold(start, performing);
        return undefined;
      case 'finished':
        return claim.outcome;
      case 'in_progress':
        await this.goOn(tool, progress);
        return undefined;
      case 'conflict':
        throw CallFailure.of('execution_failed', conflictText(progress));
    }
  }

  /** Of a call that was begun before: whoever performs it knows its key again, or nobody knows what became of it. */
  private async goOn(tool: Tool, { request, scope }: CallProgress): Promise<void> {
    if (scope.performing && tool.directive?.maybeRan === 'repeat') return scope.performing.begin();
    if (!request.mayHaveRun || !isRepeatable(tool)) throw new CallFailure(BEGUN_BEFORE);
  }

  /** A directive that was lost meanwhile is somebody else's to perform, or cancelled. */
  private async hold(key: JournalKey, performing: DirectiveAttempt): Promise<void> {
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
    await this.settle(tool, progress, () => this.journal.finish(journalKeyOf(progress), outcome));
  }

  /** Keeps a failure, but for two: a call that was interrupted before it began may be made yet, and one of which nobody knows stays begun for ever. */
  async fail(tool: Tool, failure: ToolFailure, progress: CallProgress): Promise<void> {
    if (isEffectless(tool) || failure.code === 'unknown_outcome') return;
    const key = journalKeyOf(progress);
    const hasNotBegun = failure.code === 'timeout' || failure.code === 'aborted';
    // A directive keeps its failures itself, and may be attempted again.
    const hasNoEffect = progress.scope.performing !== undefined && failure.code !== 'invalid_output';
    await this.settle(tool, progress, () =>
      hasNotBegun || hasNoEffect ? this.journal.release(key) : this.journal.finish(key, { status: 'failed', failure }),
    );
  }

  /** When the journal fails the key stays taken, which errs on the side of no second effect. */
  private async settle(tool: Tool, { scope }: CallProgress, tell: () => Promise<void>): Promise<void> {
    try {
      await withinTime(tell(), LONGEST_FINISH_MS);
    } catch (error) {
      this.logger.error(`The outcome of ${tool.spec.declaredId} could not be kept (run ${scope.run.runId}).`, error);
    }
  }
}

const BEGUN_BEFORE: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage: 'This call was begun before and nobody knows whether its effect took place. Do not repeat it; check first.',
};
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

function startOf({ spec, entity }: Tool, args: string, progress: CallProgress): JournalStart {
  const instance = entity && { instanceId: entity.instanceId };
  return { ...journalKeyOf(progress), runId: progress.scope.run.runId, declaredId: spec.declaredId, ...instance, args };
}
