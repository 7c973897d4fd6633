import type { ProviderToolStatus } from '@toolloop/core';
import { type EventBatch, isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';
import { fromMessageAnnotations } from './from-annotations.js';
import { hasFailed, providerToolOf } from './provider-tools.js';
import { ToolCallAssembler, type AssembledCall } from './tool-call.assembler.js';

/** What the deltas of a message and of reasoning are. */
const SHOWN: ReadonlyMap<unknown, 'text-delta' | 'reasoning-delta' | 'refusal'> = new Map([
  ['response.output_text.delta', 'text-delta'],
  ['response.reasoning_summary_text.delta', 'reasoning-delta'],
  ['response.reasoning_text.delta', 'reasoning-delta'],
  ['response.refusal.delta', 'refusal'],
] as const);

/** What is known of one output item while it streams. */
interface PartialItem {
  /** Whether the provider announced it. */
  isBegun: boolean;
  /** The type of the first delta it came in; undefined for an item that did not stream. */
  streamed: unknown;
  /** Whether it is a call of ours that was announced, and of whose arguments nothing has been said since. */
  isBare: boolean;
  /** Where its text begins in the answer's, once it has begun. */
  textAt: number | undefined;
  /** As the provider repeats it when it is done. */
  whole: WireObject | undefined;
}

/** The output of a response in full. */
export interface FinishedOutput {
  /** Every item that was finished, as it came, in the model's order. */
  readonly items: readonly WireObject[];
  readonly calls: readonly AssembledCall[];
  readonly refusal: string;
  readonly hasNameless: boolean;
  /** Whether a call was announced and nothing more: no arguments are not the same as arguments that were lost. */
  readonly hasBare: boolean;
}

/**
 * The output items of a response: messages, reasoning, calls of our tools, and calls of the provider's own, which are kept but never are a tool call
 * of ours. What an item says when it is done wins over its deltas; what was not streamed is shown then.
 */
export class ResponsesOutput {
  private readonly calls: ToolCallAssembler;
  private readonly items = new Map<number, PartialItem>();
  /** By the ids of items and calls, for servers that leave `output_index` out or count otherwise in the end than on the way. */
  private readonly indexes = new Map<unknown, number>();
  /** The last index there is; -1 where there is none. */
  private newest = -1;
  private refusal = '';
  /** Characters of text so far. */
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
        this.completeCall(this.indexOf(event), { name: event.name, arguments: event.arguments }, true);
        return;
      case 'response.function_call_arguments.delta':
        this.extendCall(this.indexOf(event), event.delta);
        return;
      default:
        if (typeof event.delta === 'string') this.takeDelta(event, event.delta);
    }
  }

  /** An item of the response in full, where the stream did not finish it: a call that is taken twice would run twice. */
  takeMissing(place: number, item: WireObject): void {
    const index = this.knownIndexOf(item) ?? place;
    if (this.items.get(index)?.whole === undefined) this.close(index, item);
  }

  finish(): FinishedOutput {
    const ordered = [...this.items].toSorted(([one], [other]) => one - other).map(([, { whole }]) => whole);
    const items = ordered.filter((item) => item !== undefined);
    const hasBare = [...this.items.values()].some(({ isBare }) => isBare);
    return { items, calls: this.calls.finish(), refusal: this.refusal, hasNameless: this.calls.hasNameless, hasBare };
  }

  /** Reasoning that comes both as summary and as text is shown as what came first. */
  private takeDelta(event: WireObject, delta: string): void {
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
    this.heardOf(index);
  }

  private completeCall(index: number, call: WireObject, isBegun: boolean): void {
    this.calls.complete(index, call, isBegun);
    this.heardOf(index);
  }

  private heardOf(index: number): void {
    const item = this.items.get(index);
    if (item !== undefined) item.isBare = false;
  }

  private closeMessage(item: PartialItem, message: WireObject): void {
    if (item.streamed === undefined) this.showMessage(item, message);
    for (const citation of fromMessageAnnotations(message, item.textAt ?? this.said)) this.batch.push({ type: 'citation', citation });
  }

  private say(item: PartialItem, text: string): void {
    item.textAt ??= this.said;
    this.said += text.length;
    this.batch.append('text-delta', text);
  }

  /** Calls of the provider's own tools, which it performs and answers itself. */
  private showProviderTool(item: WireObject, status: ProviderToolStatus): void {
    const name = providerToolOf(item);
    if (name !== undefined && typeof item.id === 'string') this.batch.push({ type: 'provider-tool', id: item.id, name, status });
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
    const item = { isBegun: false, streamed: undefined, isBare: false, textAt: undefined, whole: undefined };
    this.items.set(index, item);
    this.newest = Math.max(this.newest, index);
    return item;
  }

  /**
   * By the item's id where that item is open, for some servers count otherwise when they announce an item than later, or give all of them one index;
   * else by the index, for others change the ids; an event with neither belongs to the newest item, unless that is done.
   */
  private indexOf({ type, output_index: index, item, item_id: itemId }: WireObject): number {
    const named = isWireObject(item) ? item : { id: itemId };
    const known = this.knownIndexOf(named);
    if (type === 'response.output_item.added') return this.remember(named, this.placeOfNew(index, known));
    if (known !== undefined && (typeof index !== 'number' || this.isOpen(known))) return known;
    return this.remember(named, this.placeOf(type, index));
  }

  private placeOfNew(index: unknown, known: number | undefined): number {
    if (known !== undefined && this.isOpen(known) && typeof index !== 'number') return known;
    if (typeof index !== 'number') return this.newest + 1;
    return this.items.get(index)?.isBegun === true && !(known === index && this.isOpen(index)) ? this.newest + 1 : index;
  }

  private placeOf(type: unknown, index: unknown): number {
    const { newest } = this;
    if (typeof index === 'number') return this.items.get(index)?.whole !== undefined && this.isOpen(newest) ? newest : index;
    const isDone = type === 'response.output_item.done' && this.items.get(newest)?.whole !== undefined;
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
    for (const one of [id, callId]) if (typeof one === 'string' && one !== '') this.indexes.set(one, index);
    return index;
  }
}
