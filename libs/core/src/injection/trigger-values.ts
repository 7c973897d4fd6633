import { FUNCTION, TEXT, either, listOf, type OptionValue } from '../findings/option-values.js';

/** Names of tools, or globs: one or several. */
export const NAMES: OptionValue = either(TEXT, listOf(TEXT, 'a list of texts'));
export const NAME_LIST: OptionValue = listOf(TEXT, 'a list of texts');
/** Names, globs, classes and predicates. */
export const SELECTORS: OptionValue = listOf(either(TEXT, FUNCTION), 'a list of names, classes and predicates');
