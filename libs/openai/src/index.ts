export { OpenAiModel, openai } from './openai-model.js';
export type { OpenAiModelOptions, OpenAiTarget } from './openai-options.js';
export { decodeChatCompletions, decodeResponses } from './decode.js';
export { toChatRequest } from './to-chat-request.js';
export { toResponsesRequest } from './to-responses-request.js';
export { httpFetch, type Fetch, type HttpFetchOptions } from '@toolloop/wire';
export { OpenAiTokenCounter, type OpenAiEncoding } from './openai-token-counter.js';
