import { isRecord, type JsonValue } from '@toolloop/protocol';
import { listOf } from '../findings/option-rules.js';
import type { OptionRule } from '../findings/options.js';

/** A value with which a run begins, for the slot of a plugin: `URGENT.of(true)`. */
export interface PluginValue {
  /** The name of the slot. */
  readonly slot: string;
  readonly value: JsonValue;
}

/** The values that a request or a loop gives plugins. */
export const PLUGIN_VALUES: OptionRule<readonly PluginValue[]> = listOf(
  {
    wanted: 'a value of a slot',
    accept: (one) => isRecord(one) && typeof one['slot'] === 'string' && 'value' in one,
  },
  'a list of values of slots, such as [URGENT.of(true)]',
);
