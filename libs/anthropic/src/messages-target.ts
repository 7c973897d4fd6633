import type { PromptCache } from './prompt-cache.js';
import type { WireObject } from './wire-object.js';

/** What a request is written for. */
export interface MessagesTarget {
  readonly model: string;
  readonly maxTokens: number;
  readonly promptCache: PromptCache;
  readonly parallelToolCalls: boolean;
  /** Whether the model knows `output_config.format`; others are told in words. */
  readonly structuredOutputs: boolean;
  /** Whether the API's version still knows `temperature` and `top_p`: later ones refuse them. */
  readonly takesSampling: boolean;
  /** The provider's own tools, as it wants to be told of them. */
  readonly serverTools: readonly WireObject[];
  readonly thinking: object | undefined;
  readonly effort: string | undefined;
}
