import type { Toolset } from '../catalog/toolset.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import type { SavedOutcome, SavedRun } from './from-suspended-run.js';
import type { LiveRun } from './live.run.js';
import { firstState, type LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import type { LiveRemains, ResumedRun } from './suspended.runs.js';

/** Where a run stands among its events and its conversation. */
type SavedPlace = Pick<SavedRun, 'requestId' | 'conversationId' | 'past' | 'sequence'>;

/** What of a waiting run is JSON. */
export function savedRun(state: LoopState, pending: PendingStep, live: LiveRun, place: SavedPlace): SavedRun {
  const { step, messages, cut, usage, records, text, corrections, emptyAnswers } = state;
  const { answer, outcomes, limit } = pending;
  return {
    ...place,
    state: { step, messages, ...(cut && { cut }), usage, records, text, corrections, emptyAnswers },
    pending: {
      answer,
      outcomes: outcomes.map(savedOutcome),
      ...(limit && { limit }),
    },
    approvals: live.approvals.save(),
    handles: live.handles.save(),
    instances: live.instances.save(),
    sentTools: live.sentTools.save(),
    gone: state.toolset.tombstones,
    policies: live.plan.narrowing,
    counts: live.counter.save(),
    spent: live.spending.calls,
  };
}

/** What of it is not. */
export function remainsOf({ toolset, injected }: LoopState, { outcomes }: PendingStep, live: LiveRun): LiveRemains {
  const isInjected = new Set(injected);
  return {
    injected: toolset.specs.filter((spec) => isInjected.has(spec)).flatMap(({ id }) => toolset.find(id) ?? []),
    behindSurfaces: toolset.behindSurfaces,
    specs: injected,
    ...(live.pages && { pages: live.pages }),
    state: live.plan.execution.run.state,
    results: new Map(outcomes.map(({ record, live: result }) => [record.toolCallId, result])),
  };
}

/** The state in which a run waited, with the tools as they are now, injected ones included. */
export function resumedState({ saved, remains }: ResumedRun, toolset: Toolset): LoopState {
  const { answer, outcomes, limit } = saved.pending;
  const done = outcomes.map((outcome) => withLive(outcome, toolset, remains));
  return {
    ...firstState(toolset),
    ...saved.state,
    injected: remains?.specs ?? [],
    pending: { answer, offered: toolset, outcomes: done, ...(limit && { limit }) },
  };
}

function savedOutcome({ record, content, isPending }: ToolOutcome): SavedOutcome {
  return isPending ? { record, content, isPending } : { record, content };
}

function withLive(outcome: SavedOutcome, toolset: Toolset, remains: LiveRemains | undefined): ToolOutcome {
  const { toolCallId, id } = outcome.record;
  const tool = toolset.held(id);
  return { ...outcome, live: remains?.results.get(toolCallId), ...(tool && { tool }) };
}
