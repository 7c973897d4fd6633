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

/** The events of an answer as they come: together where one read of the network brought them. */
export interface EventBatches {
  /** Resolves to the next events; undefined at the end. Asked again only once it has answered. */
  next(): Promise<readonly ModelEvent[] | undefined>;
  /** `true` once it is known that nothing follows what came last, which saves asking. */
  readonly hasEnded?: boolean;
  /** Ends the answer early. What it reads from is closed. */
  close(): void | Promise<void>;
}

/**
 * An answer that can be read event by event, and by a reader who asks for it batch by batch: an
 * iteration costs some promises for each event and each model around the model.
 *
 * @example
 * for await (const event of new BatchedEvents(batches)) show(event);
 */
export class BatchedEvents implements AsyncGenerator<ModelEvent, void, undefined> {
  private events: Iterator<ModelEvent> = [][Symbol.iterator]();
  private hasEnded = false;

  /** @param signal ends the iteration: events that were read before are dropped */
  constructor(
    readonly batches: EventBatches,
    private readonly signal?: AbortSignal,
  ) {}

  async next(): Promise<IteratorResult<ModelEvent, void>> {
    while (!this.hasEnded && this.signal?.aborted !== true) {
      const event = this.events.next();
      if (event.done !== true) return event;
      const batch =
        this.batches.hasEnded === true
          ? undefined
          : await this.batches.next().catch((error: unknown) => {
              this.hasEnded = true;
              throw error;
            });
      if (batch === undefined) this.hasEnded = true;
      else this.events = batch[Symbol.iterator]();
    }
    return this.return();
  }

  async return(): Promise<IteratorResult<ModelEvent, void>> {
    this.hasEnded = true;
    await this.batches.close();
    return { done: true, value: undefined };
  }

  /** @throws the error that it is given */
  async throw(error: unknown): Promise<IteratorResult<ModelEvent, void>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/**
 * Returns the batches of an answer. The events of a model that gives them one by one come alone.
 */
export function batchesOf(events: AsyncIterable<ModelEvent>): EventBatches {
  if (events instanceof BatchedEvents) return events.batches;
  const iterator = events[Symbol.asyncIterator]();
  return {
    next: async () => {
      const next = await iterator.next();
      return next.done === true ? undefined : [next.value];
    },
    close: async () => void (await iterator.return?.()),
  };
}
