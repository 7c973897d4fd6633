import { closedRecord } from '../execution/closed-record.js';
import type { Message } from '../protocol/message.js';
import { assistantMessage } from './assistant-message.js';
import type { LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import { toMessage } from './tool.step.js';

/** A run that waited and ended otherwise: what its last step did stays in the transcript, before what the user added meanwhile; what waited was not done. */
export function withClosedStep(state: LoopState, { answer, outcomes }: PendingStep, inputs: readonly Message[]): LoopState {
  if (outcomes.length === 0) return { ...state, messages: [...state.messages, ...inputs], pending: undefined }; // none of its calls was made, so the answer that asked for them goes with them
  const results = outcomes.map((outcome) => {
    if (!outcome.isPending) return outcome;
    const record = closedRecord(outcome.record);
    return { ...outcome, content: record.error.safeMessage, record };
  });
  return {
    ...state,
    pending: undefined,
    messages: [...state.messages, assistantMessage(answer), ...results.map((result) => toMessage(result, answer.calls)), ...inputs],
    records: [...state.records, ...results.map(({ record }) => record)],
  };
}
