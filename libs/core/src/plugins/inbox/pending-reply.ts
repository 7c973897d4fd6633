import {
  type ApprovalRequest,
  type Endorsable,
  isRecord,
  type JsonValue,
  type PendingReply,
} from '@toolloop/protocol';
import type {
  ApprovalAmendment,
  Pending,
  PendingAnswer,
  PendingKind,
} from '../../contracts/pending.js';
import { toJsonObject } from '../../schema/canonical-json.js';
import { PendingError } from './pending-error.js';

/** Reads what a client sent. Throws a `PendingError` for anything that is no reply. */
export function readReply(reply: unknown): ReadReply {
  const {
    approvalId,
    rehearsalId,
    questionId,
    toolCallId,
    pendingId,
    decision,
    reason,
    result,
    error,
    answer,
  } = isRecord(reply) ? reply : {};
  if (approvalId !== undefined)
    return {
      kind: 'approval',
      id: approvalId,
      said: readDecision(decision, reason, ['approve', 'deny', 'withdraw']),
    };
  if (rehearsalId !== undefined)
    return {
      kind: 'rehearsal',
      id: rehearsalId,
      said: readDecision(decision, reason, ['approve', 'deny', 'withdraw']),
    };
  if (questionId !== undefined)
    return { kind: 'question', id: questionId, said: readAnswer(answer, decision, reason) };
  if (toolCallId === undefined) throw new PendingError('invalid_answer', NOTHING_SAID);
  const said =
    decision === undefined
      ? readResult(result, error)
      : readDecision(decision, reason, ['withdraw']);
  return { kind: 'client', toolCallId, ...(pendingId !== undefined && { id: pendingId }), said };
}

/** An answer as it is given. */
export type Said = Pick<PendingAnswer, 'decision' | 'reason' | 'value'>;

/** A reply, or the body of a client that may be one: every member is checked. */
export type GivenReply = PendingReply | { readonly [Name in ReplyMember]?: unknown };

type ReplyMember =
  | 'approvalId'
  | 'rehearsalId'
  | 'questionId'
  | 'answer'
  | 'toolCallId'
  | 'pendingId'
  | 'decision'
  | 'reason'
  | 'result'
  | 'error';

/** A reply as it was read: what it is about, and what it says. */
export interface ReadReply {
  readonly kind: PendingKind;
  readonly id?: unknown;
  readonly toolCallId?: unknown;
  readonly said: Said;
}

/** The longest reason of a decision, which the model reads. */
const MOST_REASON_CHARACTERS = 1_000;

const NOTHING_SAID =
  'Say what is answered: { approvalId, decision }, { rehearsalId, decision }, { questionId, answer } or { toolCallId, result }.';

/**
 * Reads the answer to a question. Throws a `PendingError` where there is none, or a decision beside
 * it.
 */
function readAnswer(answer: unknown, decision: unknown, reason: unknown): Said {
  if (decision !== undefined && answer === undefined)
    return readDecision(decision, reason, ['deny', 'withdraw']);
  if (answer === undefined || decision !== undefined)
    throw new PendingError(
      'invalid_answer',
      'Give either an answer, or "deny" or "withdraw" as the decision.',
    );
  return { decision: 'answer', value: jsonOf(answer) };
}

/**
 * Reads the result of a client's call, or the reason why there is none. Throws a `PendingError` for
 * both, and for neither.
 */
function readResult(result: unknown, error: unknown): Said {
  if (typeof error === 'string' && error.trim() !== '' && result === undefined)
    return { decision: 'deny', ...worded(error) };
  if (error !== undefined || result === undefined)
    throw new PendingError(
      'invalid_answer',
      'Give either the result of the call, or as its error a text that says why there is none.',
    );
  return { decision: 'answer', value: jsonOf(result) };
}

/** Reads a decision, one of these. Throws a `PendingError` for anything else. */
export function readDecision(
  decision: unknown,
  reason: unknown,
  words: readonly Said['decision'][],
): Said {
  const word = words.find((one) => one === decision);
  if (word) return { decision: word, ...worded(reason) };
  throw new PendingError(
    'invalid_answer',
    `The decision is not ${words.map((one) => `"${one}"`).join(' or ')}.`,
  );
}

function worded(reason: unknown): Pick<Said, 'reason'> {
  return typeof reason === 'string' && reason !== ''
    ? { reason: reason.slice(0, MOST_REASON_CHARACTERS) }
    : {};
}

/** Copies a value as JSON. Throws a `PendingError` for one that has none. */
function jsonOf(value: unknown): JsonValue {
  try {
    return toJsonObject({ value })['value'] ?? null;
  } catch {
    throw new PendingError('invalid_answer', 'The result is no JSON.');
  }
}

/**
 * Throws a `PendingError` for what the policy does not let an approver change, or trust, with this
 * answer.
 */
export function assertAmendment(
  record: Pending,
  { decision }: Said,
  { args, remember, endorse }: ApprovalAmendment,
): void {
  const {
    mayEdit,
    mayRemember,
    mayEndorse = {},
  } = record.kind === 'approval' ? record.request : NOT_AMENDED;
  const isWithdrawal = decision === 'withdraw';
  const refused = [
    {
      isWanted: args !== undefined,
      isLetIn: mayEdit && !isWithdrawal,
      problem: 'The arguments of this call may not be changed.',
    },
    { isWanted: remember === true, isLetIn: mayRemember && !isWithdrawal, problem: NOT_REMEMBERED },
    {
      isWanted: endorse !== undefined,
      isLetIn: decision === 'approve' && isOffered(endorse, mayEndorse),
      problem: NOT_TRUSTED,
    },
  ].find(({ isWanted, isLetIn }) => isWanted && !isLetIn);
  if (refused) throw new PendingError('invalid_answer', refused.problem);
}

const NOT_REMEMBERED = 'A decision about this call cannot be remembered for further calls.';
const NOT_TRUSTED = 'The policy lets no one trust that with a yes to this call.';
const NOT_AMENDED: Pick<ApprovalRequest, 'mayEdit' | 'mayRemember' | 'mayEndorse'> = {
  mayEdit: false,
  mayRemember: false,
};

/** Tells whether everything that an approver trusts is named by the request. */
function isOffered(endorse: Endorsable | undefined, offered: Endorsable): boolean {
  return isPart(endorse?.arguments, offered.arguments) && isPart(endorse?.sources, offered.sources);
}

function isPart(given: unknown, offered: readonly unknown[] = []): boolean {
  return (
    given === undefined ||
    (Array.isArray(given) && given.every((one: unknown) => offered.includes(one)))
  );
}

/** Reads the ids of calls that are decided together. Throws a `PendingError` for anything else. */
export function readTogether(ids: unknown): readonly string[] {
  const isList =
    Array.isArray(ids) && ids.length > 0 && ids.every((id: unknown) => typeof id === 'string');
  if (!isList)
    throw new PendingError(
      'invalid_answer',
      'Name the approvals that are decided together by their ids.',
    );
  return [...new Set<string>(ids)];
}
