import {
  ModelError,
  type ModelFinishReason,
  type ModelResponseIdentity,
  type ProviderToolStatus,
  type Usage,
} from '@toolloop/protocol';
import {
  type EventBatch,
  isWireObject,
  toIdentity,
  WireAnswer,
  type WireObject,
  wireObjectsIn,
} from '@toolloop/wire';
import { fromErrorPayload, fromProviderError, WHERE_TO_LOOK } from './from-provider.js';
import { fromIncompleteReason } from './from-finish-reason.js';
import { fromMessageAnnotations } from './from-annotations.js';
import { fromResponsesUsage } from './from-usage.js';
import {
  type AnswerOrigin,
  knownOrigin,
  outputToKeep,
  type ProviderData,
} from './provider-data.js';
import { hasFailed, providerToolOf } from './provider-tools.js';
import { type AssembledCall, ToolCallAssembler } from './tool-call-assembler.js';

/** An answer to `POST /responses`. Unknown events are ignored. */
export class ResponsesAnswer extends WireAnswer {
  override readonly kind = 'response';
  override readonly whereToLook = WHERE_TO_LOOK;
  override readonly redundant = REDUNDANT;
  private readonly output = new ResponsesOutput(this.batch);
  private usage: Usage | undefined;
  private named: ModelResponseIdentity = {};
  /** The status of the terminal event, once it came. */
  private end: { readonly status: unknown; readonly reason: unknown } | undefined;

  constructor(private readonly origin: AnswerOrigin) {
    super();
  }

  /**
   * The status of the response, with the reason where it is incomplete: `completed`,
   * `incomplete:max_output_tokens`.
   */
  override get providerReason(): string | undefined {
    const { status, reason } = this.end ?? {};
    if (typeof status !== 'string') return undefined;
    return typeof reason === 'string' ? `${status}:${reason}` : status;
  }

  override get hasEnded(): boolean {
    return this.end !== undefined;
  }

  override get identity(): ModelResponseIdentity {
    return this.named;
  }

  override get reportedUsage(): Usage | undefined {
    return this.usage;
  }

  override toFailure(payload: string): ModelError {
    return fromErrorPayload(payload);
  }

  override takeChunk(event: WireObject): void {
    switch (event.type) {
      case 'response.completed':
        this.takeEnd(event.response);
        return;
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        // The event has said how it ended, whatever the response in it says.
        this.takeEnd(event.response, event.type.slice('response.'.length));
        return;
      case 'error':
        this.fail(fromProviderError(event.error ?? event));
        return;
      case undefined:
        if (isError(event.error)) this.fail(fromProviderError(event.error));
        return;
      default:
        this.output.take(event);
    }
  }

  override recognises(body: WireObject): boolean {
    return 'output' in body || body.type === 'error' || isError(body.error);
  }

  /** Takes the response in full, as the last event repeats it. */
  override takeWhole(response: WireObject): void {
    const { status, error, incomplete_details: details } = response;
    this.usage = fromResponsesUsage(response.usage) ?? this.usage;
    this.named = toIdentity(response);
    if (status === 'failed' || response.type === 'error' || isError(error)) {
      this.fail(fromProviderError(error ?? (response.type === 'error' ? response : {})));
      return;
    }
    for (const [index, item] of wireObjectsIn(response.output).entries())
      this.output.takeMissing(index, item);
    this.end = { status, reason: isWireObject(details) ? details.reason : undefined };
  }

  /** Takes the terminal event, which ends the answer even if its response is missing. */
  private takeEnd(response: unknown, status?: string): void {
    this.takeWhole({
      ...(isWireObject(response) && response),
      ...(status !== undefined && { status }),
    });
  }

  override finish(): void {
    const output = this.output.finish();
    const { items, calls, refusal, hasNameless } = output;
    const reason = this.reasonFor(output);
    if (hasNameless && (reason === 'stop' || reason === 'tool_calls')) {
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
    if (this.usage !== undefined) this.batch.push({ type: 'usage', usage: this.usage });
    const kept = outputToKeep(items);
    const data: ProviderData = {
      ...knownOrigin(this.origin),
      ...(refusal !== '' && { refusal }),
      ...(kept && { output: kept }),
    };
    this.batch.push({
      type: 'finish',
      finishReason: reason,
      ...((refusal !== '' || kept) && { providerData: { openai: data } }),
    });
  }

  private reasonFor({ calls, refusal, hasBare }: FinishedOutput): ModelFinishReason {
    if (this.end === undefined || this.hasLost) return 'incomplete';
    const { status, reason } = this.end;
    if (status === 'incomplete') return fromIncompleteReason(reason);
    if (status === 'cancelled' || status === 'in_progress' || status === 'queued')
      return 'incomplete';
    if (calls.length > 0) return hasBare ? 'incomplete' : 'tool_calls';
    return refusal === '' ? 'stop' : 'content_filter';
  }
}

/**
 * The events that announce or repeat others; the first three carry the whole request with every
 * tool in it.
 */
const REDUNDANT: ReadonlySet<string> = new Set(
  (
    'created in_progress queued content_part.added content_part.done output_text.done output_text.annotation.added refusal.done ' +
    'reasoning_text.done reasoning_summary_part.added reasoning_summary_part.done reasoning_summary_text.done'
  )
    .split(' ')
    .map((name) => `response.${name}`),
);

/** Tells whether the `error` of a response is set: a successful one has `error: null`. */
function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}

/** The events that carry the deltas of a message and of reasoning. */
const SHOWN: ReadonlyMap<unknown, 'text-delta' | 'reasoning-delta' | 'refusal'> = new Map([
  ['response.output_text.delta', 'text-delta'],
  ['response.reasoning_summary_text.delta', 'reasoning-delta'],
  ['response.reasoning_text.delta', 'reasoning-delta'],
  ['response.refusal.delta', 'refusal'],
] as const);

/** The state of one output item while it streams. */
interface PartialItem {
  /** `true` once the provider announced it. */
  isBegun: boolean;
  /** The type of the first delta it came in; undefined for an item that did not stream. */
  streamed: unknown;
  /** `true` while it is an announced call whose arguments have not come yet. */
  isBare: boolean;
  /** The position in the answer's text at which its own begins, once it has begun. */
  textAt: number | undefined;
  /** The complete item, as the provider repeats it when it is done. */
  whole: WireObject | undefined;
}

/** The output of a response in full. */
export interface FinishedOutput {
  /** The finished items, as they came, in the model's order. */
  readonly items: readonly WireObject[];
  readonly calls: readonly AssembledCall[];
  readonly refusal: string;
  readonly hasNameless: boolean;
  /**
   * `true` if a call was announced but its arguments never came: they were lost, which is not the
   * same as a call without arguments.
   */
  readonly hasBare: boolean;
}

/**
 * The output items of a response: messages, reasoning, calls of the application's tools, and calls
 * of the provider's own, which are kept but never become a tool call of the run. A finished item
 * wins over its deltas; content that was not streamed is shown then.
 */
export class ResponsesOutput {
  private readonly calls: ToolCallAssembler;
  private readonly items = new Map<number, PartialItem>();
  /**
   * The indexes of items by the ids of items and calls, for servers that leave `output_index` out
   * or change it between events.
   */
  private readonly indexes = new Map<unknown, number>();
  /** The largest index so far; -1 where there is none. */
  private newest = -1;
  private refusal = '';
  /** The number of characters of text so far. */
  private said = 0;

  constructor(private readonly batch: EventBatch) {
    this.calls = new ToolCallAssembler(batch);
  }

  take(event: WireObject): void {
    switch (event.type) {
      case 'response.output_item.added':
        this.open(this.indexOf(event), event.item);
        return;
      case 'response.output_item.done':
        if (isWireObject(event.item)) this.close(this.indexOf(event), event.item);
        return;
      case 'response.function_call_arguments.done':
        this.completeCall(
          this.indexOf(event),
          { name: event.name, arguments: event.arguments },
          true,
        );
        return;
      case 'response.function_call_arguments.delta':
        this.extendCall(this.indexOf(event), event.delta);
        return;
      default:
        if (typeof event.delta === 'string') this.takeDelta(event, event.delta);
    }
  }

  /**
   * Takes an item of the complete response if the stream did not finish it: a call that is taken
   * twice would run twice.
   */
  takeMissing(place: number, item: WireObject): void {
    const index = this.knownIndexOf(item) ?? place;
    if (this.items.get(index)?.whole === undefined) this.close(index, item);
  }

  finish(): FinishedOutput {
    const ordered = [...this.items]
      .toSorted(([one], [other]) => one - other)
      .map(([, { whole }]) => whole);
    const items = ordered.filter((item) => item !== undefined);
    const hasBare = [...this.items.values()].some(({ isBare }) => isBare);
    return {
      items,
      calls: this.calls.finish(),
      refusal: this.refusal,
      hasNameless: this.calls.hasNameless,
      hasBare,
    };
  }

  /**
   * Takes a delta. Reasoning that comes both as summary and as text is shown in the form that came
   * first.
   */
  takeDelta(event: WireObject, delta: string): void {
    const shown = SHOWN.get(event.type);
    if (shown === undefined) return;
    const item = this.itemAt(this.indexOf(event));
    item.streamed ??= event.type;
    if (shown === 'refusal') this.refusal += delta;
    else if (shown === 'text-delta') this.say(item, delta);
    else if (item.streamed === event.type) this.batch.append(shown, delta);
  }

  private open(index: number, item: unknown): void {
    const known = this.itemAt(index);
    known.isBegun = true;
    if (!isWireObject(item)) return;
    this.showProviderTool(item, 'started');
    if (item.type !== 'function_call') return;
    known.isBare = known.whole === undefined;
    this.calls.take([{ index, id: item.call_id, function: { name: item.name } }]);
  }

  private close(index: number, item: WireObject): void {
    const known = this.itemAt(index);
    const isBegun = this.isOpen(index);
    known.whole = item;
    this.showProviderTool(item, hasFailed(item) ? 'failed' : 'succeeded');
    if (item.type === 'function_call') this.completeCall(index, item, isBegun);
    else if (item.type === 'message') this.closeMessage(known, item);
    else if (known.streamed === undefined && item.type === 'reasoning') this.showReasoning(item);
  }

  private extendCall(index: number, piece: unknown): void {
    this.calls.take([{ index, function: { arguments: piece } }]);
    this.markFilled(index);
  }

  private completeCall(index: number, call: WireObject, isBegun: boolean): void {
    this.calls.complete(index, call, isBegun);
    this.markFilled(index);
  }

  private markFilled(index: number): void {
    const item = this.items.get(index);
    if (item !== undefined) item.isBare = false;
  }

  private closeMessage(item: PartialItem, message: WireObject): void {
    if (item.streamed === undefined) this.showMessage(item, message);
    for (const citation of fromMessageAnnotations(message, item.textAt ?? this.said))
      this.batch.push({ type: 'citation', citation });
  }

  private say(item: PartialItem, text: string): void {
    item.textAt ??= this.said;
    this.said += text.length;
    this.batch.append('text-delta', text);
  }

  /** Shows the progress of a tool that the provider runs itself. */
  private showProviderTool(item: WireObject, status: ProviderToolStatus): void {
    const name = providerToolOf(item);
    if (name !== undefined && typeof item.id === 'string')
      this.batch.push({ type: 'provider-tool', id: item.id, name, status });
  }

  private showMessage(item: PartialItem, { content }: WireObject): void {
    for (const { type, text, refusal } of wireObjectsIn(content)) {
      if (type === 'output_text' && typeof text === 'string') this.say(item, text);
      if (type === 'refusal' && typeof refusal === 'string') this.refusal += refusal;
    }
  }

  private showReasoning({ summary, content }: WireObject): void {
    const summaries = wireObjectsIn(summary);
    for (const { text } of summaries.length > 0 ? summaries : wireObjectsIn(content)) {
      if (typeof text === 'string') this.batch.append('reasoning-delta', text);
    }
  }

  private itemAt(index: number): PartialItem {
    const known = this.items.get(index);
    if (known !== undefined) return known;
    const item = {
      isBegun: false,
      streamed: undefined,
      isBare: false,
      textAt: undefined,
      whole: undefined,
    };
    this.items.set(index, item);
    this.newest = Math.max(this.newest, index);
    return item;
  }

  /**
   * Finds the item of an event. The item's id decides while that item is open, since some servers
   * change the index after they announced an item, or give all of them one index; else the index,
   * since others change the ids. An event with neither belongs to the newest item, unless that is
   * done.
   */
  private indexOf({ type, output_index: index, item, item_id: itemId }: WireObject): number {
    const named = isWireObject(item) ? item : { id: itemId };
    const known = this.knownIndexOf(named);
    if (type === 'response.output_item.added')
      return this.remember(named, this.assignIndex(index, known));
    if (known !== undefined && (typeof index !== 'number' || this.isOpen(known))) return known;
    return this.remember(named, this.resolveIndex(type, index));
  }

  private assignIndex(index: unknown, known: number | undefined): number {
    if (known !== undefined && this.isOpen(known) && typeof index !== 'number') return known;
    if (typeof index !== 'number') return this.newest + 1;
    return this.items.get(index)?.isBegun === true && !(known === index && this.isOpen(index))
      ? this.newest + 1
      : index;
  }

  private resolveIndex(type: unknown, index: unknown): number {
    const { newest } = this;
    if (typeof index === 'number')
      return this.items.get(index)?.whole !== undefined && this.isOpen(newest) ? newest : index;
    const isDone =
      type === 'response.output_item.done' && this.items.get(newest)?.whole !== undefined;
    return newest < 0 || isDone ? newest + 1 : newest;
  }

  private isOpen(index: number): boolean {
    const item = this.items.get(index);
    return item !== undefined && item.isBegun && item.whole === undefined;
  }

  private knownIndexOf({ id, call_id: callId }: WireObject): number | undefined {
    return this.indexes.get(id) ?? this.indexes.get(callId);
  }

  private remember({ id, call_id: callId }: WireObject, index: number): number {
    for (const one of [id, callId])
      if (typeof one === 'string' && one !== '') this.indexes.set(one, index);
    return index;
  }
}
