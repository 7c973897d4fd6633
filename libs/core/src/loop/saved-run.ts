import type { Toolset } from '../catalog/toolset.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import { savedTools } from '../injection/saved.tools.js';
import type { BegunSubRun } from '../execution/sub-runs.js';
import type { SavedOutcome, SavedRun, SavedStep } from './from-suspended-run.js';
import type { LiveRun } from './live.run.js';
import { firstState, type LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import type { LiveRemains, ResumedRun } from './suspended.runs.js';

/** Where a run stands among its events and its conversation. */
export type SavedPlace = Pick<SavedRun, 'requestId' | 'conversationId' | 'past' | 'sequence'>;

/** What of a run does not grow with every call it makes. */
export type SavedParts = Omit<SavedRun, keyof SavedPlace | 'tools' | 'counts' | 'spent'>;

/** What of a waiting run is JSON. */
export function savedRun(state: LoopState, pending: PendingStep | undefined, live: LiveRun, place: SavedPlace): SavedRun {
  return {
    ...place,
    ...savedParts(state, pending, live),
    ...(!live.inputs.isEmpty && { inputs: live.inputs.save() }),
    tools: savedTools(state.toolset, state.injected),
    counts: live.counter.save(),
    spent: live.spending.calls,
  };
}

export function savedParts(state: LoopState, pending: PendingStep | undefined, live: LiveRun): SavedParts {
  const { step, messages, cut, usage, records, text, corrections, emptyAnswers } = state;
  return {
    state: { step, messages, ...(cut && { cut }), usage, records, text, corrections, emptyAnswers },
    ...(pending && { pending: savedStep(pending, state.toolset) }),
    approvals: live.approvals.save(),
    handles: live.handles.save(),
    instances: live.instances.save(),
    sentTools: live.sentTools.save(),
    policies: live.plan.narrowing,
    ...(live.inputs.taken > 0 && { inputs: { taken: live.inputs.taken, waiting: [] } }),
    ...(live.use.innerSteps > 0 && { innerSteps: live.use.innerSteps }),
    ...(live.use.hasUnknownCost && { hasUnknownCost: true }),
    ...(live.roles.assumed && { roles: live.roles.assumed }),
  };
}

/** What of it is not. */
export function remainsOf({ toolset, injected }: LoopState, { outcomes }: PendingStep, live: LiveRun): LiveRemains {
  const isInjected = new Set(injected);
  return {
    injected: [
      ...toolset.specs.filter((spec) => isInjected.has(spec)).flatMap(({ id }) => toolset.find(id) ?? []),
      ...toolset.behindSurfaces,
    ],
    specs: injected,
    laidDown: live.laidDown,
    ...(live.pages && { pages: live.pages }),
    state: live.plan.execution.run.state,
    results: new Map(outcomes.map(({ record, live: result }) => [record.toolCallId, result])),
    subRuns: new Map(outcomes.flatMap(({ record, begun }) => (begun?.remains ? [[record.toolCallId, begun.remains]] : []))),
  };
}

/** The state in which a run stood still, with the tools as they are now, injected ones included. */
export function resumedState({ saved, remains }: ResumedRun, toolset: Toolset): LoopState {
  const { pending } = saved;
  const done = pending?.outcomes.map((outcome) => withLive(outcome, toolset, remains)) ?? [];
  const before = new Map(remains?.specs.map((spec) => [spec.id, spec]));
  return {
    ...firstState(toolset),
    ...saved.state,
    injected: saved.tools.injected.flatMap((id) => toolset.find(id)?.spec ?? before.get(id) ?? []),
    ...(pending && { pending: { ...pending, offered: offeredIn(pending, toolset), outcomes: done } }),
  };
}

function savedStep({ answer, offered, outcomes, limit, isPlanned }: PendingStep, toolset: Toolset): SavedStep {
  const narrowed = offered !== toolset && { offered: offered.reachable.map(({ id }) => id) };
  return { answer, outcomes: outcomes.map(savedOutcome), isPlanned, ...narrowed, ...(limit && { limit }) };
}

/** Of a step that was narrowed the rest stays away: calls of it may not be made yet. */
function offeredIn({ offered }: SavedStep, toolset: Toolset): Toolset {
  if (!offered) return toolset;
  const ids = new Set(offered);
  return toolset.only(
    toolset.specs.filter(({ id }) => ids.has(id)),
    ({ spec }) => ids.has(spec.id),
  );
}

/** What of an outcome is JSON. */
export function savedOutcome({ record, content, isPending, entities, noticed, labels, begun }: ToolOutcome): SavedOutcome {
  const inner = begun && { begun: { saved: begun.saved, args: begun.args } };
  const seen = { ...(entities && { entities }), ...(noticed && { noticed }) };
  return { record, content, ...(isPending && { isPending }), ...seen, ...(labels && { labels }), ...inner };
}

function withLive(outcome: SavedOutcome, toolset: Toolset, remains: LiveRemains | undefined): ToolOutcome {
  const { begun, ...rest } = outcome;
  const { toolCallId, id } = outcome.record;
  const tool = toolset.held(id);
  const again = begun && begunAgain(outcome, begun, remains);
  return { ...rest, live: remains?.results.get(toolCallId), ...(tool && { tool }), ...(again && { begun: again }) };
}

function begunAgain(
  { record }: SavedOutcome,
  begun: NonNullable<SavedOutcome['begun']>,
  remains: LiveRemains | undefined,
): BegunSubRun | undefined {
  const kept = remains?.subRuns.get(record.toolCallId);
  return record.subRun && { ...begun, record: record.subRun, ...(kept && { remains: kept }) };
}
