import type { ModelFinishReason } from '@toolloop/core';

/**
 * Reasons after which no call may run, though one may be there. `abort` is vLLM's, `insufficient_system_resource` DeepSeek's, `network_error` and
 * `sensitive` Z.ai's, `model_length` Mistral's.
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['error', 'incomplete'],
  ['abort', 'incomplete'],
  ['insufficient_system_resource', 'incomplete'],
  ['network_error', 'incomplete'],
]);

/** Everything else ends an answer well: `stop`, `eos`, `tool_calls`, and words not known yet. OpenAI says `stop` for a call it was forced to make. */
export function fromFinishReason(reason: string, hasCalls: boolean): ModelFinishReason {
  return UNFINISHED.get(reason) ?? (hasCalls ? 'tool_calls' : 'stop');
}

/** Why a response that calls itself incomplete is: `incomplete_details.reason`. */
export function fromIncompleteReason(reason: unknown): ModelFinishReason {
  return (typeof reason === 'string' ? UNFINISHED.get(reason) : undefined) ?? 'incomplete';
}
