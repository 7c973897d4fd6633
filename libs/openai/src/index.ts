export { OpenAiModel, openai } from './openai.model.js';
export type { OpenAiModelOptions } from './openai-model.options.js';
export { decodeChat, decodeResponses } from './decode-answer.js';
export { httpFetch } from './http.fetch.js';
export type { Fetch, HttpFetchOptions } from './http.fetch.js';
export { OpenAiTokenCounter } from './openai.token-counter.js';
export type { OpenAiEncoding } from './from-tokenizer.js';
