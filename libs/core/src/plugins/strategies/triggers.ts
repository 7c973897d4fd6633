import type { ToolInvocationRecord } from '@toolloop/protocol';
import { isNamed } from '../../catalog/tool-selection.js';
import type {
  InjectionResult,
  MatchedTriggers,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import { Logger } from '../../findings/logger.js';
import { either, listOf, TEXT } from '../../findings/option-rules.js';

/**
 * Returns the names of the triggers with `found` that hold for a result; undefined if no trigger
 * has one.
 */
export function triggersFound(
  triggers: NamedTriggers,
  result: Pick<InjectionResult, 'record' | 'live'>,
): readonly string[] | undefined {
  const looking = [...triggers].filter(([, { found }]) => found);
  if (looking.length === 0) return undefined;
  return looking.filter(([, trigger]) => isTriggered(trigger, result)).map(([name]) => name);
}

/** The conditions of a trigger. All given ones must hold for one result. */
export interface ResultTrigger {
  /** The tools of which one must have succeeded: declared ids, short names or globs. */
  readonly after?: readonly string[];
  /**
   * Checks the record of a result, in the ui projection. Called for failed and denied calls too,
   * unless `after` is set.
   */
  readonly when?: (record: ToolInvocationRecord) => boolean;
  /**
   * Checks the live value that a tool returned, such as an open cart. Called once, as soon as there
   * is one: the answer outlives the value.
   */
  readonly found?: (live: unknown) => boolean;
}

/** The part of a result that a trigger checks. */
type TriggerResult = Pick<InjectionResult, 'record' | 'live' | 'matchedTriggers'>;

/** The triggers of a strategy by name. */
export type NamedTriggers = ReadonlyMap<string, ResultTrigger>;

/**
 * Tells whether a result matches a trigger. `name` is the one under which the strategy matched its
 * live value.
 */
export function isTriggered(
  { after, when, found }: ResultTrigger,
  result: TriggerResult,
  name = '',
): boolean {
  const { record } = result;
  const hasSucceeded = record.status === 'succeeded';
  if (after && !(hasSucceeded && after.some((pattern) => isNamed(record, pattern)))) return false;
  if (when && !when(record)) return false;
  return !found || (hasSucceeded && isFound(found, result, name));
}

function isFound(
  found: NonNullable<ResultTrigger['found']>,
  { live, matchedTriggers }: TriggerResult,
  name: string,
): boolean {
  return matchedTriggers?.includes(name) ?? (live !== undefined && found(live));
}

/** Tells whether a trigger has any condition. */
export function isTrigger({ after, when, found }: ResultTrigger): boolean {
  return (after?.length ?? 0) > 0 || when !== undefined || found !== undefined;
}

/** Returns one or several names as a list. */
export function listed(names: string | readonly string[] | undefined): readonly string[] {
  if (names === undefined) return [];
  return typeof names === 'string' ? [names] : names;
}

/** The form of one or several names of tools, or globs. */
export const NAMES = either(TEXT, listOf(TEXT, 'a list of texts'));
export const NAME_LIST = listOf(TEXT, 'a list of texts');

const logger = new Logger('ToolInjection');

/**
 * Matches the live value of a result for each strategy. For one that fails nothing is recorded: it
 * gets the result itself while that exists.
 */
export function triggersMatchedBy(
  strategies: readonly ToolInjectionStrategy[],
  result: Pick<InjectionResult, 'record' | 'live'>,
): MatchedTriggers {
  return strategies.flatMap((strategy) => {
    if (!strategy.notice) return [];
    try {
      const matchedTriggers = strategy.notice(result);
      return matchedTriggers ? [[nameApart(strategy, strategies), matchedTriggers] as const] : [];
    } catch (error) {
      logger.error(
        `The injection strategy ${strategy.name} failed as it looked at what ${result.record.id} returned.`,
        error,
      );
      return [];
    }
  });
}

/** Returns the triggers that a strategy matched; undefined if it was not called. */
export function triggersOf(
  strategy: ToolInjectionStrategy,
  strategies: readonly ToolInjectionStrategy[],
  matchedTriggers: MatchedTriggers = [],
): readonly string[] | undefined {
  if (matchedTriggers.length === 0) return undefined;
  const key = nameApart(strategy, strategies);
  return matchedTriggers.find(([one]) => one === key)?.[1];
}

/** Makes the key of a strategy, since several may have the same name. */
function nameApart(
  strategy: ToolInjectionStrategy,
  strategies: readonly ToolInjectionStrategy[],
): string {
  const { name } = strategy;
  return `${name}:${strategies.filter((other) => other.name === name).indexOf(strategy)}`;
}
