import type { Citation } from './citation.js';
import type { ModelEvent, ModelFinishReason } from './language-model.js';
import type { AssistantMessage, ToolCall } from './message.js';
import { NO_USAGE, type Usage } from './usage.js';

/** One answer of a model, whole. */
export interface ModelAnswer {
  readonly text: string;
  readonly reasoning: string;
  /** The assembled calls in the model's order, under the provider's ids. */
  readonly toolCalls: readonly ToolCall[];
  /** Where the model says that it has the text from, if it does. */
  readonly citations?: readonly Citation[];
  /** `incomplete` when the events ended without saying why. */
  readonly finishReason: ModelFinishReason;
  /** {@link NO_USAGE} when the provider counted nothing. */
  readonly usage: Usage;
  readonly providerData?: AssistantMessage['providerData'];
}

/**
 * Reads an answer to its end, for whoever wants it whole instead of as it comes. Calls are taken from `tool-call` events, never from deltas. Throws
 * what the events throw.
 */
export async function assemble(events: AsyncIterable<ModelEvent>): Promise<ModelAnswer> {
  let [text, reasoning] = ['', ''];
  let usage = NO_USAGE;
  let end: Omit<Extract<ModelEvent, { readonly type: 'finish' }>, 'type'> = { reason: 'incomplete' };
  const toolCalls: ToolCall[] = [];
  const citations: Citation[] = [];
  for await (const event of events) {
    if (event.type === 'text-delta') text += event.text;
    else if (event.type === 'reasoning-delta') reasoning += event.text;
    else if (event.type === 'tool-call') toolCalls.push({ toolCallId: event.toolCallId, name: event.name, arguments: event.arguments });
    else if (event.type === 'citation') citations.push(event.citation);
    else if (event.type === 'usage') ({ usage } = event);
    else if (event.type === 'finish') end = event;
  }
  const { reason: finishReason, providerData } = end;
  const cited = citations.length > 0 && { citations };
  return { text, reasoning, toolCalls, ...cited, finishReason, usage, ...(providerData !== undefined && { providerData }) };
}
