/** A part of a message's content. */
export type ChatPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | { readonly type: 'file'; readonly file: { readonly filename: string; readonly file_data: string } };

/** A call as it is sent back to the model that made it. */
export interface ChatToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
  /** Gemini's thought signature travels here. */
  readonly extra_content?: unknown;
}

/** What some providers want to see again in their own message. */
export interface ChatReasoning {
  readonly reasoning_content?: string;
  readonly reasoning_details?: readonly unknown[];
}

/** One message of `POST /chat/completions` (https://platform.openai.com/docs/api-reference/chat/create). */
export type ChatMessage =
  | { readonly role: 'system' | 'user'; readonly content: string | readonly ChatPart[] }
  | ({
      readonly role: 'assistant';
      readonly content: string | null;
      readonly refusal?: string;
      readonly tool_calls?: readonly ChatToolCall[];
    } & ChatReasoning)
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string };

/** A tool as the model is told of it. */
export interface ChatTool {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description: string; readonly parameters: object; readonly strict?: true };
}
