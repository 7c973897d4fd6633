import type { AnthropicModelOptions } from './anthropic-model.options.js';

/** What a request is written for: a model, and what its user wants of every answer. */
export interface AnthropicTarget extends Pick<
  AnthropicModelOptions,
  'maxTokens' | 'promptCache' | 'parallelToolCalls' | 'apiVersion' | 'serverTools' | 'strictTools' | 'thinking' | 'effort'
> {
  readonly model: string;
}
