import type { LanguageModel } from '@toolloop/protocol';

/** Returns the name of a model in events and reports. */
export function nameOfModel({ provider, modelId }: LanguageModel): string {
  return `${provider}/${modelId}`;
}
