import type { JsonValue } from './json.js';
import type { ShownCall } from './loop-result.js';
import type { ToolLabels } from './tool-definition.js';

/** One entry of a transcript. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** A model's request for a tool, as the model wrote it. */
export interface ToolCall {
  /** The id of the call, unique within the run and the same from start to result. */
  readonly toolCallId: string;
  /** The rendered id the model used; it may name no tool. */
  readonly name: string;
  /** The arguments as JSON text, possibly malformed. */
  readonly arguments: string;
  /** The provider's own id, where it had to be replaced. A wire sends this one back. */
  readonly providerCallId?: string;
}

/** Text, an image or a file in a message. `url` is an `https:` or a `data:` URL. */
export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly url: string; readonly mediaType?: string }
  | {
      readonly type: 'file';
      readonly url: string;
      readonly mediaType: string;
      readonly name?: string;
    };

/**
 * The trust and privacy of a message's content. The labels stay with the message through
 * conversations, resumes and sub-runs.
 */
export interface MessageLabels extends Pick<ToolLabels, 'returns' | 'reads'> {
  /**
   * The most bits that someone outside can have put into untrusted content: switches, choices,
   * dates and the like. @default any number, as of text
   */
  readonly outsideBits?: number;
}

export interface SystemMessage {
  readonly role: 'system';
  readonly content: string;
  /** @default private: it may say what only the application knows */
  readonly labels?: MessageLabels;
  /**
   * Set on a note that the loop wrote about tools: the instructions that came with them, or that
   * these no longer apply.
   */
  readonly toolNote?: ToolNote;
}

/** The instructions that a note in a transcript is about. */
export interface ToolNote {
  /** The same for the same instructions, in every run and process. */
  readonly id: string;
  /** The namespace or the prefix of their tools. */
  readonly tools: string;
  /** `false` where the note ends them. */
  readonly applies: boolean;
}

export interface UserMessage {
  readonly role: 'user';
  /** The labels of the content. Set where the words are not the user's own. */
  readonly labels?: MessageLabels;
  readonly content: string | readonly ContentPart[];
  /**
   * The client's own id of the message, under which it is found again when the user changes its
   * words. No model reads it.
   */
  readonly messageId?: string;
}

export interface AssistantMessage {
  readonly role: 'assistant';
  /** The labels of everything that the model had read. */
  readonly labels?: MessageLabels;
  readonly content: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** The sources that the model names for the content. */
  readonly citations?: readonly Citation[];
  /**
   * Opaque parts a provider wants back verbatim, by provider name. Never shown, never read by the
   * loop.
   */
  readonly providerData?: Readonly<Record<string, unknown>>;
  /**
   * The digests of images and files before this answer that its provider refused: later requests of
   * the conversation leave them out. No model reads them.
   */
  readonly refusedMedia?: readonly string[];
  /**
   * The entities whose tools the run offered at its end, least recently used first: the next run of
   * the conversation offers them again. No model reads them.
   */
  readonly entities?: readonly OfferedEntity[];
}

/** An entity whose tools a run offers. */
export interface OfferedEntity {
  /** The prefix of its class. */
  readonly prefix: string;
  readonly instanceId: string;
  /** The name in the ids of its tools. @default the instance id */
  readonly handle?: string;
  /** The number of injections that led to it, from 1. */
  readonly depth: number;
  /** The tool that returned it, as the model called it. */
  readonly givenBy: string;
}

/** The one result of one tool call, in the model's projection. */
export interface ToolMessage {
  readonly role: 'tool';
  readonly toolCallId: string;
  readonly toolName: string;
  readonly content: string | readonly ContentPart[];
  readonly isError?: boolean;
  /**
   * Set where a model wrote the content: its words prove nothing, even if everything it had read
   * was trusted.
   */
  readonly isModelText?: true;
  readonly labels?: MessageLabels;
  /** The texts from outside for which references stand in the content. No model reads them. */
  readonly hidden?: readonly HiddenValue[];
  /**
   * The change that the call made, or may have made: it stands even if the answer gives way to
   * another. No model reads it.
   */
  readonly change?: CallChange;
  /** The call as people see it. Set in a conversation that is kept; no model reads it. */
  readonly shown?: ShownCall;
}

/** A change that a call made, or may have made. */
export interface CallChange {
  readonly declaredId: string;
  readonly instanceId?: string;
  /**
   * The SHA-256 of the canonical arguments, in hex: a call with the same ones is the same change.
   */
  readonly argsHash: string;
  /**
   * The SHA-256 of what the arguments mean, if that reads differently, such as a moment in another
   * time zone: a call whose arguments mean the same is the same change.
   */
  readonly meaningHash?: string;
  /** The directives that the call, or a sub-run of it, asked for. */
  readonly directiveIds?: readonly string[];
  /** True if directives are all that it changes: cancelled ones leave nothing. */
  readonly isLater?: true;
  /** Set in a run whose answer takes the place of the one in which the change was made. */
  readonly stands?: true;
}

/** A text from outside that a model knows by a reference alone. */
export interface HiddenValue {
  /** The name in the reference. */
  readonly id: string;
  readonly value: JsonValue;
  /**
   * The tools and the fields of their results that it was read from, such as `mail__read#/body`: of
   * a text that was read out of others, all of theirs.
   */
  readonly from: readonly string[];
}

/**
 * A source that a model names for a passage of its answer. It comes from outside, so its text is
 * untrusted.
 */
export interface Citation {
  /** An `https:` or `http:` address. */
  readonly url?: string;
  readonly title?: string;
  /** The provider's name of a source without a URL: a file or a document. */
  readonly source?: string;
  /** The passage of the source. */
  readonly quote?: string;
  /**
   * The start of the passage in the answer's text, in UTF-16 code units. @default the citation
   * covers the whole text
   */
  readonly start?: number;
  /** The end of that passage, exclusive. */
  readonly end?: number;
}

/** The tokens that a model call or a run used, as the provider counts them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The part of the input tokens that was read from the provider's prompt cache. */
  readonly cachedInputTokens?: number;
  /**
   * The part of the input tokens that was written to the cache, which some providers charge more
   * for.
   */
  readonly cacheWriteInputTokens?: number;
  /** The part of the output tokens that was spent on reasoning. */
  readonly reasoningTokens?: number;
  /**
   * The cost, where the model reports it or `prices` define it; in a sum, the part that is known.
   */
  readonly costUsd?: number;
  /**
   * Set for an answer that took several attempts (`fallback`, `retried`), where `costUsd` lacks the
   * cost of one of them.
   */
  readonly hasUnknownCost?: true;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };

/** Returns the usage between two sums of one run. */
export function usageSince(before: Usage, now: Usage): Usage {
  const written = subtract(now.cacheWriteInputTokens, before.cacheWriteInputTokens);
  const costUsd = subtract(now.costUsd, before.costUsd);
  return {
    inputTokens: now.inputTokens - before.inputTokens,
    outputTokens: now.outputTokens - before.outputTokens,
    cachedInputTokens: subtract(now.cachedInputTokens, before.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: subtract(now.reasoningTokens, before.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

/** A sum never loses a field: one that is absent now was absent before. */
function subtract(now: number | undefined, before = 0): number | undefined {
  return now === undefined ? undefined : now - before;
}

export function addUsage(one: Usage, other: Usage): Usage {
  const written = add(one.cacheWriteInputTokens, other.cacheWriteInputTokens);
  const costUsd = add(one.costUsd, other.costUsd);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: add(one.cachedInputTokens, other.cachedInputTokens) ?? 0,
    ...(written !== undefined && { cacheWriteInputTokens: written }),
    reasoningTokens: add(one.reasoningTokens, other.reasoningTokens) ?? 0,
    ...(costUsd !== undefined && { costUsd }),
  };
}

function add(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined && other === undefined ? undefined : (one ?? 0) + (other ?? 0);
}

/** An image or a file in a message. */
export type MediaPart = Exclude<ContentPart, { readonly type: 'text' }>;

/** The digest of an attachment: all that an audit keeps of it. */
export interface AttachmentDigest {
  readonly type: MediaPart['type'];
  readonly mediaType?: string;
  /** The size of the content, or of the URL where the content lies elsewhere. */
  readonly bytes: number;
  /** The SHA-256 of the same, in hex. */
  readonly sha256: string;
}

/** An attachment as the ui sees it. */
export interface RecordedAttachment extends AttachmentDigest {
  /**
   * The address of the content, or a `data:` URL with the content where the tool returned it
   * itself.
   */
  readonly url: string;
  readonly name?: string;
}
