import type { ConversationEntry, WaitingRequest } from '@toolloop/client';
import { callPart, EMPTY_RUN, type RunPart, type RunView } from './run-view.js';
import type { Turn } from './thread.js';

/**
 * Makes the turns of a conversation from what is kept of it: each question, and the texts and calls
 * that answer it.
 */
export function keptTurns(entries: readonly ConversationEntry[]): readonly Turn[] {
  const starts = entries.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  return starts.flatMap((start, place) => {
    const question = entries[start];
    return question ? [turnOf(question, entries.slice(start + 1, starts[place + 1]))] : [];
  });
}

function turnOf(
  { position, text: question, messageId }: ConversationEntry,
  answer: readonly ConversationEntry[],
): Turn {
  const parts = answer.flatMap((entry, index) => partsOf(entry, index));
  const runId = answer.findLast(({ call }) => call?.runId !== undefined)?.call?.runId;
  const run: RunView = {
    ...EMPTY_RUN,
    status: 'ended',
    parts,
    ...(runId !== undefined && { runId }),
  };
  return {
    id: `kept ${position}`,
    question,
    ...(messageId !== undefined && { messageId }),
    run,
    isKept: true,
  };
}

function partsOf(
  { text, call, position: since }: ConversationEntry,
  step: number,
): readonly RunPart[] {
  if (call) return [callPart(call, { step, since })];
  return text === '' ? [] : [{ kind: 'text', step, text, since }];
}

/** Tells whether a kept turn has a call that waits. */
export function isWaiting({ run }: Turn): boolean {
  return run.parts.some((part) => part.kind === 'call' && !part.record);
}

/** Adds what the calls of a turn that wait have asked. */
export function withRequests(turn: Turn, requests: readonly WaitingRequest[]): Turn {
  const { run } = turn;
  const parts = run.parts.map((part): RunPart => {
    if (part.kind !== 'call' || part.record) return part;
    const found = requests.find(
      (one) => one.kind !== 'rehearsal' && one.request.toolCallId === part.toolCallId,
    );
    if (found?.kind === 'approval')
      return { ...part, request: { kind: 'approval', request: found.request } };
    if (found?.kind === 'question')
      return { ...part, request: { kind: 'question', request: found.request } };
    return found?.kind === 'client'
      ? { ...part, request: { kind: 'client', request: found.request } }
      : part;
  });
  const open = parts.find((part) => part.kind === 'call' && part.request !== undefined);
  const waits =
    open?.kind === 'call' && open.request
      ? { status: 'waiting' as const, waitingFor: open.request.kind }
      : {};
  return { ...turn, run: { ...run, parts, ...waits } };
}
