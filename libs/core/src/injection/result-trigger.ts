import { isNamed } from '../catalog/tool.selection.js';
import type { InjectionResult } from '../protocol/tool-injection.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';

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
