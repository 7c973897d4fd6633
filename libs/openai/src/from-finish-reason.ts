import type { ModelFinishReason } from '@toolloop/protocol';

/**
 * Maps a finish reason. Every reason outside of {@link UNFINISHED} ends an answer normally: `stop`,
 * `eos`, `tool_calls`, and unknown ones. OpenAI sends `stop` for a call that it was forced to make.
 */
export function fromFinishReason(reason: string, hasCalls: boolean): ModelFinishReason {
  return UNFINISHED.get(reason.toLowerCase()) ?? (hasCalls ? 'tool_calls' : 'stop');
}

/**
 * The finish reasons after which no call may run, even if the answer holds one. `abort` is vLLM's,
 * `insufficient_system_resource` DeepSeek's, `network_error` and `sensitive` Z.ai's, `model_length`
 * Mistral's; gateways pass on the reasons of Gemini (in capitals) and of Anthropic.
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['refusal', 'content_filter'],
  ['safety', 'content_filter'],
  ['recitation', 'content_filter'],
  ['blocklist', 'content_filter'],
  ['prohibited_content', 'content_filter'],
  ['spii', 'content_filter'],
  ['error', 'incomplete'],
  ['abort', 'incomplete'],
  ['insufficient_system_resource', 'incomplete'],
  ['network_error', 'incomplete'],
  ['malformed_function_call', 'incomplete'],
  ['cancelled', 'incomplete'],
  ['timeout', 'incomplete'],
]);

/** Maps the `incomplete_details.reason` of an incomplete response. */
export function fromIncompleteReason(reason: unknown): ModelFinishReason {
  return (typeof reason === 'string' ? UNFINISHED.get(reason) : undefined) ?? 'incomplete';
}
