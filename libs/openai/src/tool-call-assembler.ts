import {
  type CallName,
  type EventBatch,
  isWireObject,
  type WireObject,
  wireObjectsIn,
} from '@toolloop/wire';

/**
 * Assembles calls from deltas. Providers disagree about everything but the order of bytes: an index
 * may be missing, start at 1, have gaps or be 0 for all calls; an id may be missing, come late or
 * be repeated; a name may be repeated. First id and first name win.
 */
export class ToolCallAssembler {
  private readonly calls: PartialCall[] = [];
  private readonly byIndex = new Map<number, PartialCall>();

  constructor(private readonly batch: EventBatch) {}

  /**
   * Takes the `tool_calls` of a delta. An older text-generation-inference sends one delta and no
   * list.
   */
  take(deltas: unknown): void {
    if (isWireObject(deltas) && isWireObject(deltas.function)) this.add(deltas);
    for (const delta of wireObjectsIn(deltas)) this.add(delta);
  }

  /**
   * Takes the complete call at an index, as the provider repeats it when it is done: its arguments
   * win over the deltas. If a call `isBegun` there, it is that call, even under another id.
   */
  complete(
    index: number,
    { call_id: id, name, arguments: text }: WireObject,
    isBegun: boolean,
  ): void {
    const call = this.identify(index, id, name, isBegun ? this.byIndex.get(index) : undefined);
    const whole = toArgumentText(text);
    this.extend(call, call.arguments === '' ? whole : '');
    if (whole !== '') call.arguments = whole;
  }

  /** Returns every call with a name, in the model's order. */
  finish(): readonly AssembledCall[] {
    const calls = this.ordered().filter((call) => call.name !== '');
    return calls.map((call) => {
      const { toolCallId, name } = this.emit(call);
      const { extraContent, specificFields } = call;
      return {
        toolCallId,
        name,
        arguments: call.arguments.trim() === '' ? '{}' : call.arguments,
        extraContent,
        specificFields,
      };
    });
  }

  /**
   * `true` if a call has no name. An empty entry is no call: some servers end with an empty delta
   * of the next index.
   */
  get hasNameless(): boolean {
    return this.calls.some(
      ({ id, name, arguments: text }) => name === '' && (id !== '' || text !== ''),
    );
  }

  private add(delta: WireObject): void {
    const { name, arguments: text } = isWireObject(delta.function)
      ? delta.function
      : { name: '', arguments: '' };
    const call = this.identify(delta.index, delta.id, name);
    call.extraContent = delta.extra_content ?? call.extraContent;
    call.specificFields = delta.provider_specific_fields ?? call.specificFields;
    this.extend(call, toArgumentText(text));
  }

  private identify(
    index: unknown,
    sentId: unknown,
    sentName: unknown,
    begun?: PartialCall,
  ): PartialCall {
    const id = typeof sentId === 'string' ? sentId : '';
    const name = typeof sentName === 'string' ? sentName : '';
    const call = begun ?? this.slot(index, id, name);
    call.id ||= id;
    call.name ||= name;
    return call;
  }

  private extend(call: PartialCall, piece: string): void {
    call.arguments += piece;
    call.held += piece;
    if (call.id !== '' && call.name !== '') this.emit(call);
  }

  private slot(index: unknown, id: string, name: string): PartialCall {
    if (typeof index === 'number') return this.slotAt(index, id, name);
    if (id !== '') return this.calls.find((call) => call.id === id) ?? this.open(undefined);
    return (name === '' ? this.calls.at(-1) : undefined) ?? this.open(undefined);
  }

  /**
   * Finds or opens the call at an index. Gemini's parallel calls all have index 0 and differ by
   * their ids.
   */
  private slotAt(index: number, id: string, name: string): PartialCall {
    const call = this.byIndex.get(index);
    if (call === undefined) return this.open(index);
    // A call that has no id yet may get it late, but it keeps its name.
    const isLate = call.id === '' && (call.name === '' || call.name === name);
    if (name === '' || id === '' || call.id === id || isLate) return call;
    return this.calls.find((other) => other.index === index && other.id === id) ?? this.open(index);
  }

  private open(index: number | undefined): PartialCall {
    const call: PartialCall = {
      index,
      id: '',
      name: '',
      arguments: '',
      held: '',
      named: undefined,
      extraContent: undefined,
      specificFields: undefined,
    };
    this.calls.push(call);
    if (index !== undefined) this.byIndex.set(index, call);
    return call;
  }

  private emit(call: PartialCall): CallName {
    call.named ??= { toolCallId: this.chooseId(call), name: call.name };
    this.batch.append(call.named, call.held);
    call.held = '';
    return call.named;
  }

  /**
   * Chooses the id of a call: a new one where the provider sent none, or used one twice in one
   * answer, since a result must find its call.
   */
  private chooseId({ id }: PartialCall): string {
    const isTaken = this.calls.some((other) => other.named?.toolCallId === id);
    return id === '' || isTaken ? madeCallId() : id;
  }

  private ordered(): readonly PartialCall[] {
    const isIndexed = this.byIndex.size === this.calls.length;
    return isIndexed
      ? this.calls.toSorted((one, other) => (one.index ?? 0) - (other.index ?? 0))
      : this.calls;
  }
}

/** A complete call. */
export interface AssembledCall extends CallName {
  readonly arguments: string;
  /** The `extra_content` of the call: Gemini's thought signature. */
  readonly extraContent?: unknown;
  /** The `provider_specific_fields` of the call, in which LiteLLM passes the signature on. */
  readonly specificFields?: unknown;
}

interface PartialCall {
  readonly index: number | undefined;
  /** The provider's id of the call; empty until it comes. */
  id: string;
  name: string;
  arguments: string;
  /** The arguments that arrived before the call could be named. */
  held: string;
  /**
   * The id and name of the call, once both are known; the same object for the call's whole life, so
   * that a batch can tell calls apart by identity.
   */
  named: CallName | undefined;
  extraContent: unknown;
  specificFields: unknown;
}

function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === null || value === undefined ? '' : JSON.stringify(value);
}

/**
 * Makes the id of a call. OpenAI accepts at most 40 characters, which a UUID with its dashes would
 * exceed.
 */
function madeCallId(): string {
  return `call_${crypto.randomUUID().replaceAll('-', '')}`;
}
