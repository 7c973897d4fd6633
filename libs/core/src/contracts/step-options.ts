import { isRecord, type ModelOptions } from '@toolloop/protocol';
import {
  MODEL,
  NUMBER,
  OBJECT,
  TEXT,
  WHOLE_ABOVE_ZERO,
  either,
  listOf,
  oneOf,
  optionsOf,
} from '../findings/option-rules.js';
import { defineOptions, type OptionRule } from '../findings/options.js';
import { SELECTORS } from './tool-selector.js';

const MODEL_OR_NAME = either(MODEL, { ...TEXT, wanted: 'the name of one' });
const FORCED: OptionRule<{ readonly tool: string }> = {
  wanted: "{ tool: 'its id' }",
  accept: (value) => isRecord(value) && typeof value['tool'] === 'string',
};
const MODEL_OPTIONS = defineOptions<ModelOptions>({
  temperature: NUMBER,
  topP: NUMBER,
  maxOutputTokens: WHOLE_ABOVE_ZERO,
  seed: NUMBER,
  stopSequences: listOf(TEXT, 'a list of texts'),
  provider: OBJECT,
});

/** The options of a run that hold for a single step as well. */
export const OF_A_STEP = {
  model: MODEL_OR_NAME,
  tools: SELECTORS,
  toolChoice: either(oneOf('auto', 'none', 'required'), FORCED),
  modelOptions: optionsOf(MODEL_OPTIONS),
} as const;
