import type {
  ModelEvent,
  ModelFinish,
  ModelFinishReason,
  ModelResponseIdentity,
} from './language-model.js';
import {
  type AssistantMessage,
  type Citation,
  NO_USAGE,
  type ToolCall,
  type Usage,
} from './message.js';

/** A complete answer of a model. */
export interface ModelAnswer {
  readonly text: string;
  readonly reasoning: string;
  /** The assembled calls in the model's order, under the provider's ids. */
  readonly toolCalls: readonly ToolCall[];
  /** The sources that the model names, if it names any. */
  readonly citations?: readonly Citation[];
  /** The reason why the model stopped; `incomplete` when the events ended without one. */
  readonly finishReason: ModelFinishReason;
  /** The provider's own finish reason, if the events hold it. */
  readonly providerReason?: string;
  /** The tokens of the answer; {@link NO_USAGE} when the provider counted none. */
  readonly usage: Usage;
  readonly providerData?: AssistantMessage['providerData'];
  /** The model that answered, as `provider/modelId`, where it is not the one that was asked. */
  readonly answeredBy?: string;
  /** The provider's names for the answer. */
  readonly response?: ModelResponseIdentity;
}

/**
 * Assembles an answer from its events. Calls are taken from `tool-call` events, never from deltas.
 */
export class AnswerFold {
  private text = '';
  private reasoning = '';
  private usage = NO_USAGE;
  private end: Pick<ModelFinish, 'finishReason' | 'providerReason' | 'providerData' | 'response'> =
    { finishReason: 'incomplete' };
  private answeredBy: string | undefined;
  private readonly toolCalls: ToolCall[] = [];
  private readonly citations: Citation[] = [];

  /** The number of characters taken so far, reasoning included. */
  get size(): number {
    return this.text.length + this.reasoning.length;
  }

  take(event: ModelEvent): void {
    if (event.type === 'text-delta') this.text += event.text;
    else if (event.type === 'reasoning-delta') this.reasoning += event.text;
    else if (event.type === 'tool-call') this.takeCall(event);
    else if (event.type === 'citation') this.citations.push(event.citation);
    else if (event.type === 'model') this.answeredBy = `${event.provider}/${event.modelId}`;
    else if (event.type === 'usage') this.usage = countedUsage(event.usage);
    else if (event.type === 'finish') this.end = event;
  }

  /** The answer as far as it was received. */
  get answer(): ModelAnswer {
    const { text, reasoning, toolCalls, citations, usage, answeredBy } = this;
    const { finishReason, providerReason, providerData, response } = this.end;
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
      ...(response !== undefined && { response }),
    };
  }

  private takeCall({
    toolCallId,
    name,
    arguments: text,
  }: Extract<ModelEvent, { readonly type: 'tool-call' }>): void {
    this.toolCalls.push({ toolCallId, name, arguments: text });
  }
}

/**
 * Corrects counts of tokens that are negative, as no count is: they would give back what a run has
 * used.
 */
function countedUsage({ inputTokens, outputTokens, ...rest }: Usage): Usage {
  const { cachedInputTokens, cacheWriteInputTokens, reasoningTokens } = rest;
  return {
    ...rest,
    inputTokens: Math.max(0, inputTokens),
    outputTokens: Math.max(0, outputTokens),
    ...(cachedInputTokens !== undefined && { cachedInputTokens: Math.max(0, cachedInputTokens) }),
    ...(cacheWriteInputTokens !== undefined && {
      cacheWriteInputTokens: Math.max(0, cacheWriteInputTokens),
    }),
    ...(reasoningTokens !== undefined && { reasoningTokens: Math.max(0, reasoningTokens) }),
  };
}

/**
 * Reads an answer to its end and returns it as one value.
 *
 * @throws ModelError if the model fails while it answers
 */
export async function assemble(events: AsyncIterable<ModelEvent>): Promise<ModelAnswer> {
  const fold = new AnswerFold();
  for await (const event of events) fold.take(event);
  return fold.answer;
}
