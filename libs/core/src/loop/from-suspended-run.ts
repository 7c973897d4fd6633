import type { SavedApprovals } from '../execution/run.approvals.js';
import type { SavedTombstones } from '../catalog/tombstones.js';
import type { SavedHandles } from '../injection/entity.handles.js';
import type { SavedInstances } from '../injection/run.instances.js';
import { InvalidRequestError } from '../protocol/errors.js';
import type { Policy, RunSpending } from '../protocol/policy.js';
import type { SuspendedRun } from '../protocol/suspended-run.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import type { SavedCounts } from './call.counter.js';
import type { LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';

/** What of a run's state is JSON. The tools are not: they are made anew, or kept beside it. */
export type SavedState = Pick<LoopState, 'step' | 'messages' | 'cut' | 'usage' | 'records' | 'text' | 'corrections' | 'emptyAnswers'>;

/** What became of a call, without the tool and what it returned. */
export type SavedOutcome = Pick<ToolOutcome, 'record' | 'content' | 'isPending'>;

/** The content of a suspended run. */
export interface SavedRun {
  readonly requestId: string;
  readonly conversationId?: string;
  /** Of the last event. */
  readonly sequence: number;
  /** Messages that the conversation had before the run. */
  readonly past: number;
  readonly state: SavedState;
  readonly pending: Pick<PendingStep, 'answer' | 'limit'> & { readonly outcomes: readonly SavedOutcome[] };
  readonly approvals: SavedApprovals;
  readonly handles: SavedHandles;
  readonly instances: SavedInstances;
  /** See {@link SentTools}. */
  readonly sentTools: readonly string[];
  /** What was removed from the toolset. */
  readonly gone: SavedTombstones;
  readonly policies: readonly Policy[];
  readonly counts: SavedCounts;
  readonly spent: RunSpending['calls'];
}

/** Reads what we wrote. Throws `InvalidRequestError` for a run of another version. */
export function fromSuspendedRun({ version, runId, content }: SuspendedRun): SavedRun {
  if (version !== 1)
    throw new InvalidRequestError('unknown_run', `The run ${runId} was suspended by another version of Toolloop and cannot go on.`);
  const saved = content as unknown as SavedRun;
  return {
    ...saved,
    state: { ...saved.state, records: saved.state.records.map(withDates) },
    pending: { ...saved.pending, outcomes: saved.pending.outcomes.map(revived) },
  };
}

function revived(outcome: SavedOutcome): SavedOutcome {
  return { ...outcome, record: withDates(outcome.record) };
}

function withDates(record: ToolInvocationRecord): ToolInvocationRecord {
  return { ...record, startedAt: new Date(record.startedAt), endedAt: new Date(record.endedAt) };
}
