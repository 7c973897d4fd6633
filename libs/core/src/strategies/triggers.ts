import { Logger } from '@nestjs/common';
import type { ToolInvocationRecord } from '@toolloop/protocol';
import { isNamed } from '../catalog/tool-selection.js';
import type { InjectionResult, NoticedResult, ToolInjectionStrategy } from '../contracts/injection.js';
import { either, FUNCTION, listOf, type OptionValue, TEXT } from '../findings/options.js';

/** What has to happen. Everything that is given must hold of one result. */
export interface ResultTrigger {
  /** Tools, one of which succeeded: declared ids, short names or globs. */
  readonly after?: readonly string[];
  /** Looks at the record of a result: what the ui may see of it. Asked of failed and refused calls too, unless a tool is named. */
  readonly when?: (record: ToolInvocationRecord) => boolean;
  /** Looks at what a tool really returned, an artifact such as an open cart. Asked once, as soon as there is one: the answer outlives it. */
  readonly found?: (live: unknown) => boolean;
}

/** A result, as a trigger looks at it. */
type LookedAt = Pick<InjectionResult, 'record' | 'live' | 'noticed'>;

/** The triggers of a strategy, by names of its own. */
export type NamedTriggers = ReadonlyMap<string, ResultTrigger>;

/** Those that look at what a tool really returned, and hold of it; undefined where there are none. */
export function triggersFound(triggers: NamedTriggers, result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
  const looking = [...triggers].filter(([, { found }]) => found);
  if (looking.length === 0) return undefined;
  return looking.filter(([, trigger]) => isTriggered(trigger, result)).map(([name]) => name);
}

/** Whether a result is what was waited for. `name` is that by which the strategy noticed it. */
export function isTriggered({ after, when, found }: ResultTrigger, result: LookedAt, name = ''): boolean {
  const { record } = result;
  const hasSucceeded = record.status === 'succeeded';
  if (after && !(hasSucceeded && after.some((pattern) => isNamed(record, pattern)))) return false;
  if (when && !when(record)) return false;
  return !found || (hasSucceeded && isFound(found, result, name));
}

function isFound(found: NonNullable<ResultTrigger['found']>, { live, noticed }: LookedAt, name: string): boolean {
  return noticed?.includes(name) ?? (live !== undefined && found(live));
}

/** Whether there is anything to wait for. */
export function isTrigger({ after, when, found }: ResultTrigger): boolean {
  return (after?.length ?? 0) > 0 || when !== undefined || found !== undefined;
}

/** One or several, as a list. */
export function listed(names: string | readonly string[] | undefined): readonly string[] {
  if (names === undefined) return [];
  return typeof names === 'string' ? [names] : names;
}

/** Names of tools, or globs: one or several. */
export const NAMES: OptionValue = either(TEXT, listOf(TEXT, 'a list of texts'));
export const NAME_LIST: OptionValue = listOf(TEXT, 'a list of texts');
/** Names, globs, classes and predicates. */
export const SELECTORS: OptionValue = listOf(either(TEXT, FUNCTION), 'a list of names, classes and predicates');

const logger = new Logger('ToolInjection');

/** Of a strategy that fails nothing is noticed: it is handed the result itself, as long as that is there. */
export function noticedIn(strategies: readonly ToolInjectionStrategy[], result: Pick<InjectionResult, 'record' | 'live'>): NoticedResult {
  return strategies.flatMap((strategy) => {
    try {
      const noticed = strategy.notice?.(result);
      return noticed ? [[keyOf(strategy, strategies), noticed] as const] : [];
    } catch (error) {
      logger.error(`The injection strategy ${strategy.name} failed as it looked at what ${result.record.id} returned.`, error);
      return [];
    }
  });
}

/** Undefined where the strategy was not asked. */
export function noticedBy(
  strategy: ToolInjectionStrategy,
  strategies: readonly ToolInjectionStrategy[],
  noticed: NoticedResult = [],
): readonly string[] | undefined {
  if (noticed.length === 0) return undefined;
  const key = keyOf(strategy, strategies);
  return noticed.find(([one]) => one === key)?.[1];
}

/** Several may have the same name. */
function keyOf(strategy: ToolInjectionStrategy, strategies: readonly ToolInjectionStrategy[]): string {
  const { name } = strategy;
  return `${name}:${strategies.filter((other) => other.name === name).indexOf(strategy)}`;
}
