import { ConfigurationError, type Finding, LanguageModel } from '@toolloop/protocol';
import { foreignModel } from '../findings/option-rules.js';
import { inWords, type OptionTable } from '../findings/options.js';

/**
 * Checks the models and the options of a wrapper.
 *
 * @throws ConfigurationError for a value that is not a model, and for wrong options
 */
export function assertWrapper<Options extends object>(
  at: string,
  models: readonly unknown[],
  options: unknown,
  table: OptionTable<Options>,
): void {
  const findings = [...modelFindings(models, at), ...table.findings(options, at)];
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function modelFindings(models: readonly unknown[], at: string): Finding[] {
  return models
    .filter((model) => !(model instanceof LanguageModel))
    .map((model) => ({
      at,
      problem: foreignModel(model) ?? `Its model is ${inWords(model)}, not a LanguageModel.`,
      remedy: 'Pass one: openai(…), or one of your own.',
    }));
}
