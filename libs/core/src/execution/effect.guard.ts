import { Injectable, Logger } from '@nestjs/common';
import { CallJournal, type JournalClaim, type JournalKey, type JournalOutcome, type JournalStart } from '../protocol/call-journal.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure, interruptionFailure } from './call.failure.js';
import type { CallProgress } from './execution.scope.js';
import { Interruption, linkSignal, untilAborted } from './interruption.js';

/** A journal that has not answered by then must not keep the run from ending. */
const LONGEST_FINISH_MS = 10_000;

/** Stage 5: takes the idempotency key of a mutating call before its effect, so that the effect happens at most once. */
@Injectable()
export class EffectGuard {
  private readonly logger = new Logger(EffectGuard.name);

  constructor(private readonly journal: CallJournal) {}

  /** The outcome of a call that was already performed; undefined when it is this caller's to perform. Throws `unknown_outcome`. */
  async claim(tool: Tool, canonicalArgs: string, progress: CallProgress): Promise<JournalOutcome | undefined> {
    if (tool.spec.effect === 'read_only') return undefined;
    const { run } = progress.scope;
    const instance = tool.entity && { instanceId: tool.entity.instanceId };
    const start = { ...keyOf(progress), runId: run.runId, declaredId: tool.spec.declaredId, ...instance, args: canonicalArgs };
    const claim = await this.begin(tool, start, progress);
    switch (claim.status) {
      case 'started':
        return undefined;
      case 'finished':
        return claim.outcome;
      case 'in_progress':
        throw CallFailure.of(
          'unknown_outcome',
          'This call was begun before and nobody knows whether its effect took place. Do not repeat it; check first.',
        );
      case 'conflict':
        throw CallFailure.of('execution_failed', 'This request was already used for another call, so the call was not made.');
    }
  }

  /** Does not wait for the journal once the run is aborted; a key that is taken all the same is given the outcome that nothing happened. */
  private async begin(tool: Tool, start: JournalStart, progress: CallProgress): Promise<JournalClaim> {
    const claiming = this.journal.begin(start);
    try {
      return await untilAborted(claiming, progress.scope.signal);
    } catch (error) {
      if (!(error instanceof Interruption)) throw error;
      const outcome = { status: 'failed', failure: interruptionFailure(error) } as const;
      const release = ({ status }: JournalClaim) => (status === 'started' ? this.finish(tool, outcome, progress) : undefined);
      claiming.then(release).catch(() => undefined); // nobody waits for it any more
      throw error;
    }
  }

  /** Keeps what the call came to. When that fails the key stays taken, which errs on the side of no second effect. */
  async finish(tool: Tool, outcome: JournalOutcome, progress: CallProgress): Promise<void> {
    if (tool.spec.effect === 'read_only') return;
    const link = linkSignal(undefined, { ms: LONGEST_FINISH_MS, message: `It took longer than ${LONGEST_FINISH_MS} ms.` });
    try {
      await untilAborted(this.journal.finish(keyOf(progress), outcome), link.signal);
    } catch (error) {
      this.logger.error(`The outcome of ${tool.spec.declaredId} could not be kept (run ${progress.scope.run.runId}).`, error);
    } finally {
      link.release();
    }
  }
}

/** The same for every attempt of a call, and for every run of one request. */
export function idempotencyKeyOf({ request, scope }: CallProgress): string {
  return JSON.stringify([scope.actorId ?? null, scope.requestId, request.step, request.index]);
}

function keyOf(progress: CallProgress): JournalKey {
  return { tenant: progress.scope.run.tenant, idempotencyKey: idempotencyKeyOf(progress) };
}
