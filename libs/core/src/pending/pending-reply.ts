import { isRecord, type JsonValue, type PendingReply } from '@toolloop/protocol';
import type { PendingAnswer, PendingKind } from '../contracts/pending.js';
import { toJsonObject } from '../schema/canonical-json.js';

/** An answer as it is given. */
export type Said = Pick<PendingAnswer, 'decision' | 'reason' | 'value'>;

/** A reply, or the body of a client that may be one: every member is checked. */
export type GivenReply = PendingReply | { readonly [Name in ReplyMember]?: unknown };

type ReplyMember =
  'approvalId' | 'rehearsalId' | 'questionId' | 'answer' | 'toolCallId' | 'pendingId' | 'decision' | 'reason' | 'result' | 'error';

/** A reply as it was read: what it is about, and what it says. */
export interface ReadReply {
  readonly kind: PendingKind;
  readonly id?: unknown;
  readonly toolCallId?: unknown;
  readonly said: Said;
}

/** The longest reason of a decision, which the model reads. */
const MOST_REASON_CHARACTERS = 1_000;

/** Reads what a client sent. Throws a `PendingError` for anything that is no reply. */
export function readReply(reply: unknown): ReadReply {
  const { approvalId, rehearsalId, questionId, toolCallId, pendingId, decision, reason, result, error, answer } = isRecord(reply)
    ? reply
    : {};
  if (approvalId !== undefined)
    return { kind: 'approval', id: approvalId, said: readDecision(decision, reason, ['approve', 'deny', 'withdraw']) };
  if (rehearsalId !== undefined)
    return { kind: 'rehearsal', id: rehearsalId, said: readDecision(decision, reason, ['approve', 'deny', 'withdraw']) };
  if (questionId !== undefined) return { kind: 'question', id: questionId, said: readAnswer(answer, decision, reason) };
  if (toolCallId === undefined) throw new PendingError('invalid_answer', NOTHING_SAID);
  const said = decision === undefined ? readResult(result, error) : readDecision(decision, reason, ['withdraw']);
  return { kind: 'client', toolCallId, ...(pendingId !== undefined && { id: pendingId }), said };
}

const NOTHING_SAID =
  'Say what is answered: { approvalId, decision }, { rehearsalId, decision }, { questionId, answer } or { toolCallId, result }.';

/** Reads the answer to a question. Throws a `PendingError` where there is none, or a decision beside it. */
function readAnswer(answer: unknown, decision: unknown, reason: unknown): Said {
  if (decision !== undefined && answer === undefined) return readDecision(decision, reason, ['deny', 'withdraw']);
  if (answer === undefined || decision !== undefined)
    throw new PendingError('invalid_answer', 'Give either an answer, or "deny" or "withdraw" as the decision.');
  return { decision: 'answer', value: jsonOf(answer) };
}

/** Reads the result of a client's call, or the reason why there is none. Throws a `PendingError` for both, and for neither. */
function readResult(result: unknown, error: unknown): Said {
  if (typeof error === 'string' && error.trim() !== '' && result === undefined) return { decision: 'deny', ...worded(error) };
  if (error !== undefined || result === undefined)
    throw new PendingError('invalid_answer', 'Give either the result of the call, or as its error a text that says why there is none.');
  return { decision: 'answer', value: jsonOf(result) };
}

/** Reads a decision, one of these. Throws a `PendingError` for anything else. */
export function readDecision(decision: unknown, reason: unknown, words: readonly Said['decision'][]): Said {
  const word = words.find((one) => one === decision);
  if (word) return { decision: word, ...worded(reason) };
  throw new PendingError('invalid_answer', `The decision is not ${words.map((one) => `"${one}"`).join(' or ')}.`);
}

function worded(reason: unknown): Pick<Said, 'reason'> {
  return typeof reason === 'string' && reason !== '' ? { reason: reason.slice(0, MOST_REASON_CHARACTERS) } : {};
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
 * Thrown for an answer that is not accepted: the person who gave it has to act. Over HTTP `not_found` is a 404, the others are a 403, 409 or 400.
 * `withdrawn`: the run has ended, so a decision would have no effect. `held`: an operator has stopped the tool for now.
 */
export class PendingError extends Error {
  override readonly name = 'PendingError';

  constructor(
    readonly code: 'not_found' | 'not_permitted' | 'already_answered' | 'expired' | 'withdrawn' | 'held' | 'invalid_answer',
    message: string,
  ) {
    super(message);
  }
}
