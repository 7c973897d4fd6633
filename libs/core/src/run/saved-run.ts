import type { Toolset } from '../catalog/toolset.js';
import type { Policy, RunSpending } from '../contracts/policy.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { SubRunCheckpoint, SubRunProcessState } from '../plugins/sub-runs/sub-runs.js';
import type { ToolOutcome } from '../call/outcome.js';
import { type RunRehearsal, SAVED_REHEARSAL } from '../plugins/rehearsals/run-rehearsal.js';
import type { ResultPages } from '../plugins/pages/result-pages.js';
import { type DeclaredTools, SAVED_DECLARATIONS } from '../plugins/client-tools/declared-tools.js';
import { type RunEntityHandles, SAVED_HANDLES } from '../plugins/entities/entity-handles.js';
import { type RunInstances, SAVED_INSTANCES } from '../plugins/entities/run-instances.js';
import {
  type ProcessTools,
  processTools,
  savedTools,
  type SavedTools,
} from '../plugins/injection/saved-tools.js';
import { type RunApprovals, SAVED_APPROVALS } from '../plugins/approvals/run-approvals.js';
import { type SpendingLedger } from '../plugins/usage/spending.js';
import {
  byName,
  FLAG,
  type Form,
  list,
  NUMBER,
  object,
  partly,
  present,
  TEXT,
} from '../schema/saved-form.js';
import type { RunInputs, SavedInputs } from './run-inputs.js';
import { firstState, type LoopState, type PendingStep } from '../loop/loop-state.js';
import type { RunUse } from './run-use.js';
import type { CallAccount } from '../plugins/sessions/call-account.js';
import { type RunRoles, SAVED_ROLES } from './run-roles.js';
import { type SentTools } from './sent-tools.js';
import type { PluginsOfRun } from '../plugin/plugins.js';
import type { SavedSlot, SavedSlots } from '../plugin/saved-slot.js';

/** A waiting run as JSON. */
export function savedRun(
  state: LoopState,
  pending: PendingStep | undefined,
  run: SavableRun,
  place: SavedPlace,
): SavedRun {
  return {
    ...place,
    ...savedParts(state, pending, run),
    ...(!run.inputs.isEmpty && { inputs: run.inputs.save() }),
    tools: savedTools(state.toolset),
    spent: run.spending.calls,
  };
}

/** The position of a run among its events and in its conversation. */
export type SavedPlace = Pick<SavedRun, 'requestId' | 'conversationId' | 'past' | 'sequence'>;

/** The parts of a run that are saved with it. Each saves itself; `LiveRun` has them all. */
export interface SavableRun {
  readonly plan: {
    readonly narrowing: readonly Policy[];
    readonly isOneCall: boolean;
    readonly conversation?: object | undefined;
    readonly account?: Pick<CallAccount, 'scope'> | undefined;
    readonly declared: Pick<DeclaredTools, 'declarations'>;
    readonly execution: { readonly run: Pick<RunContext, 'state'> };
  };
  readonly approvals: RunApprovals;
  readonly handles: RunEntityHandles;
  readonly instances: RunInstances;
  readonly sentTools: SentTools;
  readonly inputs: RunInputs;
  readonly spending: SpendingLedger;
  readonly use: Pick<RunUse, 'innerSteps' | 'hasUnknownCost'>;
  readonly roles: Pick<RunRoles, 'assumed'>;
  readonly pages: ResultPages | undefined;
  readonly rehearsal: RunRehearsal | undefined;
  readonly plugins: Pick<PluginsOfRun, 'save'>;
}

/**
 * One part of a saved run. Its form stands beside the class that it saves, and `LiveRun` hands the
 * part to that class when the run is resumed.
 */
export interface RunPart<Value> {
  readonly form: Form<Value>;
  /** All of it; undefined where there is nothing to save. */
  save(run: SavableRun): Value | undefined;
}

/** The values of its plugins, each of which its plugin checks itself. */
const SAVED_SLOTS: Form<SavedSlots> = byName(
  object<SavedSlot>({ version: NUMBER, value: present() }),
);

/** The parts that every saved run has, by the names that they are saved under. */
export const PARTS = {
  approvals: part(SAVED_APPROVALS, ({ approvals }) => approvals.save()),
  handles: part(SAVED_HANDLES, ({ handles }) => handles.save()),
  instances: part(SAVED_INSTANCES, ({ instances }) => instances.save()),
  sentTools: part(list(TEXT), ({ sentTools }) => sentTools.save()),
  policies: part(list(partly<Policy>()), ({ plan }) => plan.narrowing),
};

/** The parts that are saved where there is something to say. */
export const OPTIONAL_PARTS = {
  innerSteps: part(NUMBER, ({ use }) => use.innerSteps || undefined),
  hasUnknownCost: part(FLAG, ({ use }) => use.hasUnknownCost || undefined),
  roles: part(SAVED_ROLES, ({ roles }) => roles.assumed),
  isOneCall: part(FLAG, ({ plan }) => plan.isOneCall || undefined),
  scope: part(TEXT, ({ plan }) => plan.account?.scope),
  clientTools: part(SAVED_DECLARATIONS, ({ plan: { declared } }) =>
    declared.declarations.length > 0 ? declared.declarations : undefined,
  ),
  rehearsal: part(SAVED_REHEARSAL, ({ rehearsal }) => rehearsal?.save()),
  slots: part(SAVED_SLOTS, ({ plugins }) => plugins.save()),
};

/** The parts of a run that do not grow with every call it makes. */
export type SavedParts = Omit<SavedRun, keyof SavedPlace | 'tools' | 'spent'>;

function part<Value>(form: Form<Value>, save: RunPart<Value>['save']): RunPart<Value> {
  return { form, save };
}

type FormValue<Part> = Part extends RunPart<infer Value> ? Value : never;

/** The saved form of each part. */
type PartsOfRun = { readonly [Name in keyof typeof PARTS]: FormValue<(typeof PARTS)[Name]> } & {
  readonly [Name in keyof typeof OPTIONAL_PARTS]?: FormValue<(typeof OPTIONAL_PARTS)[Name]>;
};

export function savedParts(
  state: LoopState,
  pending: PendingStep | undefined,
  run: SavableRun,
): SavedParts {
  const { step, messages, cut, usage, records, text: answered, corrections, emptyAnswers } = state;
  return {
    state: {
      step,
      messages,
      ...(cut && { cut }),
      usage,
      records,
      text: answered,
      corrections,
      emptyAnswers,
    },
    ...(pending && { pending: savedStep(pending, state.toolset) }),
    ...(run.inputs.taken > 0 && { inputs: { taken: run.inputs.taken, waiting: [] } }),
    ...partsOf(run),
  };
}

function partsOf(run: SavableRun): PartsOfRun {
  const saved = Object.entries({ ...PARTS, ...OPTIONAL_PARTS }).flatMap(([name, each]) => {
    const value = each.save(run);
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(saved) as PartsOfRun;
}

export function processStateOf(
  { toolset }: LoopState,
  { outcomes }: PendingStep,
  run: SavableRun,
): ProcessState {
  return {
    ...processTools(toolset),
    ...(run.pages && { pages: run.pages }),
    state: run.plan.execution.run.state,
    results: new Map(outcomes.map(({ record, live: result }) => [record.toolCallId, result])),
    subRuns: new Map(
      outcomes.flatMap(({ record, checkpoint }) =>
        checkpoint?.processState ? [[record.toolCallId, checkpoint.processState]] : [],
      ),
    ),
  };
}

/** The state in which a run stood still, with the tools as they are now, injected ones included. */
export function resumedState({ saved, processState }: ResumedRun, toolset: Toolset): LoopState {
  const { pending } = saved;
  const done = pending?.outcomes.map((outcome) => withLive(outcome, toolset, processState)) ?? [];
  return {
    ...firstState(toolset),
    ...saved.state,
    ...(pending && {
      pending: { ...pending, offered: offeredIn(pending, toolset), outcomes: done },
    }),
  };
}

function savedStep(
  { answer, offered, outcomes, limit, isPlanned }: PendingStep,
  toolset: Toolset,
): SavedStep {
  // The tool of a call that waits was offered, though it may be stopped for now.
  const waiting = outcomes.flatMap(({ isPending, record }) => (isPending ? record.id : []));
  const narrowed = offered !== toolset && {
    offered: [...new Set([...offered.reachable.map(({ id }) => id), ...waiting])],
  };
  return {
    answer,
    outcomes: outcomes.map(savedOutcome),
    isPlanned,
    ...narrowed,
    ...(limit && { limit }),
  };
}

/** Returns the tools of a step that was narrowed: calls of the others may not be made yet. */
function offeredIn({ offered }: SavedStep, toolset: Toolset): Toolset {
  if (!offered) return toolset;
  const ids = new Set(offered);
  return toolset.filter(({ spec }) => ids.has(spec.id));
}

/** Returns the part of an outcome that is JSON. */
export function savedOutcome({
  record,
  content,
  isPending,
  entities,
  matchedTriggers,
  labels,
  hidden,
  change,
  checkpoint,
}: ToolOutcome): SavedOutcome {
  const inner = checkpoint && { checkpoint: { saved: checkpoint.saved, args: checkpoint.args } };
  const seen = { ...(entities && { entities }), ...(matchedTriggers && { matchedTriggers }) };
  const told = { ...(labels && { labels }), ...(hidden && { hidden }), ...(change && { change }) };
  return { record, content, ...(isPending && { isPending }), ...seen, ...told, ...inner };
}

function withLive(
  outcome: SavedOutcome,
  toolset: Toolset,
  processState: ProcessState | undefined,
): ToolOutcome {
  const { checkpoint, ...rest } = outcome;
  const { toolCallId, id } = outcome.record;
  const tool = toolset.findCallable(id);
  const again = checkpoint && checkpointAgain(outcome, checkpoint, processState);
  return {
    ...rest,
    live: processState?.results.get(toolCallId),
    ...(tool && { tool }),
    ...(again && { checkpoint: again }),
  };
}

function checkpointAgain(
  { record }: SavedOutcome,
  checkpoint: NonNullable<SavedOutcome['checkpoint']>,
  processState: ProcessState | undefined,
): SubRunCheckpoint | undefined {
  const kept = processState?.subRuns.get(record.toolCallId);
  return (
    record.subRun && { ...checkpoint, record: record.subRun, ...(kept && { processState: kept }) }
  );
}

/**
 * The part of a run's state that is JSON. The tools are not: they are made anew, or kept beside it.
 */
export type SavedState = Pick<
  LoopState,
  'step' | 'messages' | 'cut' | 'usage' | 'records' | 'text' | 'corrections' | 'emptyAnswers'
>;

/** The outcome of a call, without the tool and its result. */
export type SavedOutcome = Pick<
  ToolOutcome,
  | 'record'
  | 'content'
  | 'isPending'
  | 'entities'
  | 'matchedTriggers'
  | 'labels'
  | 'hidden'
  | 'change'
> & {
  readonly checkpoint?: Pick<SubRunCheckpoint, 'saved' | 'args'>;
};

/** A step that is not over. */
export interface SavedStep extends Pick<
  PendingStep,
  'answer' | 'limit' | 'isPlanned' | 'checkpoints'
> {
  readonly outcomes: readonly SavedOutcome[];
  /** Rendered ids of what could be called in it. @default all of the run's tools */
  readonly offered?: readonly string[];
}

/** A run that stands still, whether it waits or its process is gone. */
export interface SavedRun extends PartsOfRun {
  readonly requestId: string;
  readonly conversationId?: string;
  /** The sequence of the last event. */
  readonly sequence: number;
  /** Messages that the conversation had before the run. */
  readonly past: number;
  readonly state: SavedState;
  /** The step that is not over. Absent where the run stands between two steps. */
  readonly pending?: SavedStep;
  readonly tools: SavedTools;
  readonly spent: RunSpending['calls'];
  /** The inputs of the user. @default none */
  readonly inputs?: SavedInputs;
}

/** Process state of a waiting run: what is no JSON, and lives as long as the process does. */
export interface ProcessState extends ProcessTools {
  /** Results that the model can read on in. */
  readonly pages?: ResultPages;
  readonly state: RunContext['state'];
  /** The results of the finished calls, by call id. */
  readonly results: ReadonlyMap<string, unknown>;
  /** The process state of the waiting sub-runs, by call id. */
  readonly subRuns: ReadonlyMap<string, SubRunProcessState>;
}

/** A run that stood still, about to continue. */
export interface ResumedRun {
  readonly runId: string;
  readonly saved: SavedRun;
  /** Absent in another process: then tools of entities are gone until a tool returns them again. */
  readonly processState?: ProcessState;
  /** The epoch of a suspended run when it was read: it is claimed only if that is unchanged. */
  readonly epoch?: number;
  /**
   * Set for a suspended run that another process had resumed: it may have made some of the calls.
   */
  readonly isTakenOver?: boolean;
  /** The name of the loop that opened it; absent for `ToolLoopService` itself. */
  readonly loop?: string;
}

/** The bytes that the results of the run keep, and of the sub-runs that wait in it. */
export function keptBytesOf({ pages, subRuns }: ProcessState): number {
  return [...subRuns.values()].reduce(
    (bytes, subRun) => bytes + subRun.keptBytes,
    pages?.keptBytes ?? 0,
  );
}

export function forgetPagesOf({ pages, subRuns }: ProcessState): void {
  pages?.forget();
  for (const subRun of subRuns.values()) subRun.forgetPages();
}
