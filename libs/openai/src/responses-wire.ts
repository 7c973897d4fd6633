/** A part of a message, or of a tool's result. */
export type ResponsesPart =
  | { readonly type: 'input_text'; readonly text: string }
  | { readonly type: 'input_image'; readonly image_url: string; readonly detail: 'auto' }
  | { readonly type: 'input_file'; readonly filename: string; readonly file_data: string }
  | { readonly type: 'input_file'; readonly file_url: string };

/** A call as it is sent back to the model that made it. */
export interface ResponsesCall {
  readonly type: 'function_call';
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
}

/** One item of the input of `POST /responses` (https://platform.openai.com/docs/api-reference/responses/create). */
export type ResponsesItem =
  | { readonly role: 'system' | 'user' | 'assistant'; readonly content: string | readonly ResponsesPart[] }
  | ResponsesCall
  | { readonly type: 'function_call_output'; readonly call_id: string; readonly output: string | readonly ResponsesPart[] };

/** A tool as the model is told of it. */
export interface ResponsesTool {
  readonly type: 'function';
  readonly name: string;
  readonly description: string;
  readonly parameters: object;
  readonly strict: boolean;
}
