import type { Citation } from './citation.js';
import type { ToolLabels } from './tool.js';

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
