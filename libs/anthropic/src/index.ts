export { AnthropicModel, anthropic } from './anthropic.model.js';
export type { AnthropicModelOptions } from './anthropic-model.options.js';
export { decodeMessages } from './decode-messages.js';
export type { PromptCache } from './prompt-cache.js';
