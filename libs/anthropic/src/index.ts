export { AnthropicModel, anthropic } from './anthropic-model.js';
export type { AnthropicModelOptions, AnthropicTarget, PromptCache } from './anthropic-options.js';
export { decodeMessages } from './decode-messages.js';
export { toMessagesRequest } from './to-messages-request.js';
export { httpFetch, type Fetch, type HttpFetchOptions } from '@toolloop/wire';
