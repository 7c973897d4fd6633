import type { OpenAiModelOptions } from './openai-model.options.js';

/** What a request is written for: a model, and what its user wants of every answer. */
export interface WireTarget extends Pick<
  OpenAiModelOptions,
  'parallelToolCalls' | 'reasoningEffort' | 'reasoningSummary' | 'builtInTools'
> {
  readonly model: string;
  readonly maxTokensField: 'max_completion_tokens' | 'max_tokens';
  readonly strictTools: boolean;
}

export function toWireTarget(model: string, options: OpenAiModelOptions): WireTarget {
  const { maxTokensField = 'max_completion_tokens', strictTools = true } = options;
  const { parallelToolCalls, reasoningEffort, reasoningSummary, builtInTools } = options;
  return { model, maxTokensField, strictTools, parallelToolCalls, reasoningEffort, reasoningSummary, builtInTools };
}
