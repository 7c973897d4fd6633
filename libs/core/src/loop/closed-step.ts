import { closedRecord } from '../execution/closed-record.js';
import { assistantMessage } from './assistant-message.js';
import type { LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import { toMessage } from './tool.step.js';

/** A run that waited and ended otherwise: what its last step did stays in the transcript, and what waited was not done. */
export function withClosedStep(state: LoopState, { answer, outcomes }: PendingStep): LoopState {
  if (outcomes.length === 0) return { ...state, pending: undefined }; // none of its calls was made, so the answer that asked for them goes with them
  const results = outcomes.map((outcome) => {
    if (!outcome.isPending) return outcome;
    const record = closedRecord(outcome.record);
    return { ...outcome, content: record.error.safeMessage, record };
  });
  return {
    ...state,
    pending: undefined,
    messages: [...state.messages, assistantMessage(answer), ...results.map((result) => toMessage(result, answer.calls))],
    records: [...state.records, ...results.map(({ record }) => record)],
  };
}
