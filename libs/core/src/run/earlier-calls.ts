import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { EarlierCalls } from '../plugin/run-view.js';
import type { SavedRun, SavedStep } from './saved-run.js';
import { fromSavedSubRun } from './saved-run-reader.js';

/**
 * Returns the calls that a run had made when it was saved. Those of a step that was not planned are
 * left out, since they are planned again.
 */
export function earlierCalls({ state, pending }: SavedRun): EarlierCalls {
  const planned = pending ? plannedIn(pending) : [];
  const made = new Set([...state.records, ...planned].map(({ toolCallId }) => toolCallId));
  const answered = state.messages.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );
  return {
    calls: [...answered, ...(pending?.answer.toolCalls ?? [])].filter(({ toolCallId }) =>
      made.has(toolCallId),
    ),
    ended: state.records,
    begun: [...planned, ...(pending ? madeWithin(pending) : [])],
  };
}

function plannedIn({ isPlanned, outcomes }: SavedStep): readonly ToolInvocationRecord[] {
  return isPlanned ? outcomes.map(({ record: { subRun: _within, ...record } }) => record) : [];
}

/** The calls of the sub-runs that a step has begun, as far as they came. */
function madeWithin({ outcomes, checkpoints = [] }: SavedStep): readonly ToolInvocationRecord[] {
  const ended = outcomes.flatMap(({ record, checkpoint }) =>
    checkpoint ? [] : (record.subRun?.toolCalls ?? []),
  );
  const latest = new Map([
    ...outcomes.flatMap(({ record, checkpoint }) =>
      checkpoint ? [[record.toolCallId, checkpoint.saved] as const] : [],
    ),
    ...checkpoints.map(({ toolCallId, saved }) => [toolCallId, saved] as const),
  ]);
  const broken = [...latest.values()].flatMap((saved) => {
    const earlier = earlierCalls(fromSavedSubRun(saved).saved);
    return [earlier.ended, earlier.begun].flat();
  });
  return [...ended, ...broken];
}
