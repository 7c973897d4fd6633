export { OpenAiModel, openai } from './openai.model.js';
export type { OpenAiModelOptions } from './openai-model.options.js';
