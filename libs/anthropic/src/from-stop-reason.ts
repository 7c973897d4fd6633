import type { ModelFinishReason } from '@toolloop/core';

/**
 * Reasons after which no call may run, though one may be there: with `max_tokens` its arguments are cut
 * (https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons).
 */
const UNFINISHED = new Map<string, ModelFinishReason>([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
]);

/**
 * Everything else ends an answer well: `end_turn`, `tool_use`, `stop_sequence`, and words not known yet. With `pause_turn` the provider's own tools
 * have not finished; where a call of ours is there too, they go on once it has its result.
 */
export function fromStopReason(reason: string, hasCalls: boolean): ModelFinishReason {
  if (reason === 'pause_turn' && !hasCalls) return 'incomplete';
  return UNFINISHED.get(reason) ?? (hasCalls ? 'tool_calls' : 'stop');
}
