import type { ModelRequest } from '@toolloop/core';
import type { WireAnswer } from '@toolloop/wire';
import { ChatAnswer } from './chat.answer.js';
import type { OpenAiTarget } from './openai-target.js';
import { ResponsesAnswer } from './responses.answer.js';
import { toChatRequest } from './to-chat-request.js';
import { toResponsesRequest } from './to-responses-request.js';

/** One of OpenAI's APIs. */
export interface Wire {
  /** Behind the base URL. */
  readonly path: string;
  /** The body of a request, as JSON text. */
  toRequest(request: ModelRequest, target: OpenAiTarget): string;
  /** An answer in the making. */
  answerOf(model: string): WireAnswer;
}

export const WIRES: Readonly<Record<'chat' | 'responses', Wire>> = {
  chat: { path: '/chat/completions', toRequest: toChatRequest, answerOf: (model) => new ChatAnswer(model) },
  responses: { path: '/responses', toRequest: toResponsesRequest, answerOf: (model) => new ResponsesAnswer(model) },
};
