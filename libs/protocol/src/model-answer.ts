import type { ModelEvent, ModelFinish, ModelFinishReason } from './language-model.js';
import { type AssistantMessage, type Citation, NO_USAGE, type ToolCall, type Usage } from './message.js';

/** One answer of a model, whole. */
export interface ModelAnswer {
  readonly text: string;
  readonly reasoning: string;
  /** The assembled calls in the model's order, under the provider's ids. */
  readonly toolCalls: readonly ToolCall[];
  /** The sources that the model names, if it does. */
  readonly citations?: readonly Citation[];
  /** `incomplete` when the events ended without saying why. */
  readonly finishReason: ModelFinishReason;
  /** The provider's own word for it, where the events tell. */
  readonly providerReason?: string;
  /** {@link NO_USAGE} when the provider counted nothing. */
  readonly usage: Usage;
  readonly providerData?: AssistantMessage['providerData'];
  /** `provider/modelId`, where that is not who was asked. */
  readonly answeredBy?: string;
}

/** Puts an answer together, event by event. Calls are taken from `tool-call` events, never from deltas. */
export class AnswerFold {
  private text = '';
  private reasoning = '';
  private usage = NO_USAGE;
  private end: Pick<ModelFinish, 'finishReason' | 'providerReason' | 'providerData'> = { finishReason: 'incomplete' };
  private answeredBy: string | undefined;
  private readonly toolCalls: ToolCall[] = [];
  private readonly citations: Citation[] = [];

  /** The number of characters taken by now, reasoning included. */
  get size(): number {
    return this.text.length + this.reasoning.length;
  }

  take(event: ModelEvent): void {
    if (event.type === 'text-delta') this.text += event.text;
    else if (event.type === 'reasoning-delta') this.reasoning += event.text;
    else if (event.type === 'tool-call') this.takeCall(event);
    else if (event.type === 'citation') this.citations.push(event.citation);
    else if (event.type === 'model') this.answeredBy = `${event.provider}/${event.modelId}`;
    else if (event.type === 'usage') this.usage = event.usage;
    else if (event.type === 'finish') this.end = event;
  }

  /** The answer as far as it has come. */
  get answer(): ModelAnswer {
    const { text, reasoning, toolCalls, citations, usage, answeredBy } = this;
    const { finishReason, providerReason, providerData } = this.end;
    return {
      text,
      reasoning,
      toolCalls: [...toolCalls],
      ...(citations.length > 0 && { citations: [...citations] }),
      finishReason,
      ...(providerReason !== undefined && { providerReason }),
      usage,
      ...(providerData !== undefined && { providerData }),
      ...(answeredBy !== undefined && { answeredBy }),
    };
  }

  private takeCall({ toolCallId, name, arguments: text }: Extract<ModelEvent, { readonly type: 'tool-call' }>): void {
    this.toolCalls.push({ toolCallId, name, arguments: text });
  }
}

/**
 * Reads an answer to its end, where it is wanted whole instead of as it comes.
 *
 * @throws what the events throw
 */
export async function assemble(events: AsyncIterable<ModelEvent>): Promise<ModelAnswer> {
  const fold = new AnswerFold();
  for await (const event of events) fold.take(event);
  return fold.answer;
}
