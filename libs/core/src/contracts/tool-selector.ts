import type { Type } from '@nestjs/common';
import type { ToolSpec } from '@toolloop/protocol';
import { FUNCTION, TEXT, either, listOf } from '../findings/option-rules.js';
import type { OptionRule } from '../findings/options.js';

/**
 * Names tools of the catalog: a declared id, a glob over declared ids, a short name that only one
 * tool has, a provider or entity class, a Nest module that contributes them itself, or a predicate.
 */
export type ToolSelector = string | Type | ((tool: ToolSpec) => boolean);

/** Names, globs, classes and predicates. */
export const SELECTORS: OptionRule<readonly ToolSelector[]> = listOf(
  either(TEXT, FUNCTION),
  'a list of names, classes and predicates',
);
