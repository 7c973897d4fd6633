import type { AssistantMessage } from '@toolloop/protocol';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';
import type { AssembledCall } from './tool-call-assembler.js';

/**
 * The parts of an answer that its model requires in later requests. DeepSeek and Kimi refuse a tool result without the `reasoning_content` that led to the call,
 * Gemini one without its thought signature (`extra_content`), OpenRouter passes both on in `reasoning_details`. Other models refuse such fields, so they are
 * sent to the model they came from only.
 */
export interface ProviderData {
  readonly model: string;
  readonly refusal?: string;
  readonly reasoningContent?: string;
  readonly reasoningDetails?: readonly unknown[];
  /** The extra content of each call, by the provider's id of the call. */
  readonly extraContent?: WireObject;
  /** The output items of a response as they came: encrypted reasoning, citations, calls of the provider's own tools. */
  readonly output?: readonly WireObject[];
}

/** Reads the provider data of a message that came from this model. A transcript can come from anywhere, so every field is checked. */
export function providerDataOf(message: AssistantMessage, model: string): ProviderData | undefined {
  const data = message.providerData?.openai;
  if (!isWireObject(data) || data.model !== model) return undefined;
  return {
    model,
    refusal: typeof data.refusal === 'string' ? data.refusal : undefined,
    reasoningContent: typeof data.reasoningContent === 'string' ? data.reasoningContent : undefined,
    reasoningDetails: Array.isArray(data.reasoningDetails) ? data.reasoningDetails : undefined,
    extraContent: isWireObject(data.extraContent) ? data.extraContent : undefined,
    output: Array.isArray(data.output) ? wireObjectsIn(data.output) : undefined,
  };
}

/** Collects the provider data of an answer while it streams. */
export class ProviderDataCollector {
  private readonly details: Record<string, unknown>[] = [];
  refusal = '';
  reasoningContent = '';

  takeDetails(details: unknown): void {
    if (!Array.isArray(details)) return;
    for (const detail of details) if (isWireObject(detail)) this.takeDetail(detail);
  }

  /** Returns the collected data; undefined when there is none. Reasoning is required only where it led to a call. */
  finish(model: string, calls: readonly AssembledCall[]): { readonly openai: ProviderData } | undefined {
    const extra = calls.filter((call) => call.extraContent !== undefined).map((call) => [call.toolCallId, call.extraContent] as const);
    const fields = {
      ...(this.refusal !== '' && { refusal: this.refusal }),
      ...(calls.length > 0 && this.reasoningContent !== '' && { reasoningContent: this.reasoningContent }),
      ...(calls.length > 0 && this.details.length > 0 && { reasoningDetails: this.details }),
      ...(extra.length > 0 && { extraContent: Object.fromEntries(extra) }),
    };
    return Object.keys(fields).length === 0 ? undefined : { openai: { model, ...fields } };
  }

  /** Takes a chunk of a detail. OpenRouter streams one detail in many chunks of the same type and index: text is joined, the rest (a signature) overwritten. */
  private takeDetail(detail: WireObject): void {
    const begun = this.details.findLast((one) => one.type === detail.type && one.index === detail.index);
    if (begun === undefined || typeof detail.index !== 'number') {
      this.details.push({ ...detail });
      return;
    }
    for (const [key, value] of Object.entries(detail)) {
      const before = begun[key];
      const isText = (key === 'text' || key === 'summary' || key === 'data') && typeof before === 'string' && typeof value === 'string';
      begun[key] = isText ? before + value : (value ?? before);
    }
  }
}

/** Returns the output items of a response if a message's text and calls do not hold all of them; else undefined, which keeps transcripts small. */
export function outputToKeep(items: readonly WireObject[]): readonly WireObject[] | undefined {
  return items.every(isPlain) ? undefined : items;
}

/** The fields of a call that a message of the transcript can hold. */
const CALL_FIELDS = new Set(['type', 'id', 'call_id', 'name', 'arguments', 'status']);

function isPlain(item: WireObject): boolean {
  if (item.type === 'function_call') return Object.entries(item).every(([field, value]) => CALL_FIELDS.has(field) || value === null);
  if (item.type !== 'message' || (item.phase ?? null) !== null) return false;
  return wireObjectsIn(item.content).every(({ type, annotations }) => type === 'output_text' && wireObjectsIn(annotations).length === 0);
}

/** The calls that the provider of the responses API performs and answers itself, with the name of the tool. */
const PROVIDER_TOOLS: ReadonlyMap<unknown, string> = new Map([
  ['web_search_call', 'web_search'],
  ['file_search_call', 'file_search'],
  ['code_interpreter_call', 'code_interpreter'],
  ['image_generation_call', 'image_generation'],
  ['mcp_list_tools', 'mcp_list_tools'],
  ['mcp_call', 'mcp'],
  ['tool_search_call', 'tool_search'],
]);

/** The types of item that are such calls. */
export const PROVIDER_CALLS: readonly unknown[] = [...PROVIDER_TOOLS.keys()];

/** Names the provider's tool that an item calls; undefined for any other item. A tool behind a connector is named with it: `deepwiki/ask_question`. */
export function providerToolOf({ type, execution, server_label: server, name }: WireObject): string | undefined {
  if (execution === 'client') return undefined;
  if (type === 'mcp_call' && typeof name === 'string') return typeof server === 'string' ? `${server}/${name}` : name;
  return PROVIDER_TOOLS.get(type);
}

/** Tells whether a finished call of a provider's tool failed. */
export function hasFailed({ status, error }: WireObject): boolean {
  return status === 'failed' || status === 'incomplete' || (error !== undefined && error !== null);
}
