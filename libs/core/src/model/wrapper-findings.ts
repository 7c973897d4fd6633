import { inWords, optionFindings } from '../findings/option-findings.js';
import type { OptionValue } from '../findings/option-values.js';
import { ConfigurationError, type Finding } from '../protocol/errors.js';
import { LanguageModel } from '../protocol/language-model.js';

/** Throws a `ConfigurationError` for models that are none, and for options that do not exist or cannot be. */
export function assertWrapper(
  at: string,
  models: readonly unknown[],
  options: unknown,
  known: Readonly<Record<string, OptionValue>>,
): void {
  const findings = [...modelFindings(models, at), ...optionFindings(options, known, at)];
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function modelFindings(models: readonly unknown[], at: string): Finding[] {
  return models
    .filter((model) => !(model instanceof LanguageModel))
    .map((model) => ({
      at,
      problem: `Its model is ${inWords(model)}, not a LanguageModel.`,
      remedy: 'Pass one: openai(…), or one of your own.',
    }));
}
