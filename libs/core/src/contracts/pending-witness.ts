import type { PendingDecision } from '@toolloop/protocol';
import type { Pending, PendingAnswer } from './pending.js';

/**
 * The port that records answers, and attempts at them. If it rejects, the answer is not taken.
 *
 * @example
 * class LoggingWitness extends PendingWitness {
 *   async decided({ id }: Pending, { decision, decidedBy }: PendingAnswer): Promise<void> {
 *     await this.log.write({ id, decision, decidedBy });
 *   }
 *
 *   async refused({ id }: Pending, { code }: RefusedAnswer): Promise<void> {
 *     await this.log.write({ id, code });
 *   }
 * }
 */
export abstract class PendingWitness {
  abstract decided(record: Pending, answer: PendingAnswer): Promise<void>;
  /** Records an answer that was refused, of a person who may see the question. */
  abstract refused(record: Pending, attempt: RefusedAnswer): Promise<void>;
}

/** An answer that was refused. */
export interface RefusedAnswer {
  readonly decidedBy: string;
  readonly decision: PendingDecision;
  /** The reason: the code of the `PendingError`. */
  readonly code: string;
}
