import { addUsage, ModelError, type AssistantMessage, type ModelFinishReason, type Usage } from '@toolloop/core';
import { isWireObject, WireAnswer, type WireObject, wireObjectsIn } from '@toolloop/wire';
import { BlockAssembler } from './block.assembler.js';
import { fromMessagesUsage, laterCounts } from './from-messages-usage.js';
import { fromErrorPayload, fromProviderError } from './from-provider-error.js';
import { fromStopReason } from './from-stop-reason.js';
import { isPlain, toProviderData } from './provider-data.js';

/** One answer to `POST /v1/messages` in the making: payloads in, events out (https://platform.claude.com/docs/en/build-with-claude/streaming). */
export class MessagesAnswer extends WireAnswer {
  override readonly kind = 'message';
  override readonly whereToLook = 'Does the baseURL end before /v1, such as https://api.anthropic.com?';
  private readonly blocks = new BlockAssembler(this.batch);
  private stopReason: string | undefined;
  private refusal: WireObject | undefined;
  private container: string | undefined;
  private counts: WireObject = {};
  /** Of the parts before a pause. */
  private usageBefore: Usage | undefined;
  private hasBegun = false;
  private isOver = false;

  /** `pausesLeft` is how often whoever reads can go on asking where the provider pauses its turn. */
  constructor(
    private readonly model: string,
    private pausesLeft = 0,
  ) {
    super();
  }

  override get providerReason(): string | undefined {
    return this.stopReason;
  }

  override get hasEnded(): boolean {
    return this.isOver;
  }

  override get isPaused(): boolean {
    const isWhole = this.failure === undefined && !this.hasLost && !this.blocks.hasCalls;
    return this.pausesLeft > 0 && this.stopReason === 'pause_turn' && isWhole && this.blocks.text !== undefined;
  }

  /** What is to be sent back for the provider to go on with its turn; undefined where it has ended it. */
  get paused(): AssistantMessage | undefined {
    const { text } = this.blocks;
    return this.isPaused && text !== undefined ? { role: 'assistant', content: text, providerData: this.providerData() } : undefined;
  }

  /** The next part of a turn that was paused begins. */
  resume(): void {
    this.pausesLeft -= 1;
    this.usageBefore = this.usage();
    this.counts = {};
    this.stopReason = undefined;
    this.hasBegun = false;
    this.isOver = false;
  }

  override toFailure(payload: string): ModelError {
    return fromErrorPayload(payload);
  }

  /** A payload of an event stream. `ping` and kinds that are not known yet say nothing. */
  override takeChunk(event: WireObject): void {
    switch (event.type) {
      case 'message_start':
        return this.begin(event.message);
      case 'content_block_start':
      case 'content_block_delta':
      case 'content_block_stop':
        return this.takeBlock(event);
      case 'message_delta':
        return this.takeDelta(event);
      case 'message_stop':
        this.isOver = true;
        return undefined;
      case 'error':
        return this.fail(fromProviderError(event));
      case undefined:
        // As gateways put it that speak another API too.
        return isError(event.error) ? this.fail(fromProviderError(event)) : undefined;
      default:
        return undefined;
    }
  }

  override recognises(body: WireObject): boolean {
    return body.type === 'message' || body.type === 'error' || isError(body.error);
  }

  override takeWhole(body: WireObject): void {
    if (body.type === 'message') this.begin(body);
    else this.fail(fromProviderError(body));
  }

  override finish(): void {
    if (this.isPaused) return;
    this.blocks.handOutHalf();
    const usage = this.usage();
    if (usage !== undefined) this.batch.push({ type: 'usage', usage });
    const data = this.providerData();
    this.batch.push({ type: 'finish', finishReason: this.reason(), ...(data !== undefined && { providerData: data }) });
  }

  private begin(message: unknown): void {
    if (this.hasBegun) this.fail(new ModelError('The provider began a second message in one answer.', { retryable: true }));
    this.hasBegun = true;
    if (!isWireObject(message) || this.failure !== undefined) return;
    wireObjectsIn(message.content).forEach((block, index) => {
      this.blocks.begin(index, block);
      this.blocks.end(index);
    });
    this.takeEnding(message);
    this.counts = laterCounts(this.counts, message.usage);
  }

  private takeBlock({ type, index, content_block: start, delta }: WireObject): void {
    if (type === 'content_block_stop') this.blocks.end(index);
    if (type === 'content_block_start' && isWireObject(start)) this.blocks.begin(index, start);
    if (type === 'content_block_delta' && isWireObject(delta) && !this.blocks.add(index, delta)) this.lose();
  }

  private takeDelta({ delta, usage }: WireObject): void {
    if (isWireObject(delta)) this.takeEnding(delta);
    this.counts = laterCounts(this.counts, usage);
  }

  private takeEnding({ stop_reason: reason, stop_details: details, container }: WireObject): void {
    if (typeof reason === 'string' && reason !== '') this.stopReason = reason;
    if (isWireObject(details)) this.refusal = details;
    if (isWireObject(container) && typeof container.id === 'string') this.container = container.id;
  }

  private providerData(): AssistantMessage['providerData'] {
    const { model, container, refusal } = this;
    const blocks = this.blocks.finish();
    return toProviderData({
      model,
      ...(!isPlain(blocks) && { blocks }),
      ...(container !== undefined && { container }),
      ...(refusal !== undefined && { refusal }),
    });
  }

  private usage(): Usage | undefined {
    const usage = fromMessagesUsage(this.counts);
    return this.usageBefore !== undefined && usage !== undefined ? addUsage(this.usageBefore, usage) : (usage ?? this.usageBefore);
  }

  private reason(): ModelFinishReason {
    if (this.stopReason === undefined || this.hasLost) return 'incomplete';
    const reason = fromStopReason(this.stopReason, this.blocks.hasCalls);
    // Where the model was stopped, that is why a call is half.
    return this.blocks.hasBrokenCall && (reason === 'stop' || reason === 'tool_calls') ? 'incomplete' : reason;
  }
}

function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}
