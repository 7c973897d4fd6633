import { useEffect, useMemo, useSyncExternalStore } from 'react';
import type { ToolLoopClient } from '@toolloop/client';
import type { Notices } from './look-times.js';
import type { Observed } from './observed.js';
import { PendingList, type PendingState } from './pending-list.js';
import { RunReader, type RunState } from './run-reader.js';
import { Thread, type ThreadOptions, type ThreadState } from './thread.js';

/** Shows a value that is kept outside of React. */
export function useObserved<State>({ subscribe, snapshot }: Observed<State>): State {
  return useSyncExternalStore(subscribe, snapshot, snapshot);
}

/**
 * A conversation. Give the same `conversationId` to continue one; keep the client outside of the
 * component.
 *
 * @example
 * const { turns, status, thread } = useToolLoop(client);
 * return <form onSubmit={() => void thread.ask(text)}>…</form>;
 */
export function useToolLoop(
  client: ToolLoopClient,
  options: ThreadOptions = {},
): ThreadState & { readonly thread: Thread } {
  const { conversationId, durable, notices } = options;
  const thread = useMemo(
    () =>
      new Thread(client, {
        ...(conversationId !== undefined && { conversationId }),
        ...(durable !== undefined && { durable }),
        ...(notices && { notices }),
      }),
    [client, conversationId, durable, notices],
  );
  useEffect(() => () => thread.leave(), [thread]);
  return { ...useObserved(thread), thread };
}

/**
 * A durable run with its events: those that there are, then those that come.
 *
 * @example
 * const { view, reading } = useRun(client, runId);
 */
export function useRun(
  client: ToolLoopClient,
  runId: string,
  { notices }: { readonly notices?: Notices } = {},
): RunState {
  const reader = useMemo(() => new RunReader(client, runId, notices), [client, runId, notices]);
  useEffect(() => {
    const left = new AbortController();
    void reader.follow(left.signal);
    return () => left.abort();
  }, [reader]);
  return useObserved(reader);
}

/**
 * The requests that wait for the actor: approvals, questions, calls that a client is to make,
 * rehearsals.
 *
 * @example
 * const { requests, list } = usePending(client);
 * const approve = ({ request }) =>
 *   list.answer(request, { approvalId: request.approvalId, decision: 'approve' });
 */
export function usePending(
  client: ToolLoopClient,
  { everyMs }: { readonly everyMs?: number } = {},
): PendingState & { readonly list: PendingList } {
  const list = useMemo(() => new PendingList(client), [client]);
  useEffect(() => list.watch(everyMs), [list, everyMs]);
  return { ...useObserved(list), list };
}
