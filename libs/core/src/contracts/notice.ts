import type { Pending, PendingKind } from './pending.js';

/** A notice about a record, and how often it was tried. */
export interface DueNotice {
  readonly record: Pending;
  /** The time at which it was to be told: ISO 8601, UTC. */
  readonly at: string;
  readonly attempts: number;
}

/** A notice that is to be told, or tried again, after so many milliseconds. */
export interface NextNotice extends Pick<DueNotice, 'at' | 'attempts'> {
  readonly dueInMs: number;
}

/**
 * A notice about what waits for people. It has no argument, no question and no answer: those who
 * may see them find them by the id.
 */
export interface PendingNotice {
  /** The same for every attempt at this notice, so that its receiver knows a repetition. */
  readonly noticeId: string;
  /**
   * `reminder`: it still waits. `escalation`: further people may answer from now on. `expired`: no
   * one has answered, and no one can any more.
   */
  readonly type: 'reminder' | 'escalation' | 'expired';
  readonly pendingId: string;
  readonly kind: PendingKind;
  readonly tenant: string;
  readonly runId: string;
  /** The declared id of the tool. */
  readonly tool: string;
  /** The id of the actor of the run. */
  readonly requesterId?: string;
  /** The roles of which one suffices to answer by now. Absent where the policy names none. */
  readonly roles?: readonly string[];
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly expiresAt: string;
}

/**
 * The port that tells people what waits for them. Every class that extends it, a provider of any
 * module, is told each notice until it resolves, at least once: it is tried again after a failure,
 * and by another process where one has died.
 *
 * @example
 * class MailNotifier extends Notifier {
 *   async notify({ noticeId, roles = [], pendingId }: PendingNotice): Promise<void> {
 *     await this.mailer.send({
 *       id: noticeId,
 *       to: await this.staff.withRoles(roles),
 *       subject: `${pendingId} waits for you`,
 *     });
 *   }
 * }
 */
export abstract class Notifier {
  /** The signal is aborted when the application has waited for long enough. */
  abstract notify(notice: PendingNotice, signal: AbortSignal): Promise<void>;
}
