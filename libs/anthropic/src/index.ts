export { AnthropicModel, anthropic } from './anthropic.model.js';
export type { AnthropicModelOptions } from './anthropic-model.options.js';
export type { AnthropicTarget } from './anthropic-target.js';
export { decodeMessages } from './decode-messages.js';
export { toMessagesRequest } from './to-messages-request.js';
export { httpFetch } from '@toolloop/wire';
export type { Fetch, HttpFetchOptions } from '@toolloop/wire';
export type { PromptCache } from './prompt-cache.js';
