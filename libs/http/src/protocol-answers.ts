import { ConflictException, Injectable } from '@nestjs/common';
import { PendingService } from '@toolloop/core';
import { type PendingView } from '@toolloop/core/loop';
import { RunService } from '@toolloop/core/runs';
import {
  type ApprovalDecision,
  type ClientCallRequest,
  isJsonObject,
  type PendingReply,
} from '@toolloop/protocol';
import { namedCall, type NamedAnswer } from '@toolloop/ui-stream';
import type { Caller } from './http-options.js';

/** Gives the answers that come in the requests of chat protocols to what the caller's runs ask. */
@Injectable()
export class ProtocolAnswers {
  constructor(
    private readonly runs: RunService,
    private readonly pending: PendingService,
  ) {}

  /**
   * Gives the replies that a run still waits for. A client repeats the earlier ones in every
   * request.
   */
  async give(runId: string, replies: readonly PendingReply[], caller: Caller): Promise<void> {
    const asked = await this.pending.inbox(caller, { runId });
    for (const reply of replies) {
      if (asked.some((view) => isAbout(reply, view))) await this.runs.answer(runId, reply, caller);
    }
  }

  /**
   * Gives answers that name what they answer, and resolves to the run that asked.
   *
   * @throws {ConflictException} Where nothing of it waits.
   */
  async giveNamed(answers: readonly NamedAnswer[], caller: Caller): Promise<string> {
    const left = new Set(answers);
    let runId: string | undefined;
    for (let after: string | undefined; left.size > 0;) {
      const asked = await this.pending.inbox(caller, {
        limit: PAGE,
        ...(after !== undefined && { after }),
      });
      for (const answer of left) {
        const [given] = asked.flatMap((view) => toGiven(view, answer));
        if (!given) continue;
        left.delete(answer);
        runId = given.runId;
        await this.runs.answer(runId, given.reply, caller);
      }
      after = asked.at(-1)?.id;
      if (asked.length < PAGE) break;
    }
    if (runId !== undefined) return runId;
    throw new ConflictException({
      code: 'nothing_asked',
      message: 'Nothing of this waits for an answer of yours.',
    });
  }
}

/**
 * The requests that are looked through at a time. Those who decide for others may have thousands
 * that wait.
 */
const PAGE = 100;

function toGiven(
  view: PendingView,
  answer: NamedAnswer,
): { readonly runId: string; readonly reply: PendingReply }[] {
  const reply = replyFor(view, answer);
  return reply ? [{ runId: view.request.runId, reply }] : [];
}

function isAbout(reply: PendingReply, { kind, request }: PendingView): boolean {
  if (kind === 'approval') return 'approvalId' in reply && reply.approvalId === request.approvalId;
  if (kind === 'question') return 'questionId' in reply && reply.questionId === request.questionId;
  if (kind === 'rehearsal')
    return 'rehearsalId' in reply && reply.rehearsalId === request.rehearsalId;
  return 'toolCallId' in reply && reply.toolCallId === request.toolCallId;
}

/**
 * The reply to a request if the answer names it. A yes to a call is only what says so: a result of
 * a call is no consent.
 */
function replyFor(view: PendingView, answer: NamedAnswer): PendingReply | undefined {
  if (view.kind === 'approval')
    return names(answer, view.request.approvalId, view.request)
      ? decisionOf(view.request.approvalId, answer)
      : undefined;
  if (view.kind === 'question')
    return names(answer, view.request.questionId, view.request)
      ? answerOf(view.request.questionId, answer)
      : undefined;
  if (view.kind === 'client')
    return names(answer, view.request.pendingId, view.request)
      ? resultOf(view.request, answer)
      : undefined;
  const { rehearsalId } = view.request;
  const verdict = answer.id === rehearsalId ? verdictOf(answer) : undefined;
  return verdict && { rehearsalId, ...verdict };
}

/** A call is named with its run: those of other runs may have the same id. */
function names(
  { id }: NamedAnswer,
  requestId: string,
  { runId, toolCallId }: Pick<ClientCallRequest, 'runId' | 'toolCallId'>,
): boolean {
  return id === requestId || id === namedCall(runId, toolCallId);
}

function answerOf(questionId: string, { value, isRefused }: NamedAnswer): PendingReply {
  return isRefused ? { questionId, decision: 'deny' } : { questionId, answer: value };
}

function resultOf(
  { toolCallId, pendingId }: ClientCallRequest,
  { value, isRefused }: NamedAnswer,
): PendingReply {
  if (!isRefused) return { toolCallId, pendingId, result: value };
  return {
    toolCallId,
    pendingId,
    error: typeof value === 'string' ? value : 'The client could not make the call.',
  };
}

function decisionOf(approvalId: string, answer: NamedAnswer): PendingReply | undefined {
  const verdict = verdictOf(answer);
  return verdict && { approvalId, ...verdict };
}

/** A yes or a no; undefined for what does not say so. */
function verdictOf({
  value,
  isRefused,
}: NamedAnswer): Pick<ApprovalDecision, 'decision' | 'reason'> | undefined {
  if (isRefused) return { decision: 'deny' };
  if (!isJsonObject(value) || typeof value['approved'] !== 'boolean') return undefined;
  const { approved, reason } = value;
  return { decision: approved ? 'approve' : 'deny', ...(typeof reason === 'string' && { reason }) };
}
