import type {
  Message,
  MessageLabels,
  ToolCall,
  ToolInvocationRecord,
  ToolMessage,
} from '@toolloop/protocol';
import type { ToolOutcome } from '../call/outcome.js';
import type { Pending } from '../contracts/pending.js';
import type { Tool } from '../contracts/tool.js';
import { callOf } from '../plugins/injection/result-injection.js';
import { closedRecord } from '../plugins/sub-runs/closed-records.js';
import { OWN_WORDS, tellsNothing } from '../plugins/values/hide-values.js';
import { namesOutsiders } from '../schema/field-origins.js';
import { assistantMessage, type LoopState, type PendingStep } from './loop-state.js';

/** Makes the message for the model, under the name by which it called. */
export function toMessage(
  { record, content, tool, labels: own, hidden, change }: ToolOutcome,
  calls: readonly ToolCall[],
): ToolMessage {
  const { name: toolName } = callOf(record, calls) ?? { name: record.id };
  const told = {
    ...(record.error && { isError: true }),
    ...(tool?.subRun && { isModelText: true as const }),
    ...(tool ? { labels: labelsOf(tool, record, own) } : ownWordsOf(record)),
    ...(hidden && { hidden }),
    ...(change && { change }),
  };
  return { role: 'tool', toolCallId: record.toolCallId, toolName, content, ...told };
}

/**
 * An answer to a name that is no tool: it says no name that the model was not offered, and those
 * were counted then.
 */
function ownWordsOf({ error }: ToolInvocationRecord): Pick<ToolMessage, 'labels'> {
  return error && OWN_WORDS.has(error.code)
    ? { labels: { returns: 'trusted', reads: 'public' } }
    : {};
}

function labelsOf(
  { origin, spec }: Tool,
  { error, attachments }: ToolInvocationRecord,
  own: MessageLabels | undefined,
): MessageLabels {
  const code = error?.code;
  const isInOurWords =
    code === undefined
      ? tellsNothing({ origin, spec }) && !attachments
      : OWN_WORDS.has(code) && !own;
  if (isInOurWords) return { returns: 'trusted', reads: 'public' };
  if (own) return own;
  const { labels, outputSchema } = spec;
  const isOfApplication = origin.trusted && (code !== undefined || !namesOutsiders(outputSchema));
  return { returns: isOfApplication ? labels.returns : 'untrusted', reads: labels.reads };
}

/**
 * The messages of a step that waits, as its conversation has them until the run ends: the result of
 * a call that waits is that it does.
 */
export function waitingMessages(
  { answer, outcomes }: PendingStep,
  asked: readonly Pending[],
): readonly Message[] {
  if (outcomes.length === 0) return [];
  const results = outcomes.map((outcome) => {
    if (!outcome.isPending) return outcome;
    const open = asked.find(({ binding }) => binding.toolCallId === outcome.record.toolCallId);
    const content = JSON.stringify({
      status: 'waiting',
      ...(open && { id: open.id, expiresAt: open.expiresAt }),
    });
    return { ...outcome, content, labels: { returns: 'trusted', reads: 'public' } as const };
  });
  return [
    assistantMessage(answer),
    ...results.map((result) => toMessage(result, answer.toolCalls)),
  ];
}

/**
 * A run that waited and ended otherwise: what its last step did stays in the transcript, before
 * what the user added meanwhile; what waited was not done.
 */
export function abandonStep(
  state: LoopState,
  { answer, outcomes }: PendingStep,
  inputs: readonly Message[],
): LoopState {
  // none of its calls was made, so the answer that asked for them goes with them
  if (outcomes.length === 0)
    return { ...state, messages: [...state.messages, ...inputs], pending: undefined };
  const results = outcomes.map((outcome) => {
    if (!outcome.isPending) return outcome;
    const record = closedRecord(outcome.record);
    return { ...outcome, content: record.error.safeMessage, record };
  });
  // The calls of an approved rehearsal are no model's, and have no part in its transcript.
  const told =
    answer.toolCalls.length > 0
      ? [assistantMessage(answer), ...results.map((result) => toMessage(result, answer.toolCalls))]
      : [];
  return {
    ...state,
    pending: undefined,
    messages: [...state.messages, ...told, ...inputs],
    records: [...state.records, ...results.map(({ record }) => record)],
  };
}
