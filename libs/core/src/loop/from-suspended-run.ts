import type { SavedApprovals } from '../execution/run.approvals.js';
import type { SavedHandles } from '../injection/entity.handles.js';
import type { SavedInstances } from '../injection/run.instances.js';
import type { SavedTools } from '../injection/saved.tools.js';
import { InvalidRequestError } from '../protocol/errors.js';
import type { JsonObject } from '../protocol/json.js';
import type { Policy, RunSpending } from '../protocol/policy.js';
import type { SuspendedRun } from '../protocol/suspended-run.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import type { BegunSubRun } from '../execution/sub-runs.js';
import type { SavedCounts } from './call.counter.js';
import type { LoopState } from './loop.state.js';
import type { SavedInputs } from './run.inputs.js';
import type { PendingStep } from './pending.step.js';
import type { AssumedRoles } from './run.roles.js';
import { wrongInRun } from './saved-shapes.js';

/** What of a run's state is JSON. The tools are not: they are made anew, or kept beside it. */
export type SavedState = Pick<LoopState, 'step' | 'messages' | 'cut' | 'usage' | 'records' | 'text' | 'corrections' | 'emptyAnswers'>;

/** What became of a call, without the tool and what it returned. */
export type SavedOutcome = Pick<ToolOutcome, 'record' | 'content' | 'isPending' | 'entities' | 'noticed' | 'labels'> & {
  /** Of a sub-run that waits. */
  readonly begun?: Pick<BegunSubRun, 'saved' | 'args'>;
};

/** A step that is not over. */
export interface SavedStep extends Pick<PendingStep, 'answer' | 'limit' | 'isPlanned' | 'begun'> {
  readonly outcomes: readonly SavedOutcome[];
  /** Rendered ids of what could be called in it. @default all of the run's tools */
  readonly offered?: readonly string[];
}

/** A run that stands still, whether it waits or its process is gone. */
export interface SavedRun {
  readonly requestId: string;
  readonly conversationId?: string;
  /** Of the last event. */
  readonly sequence: number;
  /** Messages that the conversation had before the run. */
  readonly past: number;
  readonly state: SavedState;
  /** The step that is not over. Absent where the run stands between two steps. */
  readonly pending?: SavedStep;
  readonly approvals: SavedApprovals;
  readonly handles: SavedHandles;
  readonly instances: SavedInstances;
  /** See {@link SentTools}. */
  readonly sentTools: readonly string[];
  readonly tools: SavedTools;
  readonly policies: readonly Policy[];
  readonly counts: SavedCounts;
  /** What the user added. @default nothing */
  readonly inputs?: SavedInputs;
  /** Of sub-runs. @default 0 */
  readonly innerSteps?: number;
  readonly spent: RunSpending['calls'];
  /** Whether `usage` lacks the cost of an answer. @default false */
  readonly hasUnknownCost?: boolean;
  /** Those that the run holds, where it has assumed any. */
  readonly roles?: AssumedRoles;
}

/** Of the form in which runs are kept: those that wait in a store, and the entries of durable ones. Raise it with every change of either. */
export const SAVED_RUN_VERSION: SuspendedRun['version'] = 1;

/** Reads what we wrote. Throws `InvalidRequestError` (`unreadable_run`) for a run of another version, and for what is no run. */
export function fromSuspendedRun({ version, runId, content }: Pick<SuspendedRun, 'version' | 'runId' | 'content'>): SavedRun {
  assertVersion(version, runId);
  return fromSavedJson(content, runId);
}

/** Throws `InvalidRequestError` (`unreadable_run`) for any version but ours. */
export function assertVersion(version: unknown, runId: string): void {
  if (version !== SAVED_RUN_VERSION)
    throw unreadable(runId, `it is of version ${JSON.stringify(version)}, and this is ${SAVED_RUN_VERSION}`);
}

/** A run that was kept in another form, or damaged: it says what to do. */
export function unreadable(runId: string, why: string): InvalidRequestError {
  return new InvalidRequestError(
    'unreadable_run',
    `The run ${runId} was stored in a form that this release of Toolloop cannot read: ${why}. Fork it in the release that stored it, or start it again.`,
  );
}

/** Reads the JSON of a saved run. Throws `InvalidRequestError` (`unreadable_run`) for what is none. */
export function fromSavedJson(content: JsonObject, runId: string): SavedRun {
  const wrong = wrongInRun(content);
  if (wrong !== undefined) throw unreadable(runId, `${wrong} is not what it must be`);
  const saved = content as unknown as SavedRun;
  const { state, pending } = saved;
  return {
    ...saved,
    state: { ...state, records: state.records.map(withDates) },
    ...(pending && { pending: { ...pending, outcomes: pending.outcomes.map(revived) } }),
  };
}

function revived(outcome: SavedOutcome): SavedOutcome {
  return { ...outcome, record: withDates(outcome.record) };
}

function withDates(record: ToolInvocationRecord): ToolInvocationRecord {
  const { subRun } = record;
  const inner = subRun?.toolCalls && { subRun: { ...subRun, toolCalls: subRun.toolCalls.map(withDates) } };
  return { ...record, startedAt: new Date(record.startedAt), endedAt: new Date(record.endedAt), ...inner };
}
