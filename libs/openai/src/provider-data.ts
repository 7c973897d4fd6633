import type { AssistantMessage } from '@toolloop/protocol';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';
import { ContentParts, mergedExtra, withChunks } from './content-parts.js';
import type { AssembledCall } from './tool-call-assembler.js';

/**
 * The parts of an answer that its model requires in later requests, each to be sent back in the
 * field in which it came, be it empty. DeepSeek and Kimi refuse a conversation without
 * `reasoning_content`, Gemini one without its thought signature (`extra_content`), OpenRouter
 * passes both on in `reasoning_details`. Other servers refuse such fields, so they are sent to the
 * model and the server that they came from only.
 */
export interface ProviderData extends AnswerOrigin {
  readonly refusal?: string;
  readonly reasoningContent?: string;
  /** The same under its newer name, which vLLM, Groq, Ollama and OpenRouter use. */
  readonly reasoning?: string;
  readonly reasoningDetails?: readonly unknown[];
  /** The blocks of thinking with their signatures, which LiteLLM passes on. */
  readonly thinkingBlocks?: readonly WireObject[];
  /**
   * The content in parts, of Mistral's reasoning models: a text has its `length` instead of its
   * words.
   */
  readonly content?: readonly WireObject[];
  /** The extra content of the message itself, such as Gemini's signature of a text. */
  readonly messageExtra?: WireObject;
  /** The extra content of each call, by the provider's id of the call. */
  readonly extraContent?: WireObject;
  /**
   * The fields of each call that a gateway adds for the provider behind it, by the provider's id of
   * the call.
   */
  readonly specificFields?: WireObject;
  /**
   * The output items of a response as they came: encrypted reasoning, citations, calls of the
   * provider's own tools.
   */
  readonly output?: readonly WireObject[];
}

/** The model and the server that an answer came from, or that a transcript goes to. */
export interface AnswerOrigin {
  readonly model: string;
  /**
   * The host of the server, with its port. @default not known, as in an answer that was decoded by
   * hand
   */
  readonly server?: string;
}

/**
 * Reads the provider data of a message that came from this model and server. A transcript can come
 * from anywhere, so every field is checked.
 */
export function providerDataOf(
  message: AssistantMessage,
  { model, server }: AnswerOrigin,
): ProviderData | undefined {
  const data = message.providerData?.openai;
  if (!isWireObject(data) || data.model !== model || !isSameServer(data.server, server))
    return undefined;
  return {
    model,
    ...textsIn(data),
    reasoningDetails: Array.isArray(data.reasoningDetails) ? data.reasoningDetails : undefined,
    thinkingBlocks: listIn(data.thinkingBlocks),
    content: listIn(data.content),
    messageExtra: objectIn(data.messageExtra),
    extraContent: objectIn(data.extraContent),
    specificFields: objectIn(data.specificFields),
    output: listIn(data.output),
  };
}

/**
 * Tells whether an answer came from the server that is asked. Where one of the two is not known,
 * the model's name decides.
 */
function isSameServer(from: unknown, to: string | undefined): boolean {
  return from === undefined || to === undefined || from === to;
}

function textsIn({
  refusal,
  reasoningContent,
  reasoning,
}: WireObject): Pick<ProviderData, 'refusal' | 'reasoningContent' | 'reasoning'> {
  return {
    refusal: textIn(refusal),
    reasoningContent: textIn(reasoningContent),
    reasoning: textIn(reasoning),
  };
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function objectIn(value: unknown): WireObject | undefined {
  return isWireObject(value) ? value : undefined;
}

function listIn(value: unknown): readonly WireObject[] | undefined {
  return Array.isArray(value) ? wireObjectsIn(value) : undefined;
}

/**
 * The longest id of a call that OpenAI itself accepts. A server that makes longer ones accepts its
 * own.
 */
export const MOST_CHAT_ID_CHARACTERS = 40;

/** Collects the provider data of an answer while it streams. */
export class ProviderDataCollector {
  private readonly details: Record<string, unknown>[] = [];
  private thinkingBlocks: readonly WireObject[] = [];
  private messageExtra: WireObject = {};
  /** The reasoning by the field in which it came. One that came empty is there, too. */
  private readonly texts: { reasoningContent?: string; reasoning?: string } = {};
  readonly content = new ContentParts();
  refusal = '';

  /** Takes the fields of a delta, or of a whole message, that its server may want back. */
  take({
    reasoning_content,
    reasoning,
    reasoning_details,
    thinking_blocks,
    extra_content,
  }: WireObject): void {
    if (typeof reasoning_content === 'string')
      this.texts.reasoningContent = (this.texts.reasoningContent ?? '') + reasoning_content;
    if (typeof reasoning === 'string')
      this.texts.reasoning = (this.texts.reasoning ?? '') + reasoning;
    if (Array.isArray(reasoning_details))
      wireObjectsIn(reasoning_details).forEach((detail) => this.takeDetail(detail));
    if (thinking_blocks !== undefined)
      this.thinkingBlocks = withChunks(this.thinkingBlocks, thinking_blocks);
    if (extra_content !== undefined)
      this.messageExtra = mergedExtra(this.messageExtra, extra_content);
  }

  /** Returns the collected data; undefined when there is none. */
  finish(
    origin: AnswerOrigin,
    calls: readonly AssembledCall[],
  ): { readonly openai: ProviderData } | undefined {
    const content = this.content.finish();
    const [extra, specific] = [fieldsOf(calls, 'extraContent'), fieldsOf(calls, 'specificFields')];
    const fields = {
      ...(this.refusal !== '' && { refusal: this.refusal }),
      ...this.texts,
      ...(this.details.length > 0 && { reasoningDetails: this.details }),
      ...(this.thinkingBlocks.length > 0 && { thinkingBlocks: this.thinkingBlocks }),
      ...(content !== undefined && { content }),
      ...(Object.keys(this.messageExtra).length > 0 && { messageExtra: this.messageExtra }),
      ...(extra !== undefined && { extraContent: extra }),
      ...(specific !== undefined && { specificFields: specific }),
    };
    const hasLongIds = calls.some(({ toolCallId }) => toolCallId.length > MOST_CHAT_ID_CHARACTERS);
    return Object.keys(fields).length === 0 && !hasLongIds
      ? undefined
      : { openai: { ...knownOrigin(origin), ...fields } };
  }

  /**
   * Takes a chunk of a detail. OpenRouter streams one detail in many chunks of the same type and
   * index: text is joined, the rest (a signature) overwritten.
   */
  private takeDetail(detail: WireObject): void {
    const begun = this.details.findLast(
      (one) => one.type === detail.type && one.index === detail.index,
    );
    if (begun === undefined || typeof detail.index !== 'number') {
      this.details.push({ ...detail });
      return;
    }
    for (const [key, value] of Object.entries(detail)) {
      const before = begun[key];
      const isText =
        (key === 'text' || key === 'summary' || key === 'data') &&
        typeof before === 'string' &&
        typeof value === 'string';
      begun[key] = isText ? before + value : (value ?? before);
    }
  }
}

/** Returns the origin as provider data keeps it. */
export function knownOrigin({ model, server }: AnswerOrigin): AnswerOrigin {
  return { model, ...(server !== undefined && { server }) };
}

function fieldsOf(
  calls: readonly AssembledCall[],
  field: 'extraContent' | 'specificFields',
): WireObject | undefined {
  const given = calls
    .filter((call) => call[field] !== undefined)
    .map((call) => [call.toolCallId, call[field]] as const);
  return given.length === 0 ? undefined : Object.fromEntries(given);
}

/**
 * Returns the output items of a response if a message's text and calls do not hold all of them;
 * else undefined, which keeps transcripts small.
 */
export function outputToKeep(items: readonly WireObject[]): readonly WireObject[] | undefined {
  return items.every(isPlain) ? undefined : items;
}

/** The fields of a call that a message of the transcript can hold. */
const CALL_FIELDS = new Set(['type', 'id', 'call_id', 'name', 'arguments', 'status']);

function isPlain(item: WireObject): boolean {
  if (item.type === 'function_call')
    return Object.entries(item).every(([field, value]) => CALL_FIELDS.has(field) || value === null);
  if (item.type !== 'message' || (item.phase ?? null) !== null) return false;
  return wireObjectsIn(item.content).every(
    ({ type, annotations }) => type === 'output_text' && wireObjectsIn(annotations).length === 0,
  );
}
