import type { ApprovalTerms } from '@toolloop/protocol';
import type { PendingNotice } from '../../contracts/notice.js';
import type { Pending } from '../../contracts/pending.js';

/**
 * Returns the roles that are asked of those who may answer by now, each once; nothing where none
 * is.
 */
export function answeringRoles(record: Pending, now = Date.now()): Pick<PendingNotice, 'roles'> {
  const roles = [
    ...new Set(
      record.admitted.flatMap((terms) =>
        (terms.roles ?? []).concat(escalatedRoles(terms, record, now)),
      ),
    ),
  ];
  return roles.length > 0 ? { roles } : {};
}

/** Returns the roles of the people who may answer as well, by now. */
export function escalatedRoles(
  { escalation = [] }: ApprovalTerms,
  { createdAt }: Pick<Pending, 'createdAt'>,
  now = Date.now(),
): readonly string[] {
  return escalation.flatMap(({ afterMs, roles }) =>
    Date.parse(createdAt) + afterMs <= now ? roles : [],
  );
}

const REMIND_AFTER_MS = 14_400_000;

/**
 * Returns the time of the first notice about a record. A client is not reminded: its run shows it
 * what waits.
 */
export function firstNoticeAt(record: Pending): string | undefined {
  return record.kind === 'client' ? undefined : nextNoticeAt(record, Date.parse(record.createdAt));
}

/**
 * Returns the time of the first notice about a record behind a moment: a reminder, an escalation,
 * or the last one when it expires.
 */
export function nextNoticeAt(
  { admitted, createdAt, expiresAt }: Pending,
  after: number,
): string | undefined {
  const [from, until] = [Date.parse(createdAt), Date.parse(expiresAt)];
  if (after >= until) return undefined;
  const first = Math.min(
    ...(admitted.length > 0 ? admitted : [{}]).map(
      ({ remindAfterMs = REMIND_AFTER_MS }: ApprovalTerms) => remindAfterMs,
    ),
  );
  // those that were due by then
  const reminders = Math.max(0, Math.floor((after - from + first) / (2 * first)));
  const escalations = admitted
    .flatMap(({ escalation = [] }) => escalation.map(({ afterMs }) => from + afterMs))
    .filter((at) => at > after);
  return new Date(
    Math.min(until, from + first * (2 * reminders + 1), ...escalations),
  ).toISOString();
}
