import type { ToolLabels } from './tool-definition.js';

/** The model's request for a tool, as the model wrote it. */
export interface ToolCall {
  /** Unique within the run and the same from start to result. */
  readonly toolCallId: string;
  /** The rendered id the model used; it may name no tool. */
  readonly name: string;
  /** JSON text, possibly malformed. */
  readonly arguments: string;
  /** The provider's own id, where it had to be replaced. A wire sends this one back. */
  readonly providerCallId?: string;
}

/** Text, an image or a file in a message. `url` is an `https:` or a `data:` URL. */
export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly url: string; readonly mediaType?: string }
  | { readonly type: 'file'; readonly url: string; readonly mediaType: string; readonly name?: string };

/** What a message's content is worth; it stays with the message through conversations, resumes and sub-runs. */
export type MessageLabels = Pick<ToolLabels, 'returns' | 'reads'>;

export interface SystemMessage {
  readonly role: 'system';
  readonly content: string;
}

export interface UserMessage {
  readonly role: 'user';
  /** Set where the words are not the user's own. */
  readonly labels?: MessageLabels;
  readonly content: string | readonly ContentPart[];
}

export interface AssistantMessage {
  readonly role: 'assistant';
  /** What the model had read. */
  readonly labels?: MessageLabels;
  readonly content: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** Where the model says that it has the content from. */
  readonly citations?: readonly Citation[];
  /** Opaque parts a provider wants back verbatim, by provider name. Never shown, never read by the loop. */
  readonly providerData?: Readonly<Record<string, unknown>>;
}

/** The one result of one tool call, in the model's projection. */
export interface ToolMessage {
  readonly role: 'tool';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly content: string | readonly ContentPart[];
  readonly isError?: boolean;
  /** Set where it is in a model's words, which prove nothing, however trusted what the model had read. */
  readonly isModelText?: true;
  readonly labels?: MessageLabels;
}

/** One entry of a transcript. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** Where a model says that it has something from. It comes from the provider's sources, and may say anything. */
export interface Citation {
  /** `https:` or `http:` */
  readonly url?: string;
  readonly title?: string;
  /** What the provider calls a source without a URL: a file or a document. */
  readonly source?: string;
  /** The words of the source. */
  readonly quote?: string;
  /** Where in the answer's text it belongs, in UTF-16 characters. @default to all of it */
  readonly start?: number;
  /** Behind the last character. */
  readonly end?: number;
}

/** Tokens a run used, as the provider counts them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of the input tokens, those read from the provider's prompt cache. */
  readonly cachedInputTokens?: number;
  /** Of the input tokens, those written to it, which some providers charge more for. */
  readonly cacheWriteInputTokens?: number;
  /** Of the output tokens, those spent on reasoning. */
  readonly reasoningTokens?: number;
  /** What it cost, where the model reports that or `prices` say so; of a sum, what is known. */
  readonly costUsd?: number;
  /** Set of one answer that took several attempts (`fallback`, `retried`), where `costUsd` lacks what one of them cost. */
  readonly hasUnknownCost?: true;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

/** What was used between two sums of one run. */
export function usageSince(before: Usage, now: Usage): Usage {
  const written = differenceOf(now.cacheWriteInputTokens, before.cacheWriteInputTokens);
  const costUsd = differenceOf(now.costUsd, before.costUsd);
  return {
    inputTokens: now.inputTokens - before.inputTokens,
    outputTokens: now.outputTokens - before.outputTokens,
    cachedInputTokens: differenceOf(now.cachedInputTokens, before.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: differenceOf(now.reasoningTokens, before.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

/** A sum never loses a field, so what is not there now was not there before. */
function differenceOf(now: number | undefined, before = 0): number | undefined {
  return now === undefined ? undefined : now - before;
}

export function addUsage(one: Usage, other: Usage): Usage {
  const written = sumOf(one.cacheWriteInputTokens, other.cacheWriteInputTokens);
  const costUsd = sumOf(one.costUsd, other.costUsd);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: sumOf(one.cachedInputTokens, other.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: sumOf(one.reasoningTokens, other.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

function sumOf(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
}

/** An image or a file in a message. */
export type MediaPart = Exclude<ContentPart, { readonly type: 'text' }>;

/** All that an audit keeps of an attachment. */
export interface AttachmentDigest {
  readonly type: MediaPart['type'];
  readonly mediaType?: string;
  /** Of the content, or of the URL where the content lies elsewhere. */
  readonly bytes: number;
  /** SHA-256 of the same, in hex. */
  readonly sha256: string;
}

/** An attachment as the ui sees it. */
export interface RecordedAttachment extends AttachmentDigest {
  /** Content of a tool's own is in it, as base64. */
  readonly url: string;
  readonly name?: string;
}
