import {
  type Citation,
  ModelError,
  type ModelFinishReason,
  type ModelResponseIdentity,
  type Usage,
} from '@toolloop/protocol';
import { isWireObject, toIdentity, WireAnswer, type WireObject } from '@toolloop/wire';
import { fromChatAnnotations, fromSources } from './from-annotations.js';
import { fromChatUsage } from './from-usage.js';
import { fromErrorPayload, fromProviderError, WHERE_TO_LOOK } from './from-provider.js';
import { fromFinishReason } from './from-finish-reason.js';
import { thoughtsIn } from './content-parts.js';
import { type AnswerOrigin, ProviderDataCollector } from './provider-data.js';
import { type AssembledCall, ToolCallAssembler } from './tool-call-assembler.js';

/** An answer to `POST /chat/completions`. */
export class ChatAnswer extends WireAnswer {
  override readonly kind = 'chat completion';
  override readonly whereToLook = WHERE_TO_LOOK;
  /** Usage may follow the finish reason, so only the stream's own end is the end. */
  override readonly hasEnded = false;
  private readonly calls = new ToolCallAssembler(this.batch);
  private readonly collector = new ProviderDataCollector();
  private finishReason: string | undefined;
  /** The first id and the first model that a chunk names: some gateways change them on the way. */
  private named: ModelResponseIdentity = {};
  private usage: Usage | undefined;
  /**
   * The usage in the places that Groq and Moonshot use; a usage beside the choices wins, and
   * nothing is added up.
   */
  private usageElsewhere: Usage | undefined;
  private readonly citations: Citation[] = [];
  private sources: readonly Citation[] = [];
  /** `true` once a delta had content. */
  private hasSpoken = false;

  constructor(private readonly origin: AnswerOrigin) {
    super();
  }

  override get providerReason(): string | undefined {
    return this.finishReason;
  }

  override get identity(): ModelResponseIdentity {
    return this.named;
  }

  override get reportedUsage(): Usage | undefined {
    return this.usage ?? this.usageElsewhere;
  }

  override toFailure(payload: string): ModelError {
    return fromErrorPayload(payload);
  }

  /**
   * Takes a chunk of a stream. A `message` repeats the deltas; it counts where a server streams no
   * delta at all.
   */
  override takeChunk(chunk: WireObject): void {
    this.take(chunk, 'delta');
  }

  override recognises(body: WireObject): boolean {
    return 'choices' in body || 'error' in body;
  }

  override takeWhole(completion: WireObject): void {
    this.take(completion, 'message');
  }

  override finish(): void {
    const calls = this.calls.finish();
    const reason = this.reasonFor(calls);
    if ((reason === 'stop' || reason === 'tool_calls') && this.calls.hasNameless) {
      this.fail(
        new ModelError('The provider sent a tool call without a name.', {
          code: 'invalid_answer',
          retryable: true,
        }),
      );
      return;
    }
    for (const { toolCallId, name, arguments: text } of calls)
      this.batch.push({ type: 'tool-call', toolCallId, name, arguments: text });
    // Sources are listed whole in every chunk, and repeat what annotations say in the text.
    const citations = this.citations.length > 0 ? this.citations : this.sources;
    for (const citation of citations) this.batch.push({ type: 'citation', citation });
    const usage = this.reportedUsage;
    if (usage !== undefined) this.batch.push({ type: 'usage', usage });
    const data = this.collector.finish(this.origin, calls);
    this.batch.push({
      type: 'finish',
      finishReason: reason,
      ...(data !== undefined && { providerData: data }),
    });
  }

  private take(chunk: WireObject, content: 'delta' | 'message'): void {
    if (this.failure !== undefined) return;
    // n is 1 in every request, and an old text-generation-inference counts tokens in `index`: the
    // first choice is ours whatever its index.
    const choice: unknown = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
    if (isWireObject(choice)) this.takeChoice(choice, content);
    this.named = { ...toIdentity(chunk), ...this.named };
    if (chunk.citations !== undefined) this.sources = fromSources(chunk.citations);
    this.usage = fromChatUsage(chunk.usage) ?? this.usage;
    if (isWireObject(chunk.x_groq)) this.takeUsageElsewhere(chunk.x_groq);
    this.failFor(chunk.error);
  }

  private takeChoice(choice: WireObject, content: 'delta' | 'message'): void {
    const delta = choice[content] ?? (this.hasSpoken ? undefined : choice.message);
    if (isWireObject(delta)) this.takeDelta(delta);
    const { finish_reason: reason } = choice;
    if (typeof reason === 'string' && reason !== '') this.finishReason = reason;
    this.takeUsageElsewhere(choice);
    this.failFor(choice.error);
  }

  private takeUsageElsewhere({ usage }: WireObject): void {
    this.usageElsewhere = fromChatUsage(usage) ?? this.usageElsewhere;
  }

  private failFor(error: unknown): void {
    if (error !== undefined && error !== null) this.fail(fromProviderError(error));
  }

  private takeDelta(delta: WireObject): void {
    this.hasSpoken ||= saysSomething(delta);
    this.takeReasoning(delta);
    if (typeof delta.content === 'string') this.say(delta.content);
    if (Array.isArray(delta.content)) this.takeParts(delta.content);
    if (typeof delta.refusal === 'string') this.collector.refusal += delta.refusal;
    if (delta.annotations !== undefined)
      this.citations.push(...fromChatAnnotations(delta.annotations));
    if (!isEmpty(delta.tool_calls)) this.calls.take(delta.tool_calls);
    // The older way, in which there is one call; some servers repeat the newer one in it.
    else if (isWireObject(delta.function_call))
      this.calls.take([{ index: 0, function: delta.function_call }]);
  }

  private say(text: string): void {
    this.collector.content.takeText(text);
    this.batch.append('text-delta', text);
  }

  /**
   * Takes reasoning, and shows it under one of its names: several servers send the same words under
   * two or three of them.
   */
  private takeReasoning(delta: WireObject): void {
    const { reasoning_content: content, reasoning } = delta;
    if (typeof content === 'string' && content !== '')
      this.batch.append('reasoning-delta', content);
    else if (typeof reasoning === 'string') this.batch.append('reasoning-delta', reasoning);
    this.collector.take(delta);
  }

  /** Takes content in parts: Mistral's reasoning models send their thinking as some of them. */
  private takeParts(parts: readonly unknown[]): void {
    for (const part of parts) {
      if (!isWireObject(part)) continue;
      if (typeof part.text === 'string') this.say(part.text);
      const thoughts = thoughtsIn(part);
      if (thoughts.length > 0) this.collector.content.takeThought(part, thoughts.join(''));
      for (const thought of thoughts) this.batch.append('reasoning-delta', thought);
    }
  }

  /**
   * Reads the finish reason. A refusal is not an answer and its words are not the answer's text:
   * they are kept in the provider data, and the run sees only the reason.
   */
  private reasonFor(calls: readonly AssembledCall[]): ModelFinishReason {
    if (this.finishReason === undefined || this.hasLost) return 'incomplete';
    const reason = fromFinishReason(this.finishReason, calls.length > 0);
    return reason === 'stop' && this.collector.refusal !== '' ? 'content_filter' : reason;
  }
}

function saysSomething(delta: WireObject): boolean {
  return Object.entries(delta).some(([key, value]) => key !== 'role' && !isEmpty(value));
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    (Array.isArray(value) && value.length === 0)
  );
}
