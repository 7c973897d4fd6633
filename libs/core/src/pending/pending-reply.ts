import {
  type ApprovalGroup,
  type ApprovalRequest,
  type ApprovalTerms,
  type Endorsable,
  isRecord,
  type JsonValue,
  type PendingReply,
} from '@toolloop/protocol';
import type {
  ApprovalAmendment,
  Pending,
  PendingAnswer,
  PendingBinding,
  PendingKind,
} from '../contracts/pending.js';
import { toJsonObject } from '../schema/canonical-json.js';
import { escalatedRoles } from './pending-notices.js';

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
 * Thrown for an answer that is not accepted: the person who gave it has to act. Over HTTP
 * `not_found` is a 404, the others are a 403, 409 or 400. `withdrawn`: the run has ended, so a
 * decision would have no effect. `held`: an operator has stopped the tool for now.
 */
export class PendingError extends Error {
  override readonly name = 'PendingError';

  constructor(
    readonly code:
      | 'not_found'
      | 'not_permitted'
      | 'already_answered'
      | 'expired'
      | 'withdrawn'
      | 'held'
      | 'invalid_answer',
    message: string,
  ) {
    super(message);
  }
}

/** A person who answers. */
export interface IdentifiedApprover {
  readonly id: string;
  readonly roles: readonly string[];
}

/** Tells whether a person may see what was asked: their own run asks it, or they may answer. */
export function maySee(record: Pending, approver: IdentifiedApprover): boolean {
  return approver.id === record.binding.requesterId || refusalFor(record, approver) === undefined;
}

/**
 * Finds the reason why a person may not answer. Where the policy names no one, only the actor of
 * the run may.
 */
export function refusalFor(
  { kind, binding, admitted, createdAt }: Pending,
  approver: IdentifiedApprover,
): string | undefined {
  const terms = admitted.length > 0 ? admitted : [{}];
  const refusal = terms
    .map((one) => refusalUnder(one, approver, { requesterId: binding.requesterId, createdAt }))
    .find((one) => one !== undefined);
  return refusal && `${refusal} ${MAY[kind]}.`;
}

const MAY: Readonly<Record<PendingKind, string>> = {
  approval: 'approve this call',
  client: 'give the result of this call',
  question: 'answer this question',
  rehearsal: 'approve this rehearsal',
};

/** Finds the reason why a person may not withdraw a call, which only its requester may. */
export function withdrawalRefusalFor(
  { binding }: Pending,
  { id }: IdentifiedApprover,
): string | undefined {
  return id === binding.requesterId
    ? undefined
    : 'Only the actor of the run may withdraw this call.';
}

function refusalUnder(
  terms: ApprovalTerms,
  { id, roles: held }: IdentifiedApprover,
  { requesterId, createdAt }: Pick<PendingBinding, 'requesterId'> & Pick<Pending, 'createdAt'>,
): string | undefined {
  const { roles, notRequester } = terms;
  if (notRequester && id === requesterId) return 'The actor of the run may not';
  if (escalatedRoles(terms, { createdAt }).some((role) => held.includes(role))) return undefined;
  if (roles && !roles.some((role) => held.includes(role)))
    return `Only a person with the role ${roles.join(' or ')} may`;
  if (!roles && !notRequester && id !== requesterId) return 'Only the actor of the run may';
  return undefined;
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

/**
 * Throws a `PendingError` for requests that are not of one group: what one person sees as one has
 * one decision.
 */
export function assertOneGroup(records: readonly Pending[]): void {
  const [first, ...others] = records.map((record) =>
    record.kind === 'approval' ? record.request.group : undefined,
  );
  if (first !== undefined && others.every((group) => group === first)) return;
  throw new PendingError(
    'invalid_answer',
    'These calls are not of one group, so each is decided by itself.',
  );
}

/** Resolves to all results once every one is there. Throws the first error only then. */
export async function settled<Result>(
  working: readonly Promise<Result>[],
): Promise<readonly Result[]> {
  await Promise.allSettled(working);
  return Promise.all(working);
}

/** Returns requests by their groups, in the order of the first of each. */
export function groupsOf(requests: readonly ApprovalRequest[]): readonly ApprovalGroup[] {
  const byGroup = new Map<string, ApprovalRequest[]>();
  for (const request of requests) {
    const { group = request.approvalId } = request;
    byGroup.set(group, [...(byGroup.get(group) ?? []), request]);
  }
  return [...byGroup].flatMap(([group, calls]) => {
    const [first] = calls;
    if (!first) return [];
    const { runId, path, step, tool, declaredId, reason } = first;
    return [{ group, runId, ...(path && { path }), step, tool, declaredId, reason, calls }];
  });
}

/** The sentences about what has expired. */
export const EXPIRED: Readonly<Record<PendingKind, string>> = {
  approval: 'The approval has expired, and its call was not made. Ask for it again.',
  client: 'The time for this call is over: its result is not taken any more.',
  question: 'The time for this question is over: no answer is taken any more.',
  rehearsal:
    'The time for this rehearsal is over, and nothing of it was performed. Rehearse again.',
};

/** The reason for which a run withdraws an approval and asks again. */
export const TOOL_CHANGED = 'The tool has changed since this was asked, so it is asked anew.';

/** Makes the error for an answer that comes too late. */
export function decidedAlready(answer: PendingAnswer | undefined): PendingError {
  if (answer?.decision === 'withdraw')
    return new PendingError('withdrawn', 'The actor of the run has withdrawn it.');
  if (!answer?.isWithdrawn) return new PendingError('already_answered', 'It was decided already.');
  if (answer.reason === TOOL_CHANGED) return new PendingError('withdrawn', TOOL_CHANGED);
  return new PendingError(
    'withdrawn',
    'The run that asked for it has ended, so there is nothing to decide any more.',
  );
}
