import {
  addUsage,
  type AssistantMessage,
  ModelError,
  type ModelFinishReason,
  type ModelResponseIdentity,
  type Usage,
} from '@toolloop/protocol';
import {
  type CallName,
  type EventBatch,
  isWireObject,
  toIdentity,
  parseWireObject,
  WireAnswer,
  type WireObject,
  wireObjectsIn,
} from '@toolloop/wire';
import {
  fromCitation,
  fromErrorPayload,
  fromMessagesUsage,
  fromProviderError,
  fromServerTool,
  fromStopReason,
  isErrorResult,
  laterCounts,
} from './from-provider.js';
import { type AnswerOrigin, isPlain, toProviderData } from './provider-data.js';

/**
 * An answer to `POST /v1/messages`
 * (https://platform.claude.com/docs/en/build-with-claude/streaming).
 */
export class MessagesAnswer extends WireAnswer {
  override readonly kind = 'message';
  override readonly whereToLook =
    'Does the baseURL end before /v1, such as https://api.anthropic.com?';
  private readonly blocks = new BlockAssembler(this.batch);
  private stopReason: string | undefined;
  private refusal: WireObject | undefined;
  private container: string | undefined;
  private counts: WireObject = {};
  private named: ModelResponseIdentity = {};
  /** The usage of the parts before a pause. */
  private usageBefore: Usage | undefined;
  private hasBegun = false;
  private isOver = false;

  /**
   * @param pausesLeft the number of requests that the reader may still send to continue a paused
   *   turn
   */
  constructor(
    private readonly origin: AnswerOrigin,
    private pausesLeft = 0,
  ) {
    super();
  }

  override get providerReason(): string | undefined {
    return this.stopReason;
  }

  override get identity(): ModelResponseIdentity {
    return this.named;
  }

  override get reportedUsage(): Usage | undefined {
    const usage = fromMessagesUsage(this.counts);
    return this.usageBefore !== undefined && usage !== undefined
      ? addUsage(this.usageBefore, usage)
      : (usage ?? this.usageBefore);
  }

  override get hasEnded(): boolean {
    return this.isOver;
  }

  override get isPaused(): boolean {
    const isWhole = this.failure === undefined && !this.hasLost && !this.blocks.hasCalls;
    return (
      this.pausesLeft > 0 &&
      this.stopReason === 'pause_turn' &&
      isWhole &&
      this.blocks.text !== undefined
    );
  }

  /**
   * The message to send back so that the provider continues its turn; undefined once the turn has
   * ended.
   */
  get paused(): AssistantMessage | undefined {
    const { text } = this.blocks;
    return this.isPaused && text !== undefined
      ? { role: 'assistant', content: text, providerData: this.providerData() }
      : undefined;
  }

  /** Begins the next part of a paused turn. */
  resume(): void {
    this.pausesLeft -= 1;
    this.usageBefore = this.reportedUsage;
    this.counts = {};
    this.stopReason = undefined;
    this.hasBegun = false;
    this.isOver = false;
  }

  override toFailure(payload: string): ModelError {
    return fromErrorPayload(payload);
  }

  /** Takes a payload of an event stream. `ping` and unknown kinds are ignored. */
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
    const usage = this.reportedUsage;
    if (usage !== undefined) this.batch.push({ type: 'usage', usage });
    const data = this.providerData();
    this.batch.push({
      type: 'finish',
      finishReason: this.reason(),
      ...(data !== undefined && { providerData: data }),
    });
  }

  private begin(message: unknown): void {
    if (this.hasBegun)
      this.fail(
        new ModelError('The provider began a second message in one answer.', {
          code: 'invalid_answer',
          retryable: true,
        }),
      );
    this.hasBegun = true;
    if (!isWireObject(message) || this.failure !== undefined) return;
    this.named = toIdentity(message);
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
    if (type === 'content_block_delta' && isWireObject(delta) && !this.blocks.add(index, delta))
      this.lose();
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
    const { container, refusal } = this;
    const { model, server } = this.origin;
    const blocks = this.blocks.finish();
    return toProviderData({
      model,
      ...(server !== undefined && { server }),
      ...(!isPlain(blocks) && { blocks }),
      ...(container !== undefined && { container }),
      ...(refusal !== undefined && { refusal }),
    });
  }

  private reason(): ModelFinishReason {
    if (this.stopReason === undefined || this.hasLost) return 'incomplete';
    const reason = fromStopReason(this.stopReason, this.blocks.hasCalls);
    // Where the model was stopped, that is why a call is half.
    return this.blocks.hasBrokenCall && (reason === 'stop' || reason === 'tool_calls')
      ? 'incomplete'
      : reason;
  }
}

function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}

/** A content block while it streams. */
interface ContentBlock {
  /**
   * The fields of its start and of its deltas; the words of a text are not kept, since they were
   * handed out.
   */
  readonly fields: Record<string, unknown>;
  readonly citations: unknown[];
  /** The position in the answer's text at which its own begins. */
  readonly textAt: number;
  /** The number of characters of a text. */
  length: number;
  /** The pieces of its `input`, joined. */
  json: string;
  /**
   * The call of one of the application's tools; the same object for the call's whole life, so that
   * a batch can tell calls apart by identity.
   */
  readonly call: CallName | undefined;
  hasEnded: boolean;
}

/**
 * The most characters of a turn that is continued: an endless answer must not be held in memory.
 */
const MOST_CHARACTERS = 1024 * 1024;

/**
 * The fields that deltas add to blocks kept whole: thinking with its signature, and the summary of
 * a compacted conversation.
 */
const ADDED_FIELDS = ['thinking', 'signature', 'content', 'encrypted_content'] as const;

/**
 * Assembles content blocks from their deltas. Only `tool_use` is a call of the run: the provider
 * runs its own tools itself.
 */
export class BlockAssembler {
  private readonly blocks: ContentBlock[] = [];
  private readonly open = new Map<unknown, ContentBlock>();
  private readonly callIds = new Set<string>();
  /** The provider's own tools that were started, by the ids of their calls. */
  private readonly providerTools = new Map<string, string>();
  /** The text so far, as long as a paused turn may need it. */
  private words: string | undefined = '';
  private said = 0;

  constructor(private readonly batch: EventBatch) {}

  /** The text so far; undefined where it is too long to be sent back. */
  get text(): string | undefined {
    return this.words;
  }

  get hasCalls(): boolean {
    return this.callIds.size > 0;
  }

  /** `true` if a call was begun and not ended, or has no name. */
  get hasBrokenCall(): boolean {
    return this.blocks.some(
      ({ call, hasEnded }) => call !== undefined && (!hasEnded || call.name === ''),
    );
  }

  /**
   * Begins a block, which may hold its content already: a server that does not stream sends it so.
   */
  begin(index: unknown, start: WireObject): void {
    const { type, text, thinking, citations } = start;
    const block: ContentBlock = {
      fields: { ...start },
      citations: [...wireObjectsIn(citations)],
      textAt: this.said,
      length: 0,
      json: '',
      call: type === 'tool_use' ? this.name(start) : undefined,
      hasEnded: false,
    };
    this.blocks.push(block);
    this.open.set(index, block);
    this.showProviderTool(start);
    if (type === 'text' && typeof text === 'string') this.say(block, text);
    if (type === 'thinking' && typeof thinking === 'string')
      this.batch.append('reasoning-delta', thinking);
  }

  /**
   * Adds a delta to a block; false if none is open there, since its beginning was lost. Unknown
   * kinds of delta are ignored.
   */
  add(index: unknown, delta: WireObject): boolean {
    const block = this.open.get(index);
    if (block === undefined) return false;
    const { text, thinking, partial_json: json, citation } = delta;
    if (typeof text === 'string') this.say(block, text);
    if (typeof thinking === 'string') this.batch.append('reasoning-delta', thinking);
    if (typeof json === 'string') this.addJson(block, json);
    if (citation !== undefined) block.citations.push(citation);
    for (const field of ADDED_FIELDS) addField(block.fields, field, delta[field]);
    return true;
  }

  end(index: unknown): void {
    const block = this.open.get(index);
    if (block === undefined) return;
    this.open.delete(index);
    block.hasEnded = true;
    const { json, fields } = block;
    this.cite(block);
    this.handOut(block);
    if (block.call === undefined && json.trim() !== '')
      fields.input = parseWireObject(json) ?? fields.input;
  }

  /**
   * Hands out the calls that were begun and not ended, as far as they came: they are shown, and an
   * answer that holds one runs no calls.
   */
  handOutHalf(): void {
    for (const block of this.blocks) if (!block.hasEnded) this.handOut(block);
  }

  /**
   * Returns the blocks in order, as `ProviderData` keeps them. An unfinished one is left out,
   * except for a text, whose words were handed out.
   */
  finish(): readonly WireObject[] {
    return this.blocks
      .filter(({ fields, hasEnded }) => hasEnded || fields.type === 'text')
      .map(toKept);
  }

  private cite({ citations, textAt, length }: ContentBlock): void {
    for (const citation of wireObjectsIn(citations)) {
      this.batch.push({
        type: 'citation',
        citation: fromCitation(citation, { start: textAt, end: textAt + length }),
      });
    }
  }

  /**
   * Shows the call of a tool that runs at the provider, which sends the result as a block of the
   * same answer.
   */
  private showProviderTool(start: WireObject): void {
    const { type, id, tool_use_id: resultOf } = start;
    const began = typeof id === 'string' ? fromServerTool(start) : undefined;
    if (began !== undefined && typeof id === 'string') {
      this.providerTools.set(id, began);
      this.batch.push({ type: 'provider-tool', id, name: began, status: 'started' });
    }
    if (typeof resultOf !== 'string' || type === 'tool_result') return;
    const name = this.providerTools.get(resultOf) ?? 'unknown';
    this.batch.push({
      type: 'provider-tool',
      id: resultOf,
      name,
      status: isErrorResult(start) ? 'failed' : 'succeeded',
    });
  }

  private say(block: ContentBlock, text: string): void {
    block.length += text.length;
    this.said += text.length;
    this.words = this.said > MOST_CHARACTERS ? undefined : `${this.words ?? ''}${text}`;
    this.batch.append('text-delta', text);
  }

  private handOut({ call, json, fields }: ContentBlock): void {
    if (call === undefined || call.name === '') return;
    this.batch.push({
      type: 'tool-call',
      ...call,
      arguments: json.trim() === '' ? toArguments(fields.input) : json,
    });
  }

  private addJson(block: ContentBlock, piece: string): void {
    block.json += piece;
    if (block.call !== undefined && block.call.name !== '') this.batch.append(block.call, piece);
  }

  /**
   * Chooses the id of a call: a new one where the provider sent none, or used one twice in one
   * answer, since a result must find its call.
   */
  private name({ id, name }: WireObject): CallName {
    const isUsable = typeof id === 'string' && id !== '' && !this.callIds.has(id);
    const toolCallId = isUsable ? id : `toolu_${crypto.randomUUID().replaceAll('-', '')}`;
    this.callIds.add(toolCallId);
    return { toolCallId, name: typeof name === 'string' ? name : '' };
  }
}

function addField(fields: Record<string, unknown>, name: string, piece: unknown): void {
  if (typeof piece !== 'string') return;
  const before = fields[name];
  fields[name] = typeof before === 'string' ? before + piece : piece;
}

/** Writes the arguments of a call whose input came with its beginning. */
function toArguments(input: unknown): string {
  if (typeof input === 'string' && input.trim() !== '') return input;
  return isWireObject(input) || Array.isArray(input) ? JSON.stringify(input) : '{}';
}

function toKept({ fields, citations, length, call }: ContentBlock): WireObject {
  if (fields.type === 'text')
    return { type: 'text', length, ...(citations.length > 0 && { citations }) };
  if (call === undefined) return fields;
  const { caller, toolset_name: toolset } = fields;
  const isIndirect = isWireObject(caller) && caller.type !== 'direct';
  return {
    type: 'tool_use',
    id: call.toolCallId,
    ...(isIndirect && { caller }),
    ...(typeof toolset === 'string' && { toolset_name: toolset }),
  };
}
