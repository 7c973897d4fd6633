import { valueFindings, optionFindings, type OptionValues } from '../findings/option-findings.js';
import {
  BOOLEAN,
  CLASS,
  FUNCTION,
  NUMBER,
  OBJECT,
  TEXT,
  WHOLE_ABOVE_ZERO,
  either,
  listOf,
  oneOf,
  whatCan,
  type OptionValue,
} from '../findings/option-values.js';
import { isRecord } from '../protocol/object.guards.js';
import { SELECTORS } from '../injection/trigger-values.js';
import type { Finding } from '../protocol/errors.js';
import { LanguageModel, type ModelOptions } from '../protocol/language-model.js';
import type { LoopHooks, LoopRequest } from '../protocol/loop-request.js';

type KnownValues = Readonly<Record<string, OptionValue>>;

const MODEL: OptionValue = either({ wanted: 'a LanguageModel', accept: (value) => value instanceof LanguageModel }, TEXT);
const HISTORY: OptionValue = whatCan('cut', 'a HistoryPolicy, such as slidingWindow(…)');
const STRATEGIES: OptionValue = listOf(whatCan('evaluate', ''), 'a list of strategies, such as unlock(…)');
const OFF: OptionValue = { wanted: 'false', accept: (value) => value === false };
const SHARED = {
  instructions: either(TEXT, FUNCTION),
  limits: OBJECT,
  execution: OBJECT,
  history: HISTORY,
  prepareStep: FUNCTION,
} as const satisfies KnownValues;

/** What a named loop, a sub-run and a request have in common. What is not here is checked where it is used. */
export const PROFILE_VALUES: KnownValues = {
  ...SHARED,
  tools: SELECTORS,
  exclude: SELECTORS,
  injection: either(STRATEGIES, OFF),
  output: CLASS,
  hooks: OBJECT,
  labels: OBJECT,
  durable: BOOLEAN,
  keepToolChoice: BOOLEAN,
  modelOptions: OBJECT,
};

export const REQUEST_VALUES: KnownValues = { ...PROFILE_VALUES, model: MODEL };

export const APPLICATION_VALUES: KnownValues = {
  ...SHARED,
  injection: STRATEGIES,
  models: OBJECT,
  prices: OBJECT,
  strictListing: BOOLEAN,
  agentName: TEXT,
  actorId: FUNCTION,
  actorRoles: FUNCTION,
  actorClass: CLASS,
};

/** What a sub-run says beside what a loop does. */
export const SUB_RUN_VALUES: KnownValues = { summaryBytes: WHOLE_ABOVE_ZERO, prompt: FUNCTION, output: CLASS };

/** What `prepareStep` may return. */
export const STEP_VALUES: KnownValues = { model: MODEL, instructions: TEXT, tools: SELECTORS, modelOptions: OBJECT };

const HOOKS: OptionValues<LoopHooks> = { onToolStart: FUNCTION, onToolEnd: FUNCTION, onIteration: FUNCTION };
const LABELS: OptionValues<NonNullable<LoopRequest['labels']>> = { reads: oneOf('public', 'private') };
const MODEL_OPTIONS: OptionValues<ModelOptions> = {
  temperature: NUMBER,
  topP: NUMBER,
  maxOutputTokens: WHOLE_ABOVE_ZERO,
  seed: NUMBER,
  stopSequences: listOf(TEXT, 'a list of texts'),
  provider: OBJECT,
};

/** Values that options do not take, those within `modelOptions`, `hooks` and `labels` as well. */
export function shapeFindings(given: object, known: KnownValues, at: string): Finding[] {
  return [
    ...valueFindings(given, known, at),
    ...withinFindings(given, 'modelOptions', MODEL_OPTIONS, at),
    ...withinFindings(given, 'hooks', HOOKS, at),
    ...withinFindings(given, 'labels', LABELS, at),
  ];
}

function withinFindings(given: object, name: string, known: KnownValues, at: string): Finding[] {
  const options: unknown = Reflect.get(given, name);
  return isRecord(options) ? optionFindings(options, known, `${at} ${name}`) : [];
}
