import { type WireObject, wireObjectsIn } from '@toolloop/wire';
import { PROVIDER_CALLS } from './provider-tools.js';
import type { ResponsesCall } from './responses-wire.js';

/** What the transcript says of an answer, in the words of the API. */
export interface TranscriptAnswer {
  readonly text: string;
  readonly calls: readonly ResponsesCall[];
}

/** Calls that the provider performs and answers itself. Others would need an output, which nobody here makes, and are not sent back. */
const SELF_SUFFICIENT = new Set<unknown>(['function_call', 'compaction', 'tool_search_output', ...PROVIDER_CALLS]);

/**
 * The output items of an earlier answer as input: encrypted reasoning verbatim, in its place before what it led to. None when the transcript
 * says something else than the items; then it is the transcript that counts. A transcript can come from anywhere, so that only the kinds of item
 * an answer can have pass.
 */
export function replayedOutput(output: readonly WireObject[], answer: TranscriptAnswer): readonly WireObject[] {
  const ours = output.filter(({ type }) => type === 'function_call');
  const isSame = ours.length === answer.calls.length && ours.every(({ call_id: id }, index) => id === answer.calls[index]?.call_id);
  if (!isSame || textOf(output) !== answer.text) return [];
  const calls = answer.calls.values();
  return output
    .filter((item, index) => canReturn(item) && !(isReasoning(item) && leadsNowhere(output.slice(index + 1))))
    .map((item) => (item.type === 'function_call' ? Object.assign({}, item, calls.next().value) : item));
}

function canReturn(item: WireObject): boolean {
  if (item.type === 'message') return item.role === 'assistant';
  // Of reasoning that is neither encrypted nor in the open the provider would have to remember the id, and it stores nothing.
  if (isReasoning(item)) return typeof item.encrypted_content === 'string' || wireObjectsIn(item.content).length > 0;
  return SELF_SUFFICIENT.has(item.type) && item.execution !== 'client';
}

/** Reasoning whose next item is not sent back is refused. */
function leadsNowhere(following: readonly WireObject[]): boolean {
  const next = following.find((item) => !isReasoning(item));
  return next === undefined || !canReturn(next);
}

function isReasoning({ type }: WireObject): boolean {
  return type === 'reasoning';
}

function textOf(output: readonly WireObject[]): string {
  const parts = output.filter(({ type }) => type === 'message').flatMap(({ content }) => wireObjectsIn(content));
  return parts.map(({ type, text }) => (type === 'output_text' && typeof text === 'string' ? text : '')).join('');
}
