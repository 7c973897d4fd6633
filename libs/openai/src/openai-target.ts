import type { OpenAiModelOptions } from './openai-model.options.js';

/** What a request is written for: a model, and what its user wants of every answer. */
export interface OpenAiTarget extends Pick<
  OpenAiModelOptions,
  'parallelToolCalls' | 'reasoningEffort' | 'reasoningSummary' | 'builtInTools' | 'maxTokensField' | 'strictTools'
> {
  readonly model: string;
}
