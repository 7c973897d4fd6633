import type { ToolSpec } from '@toolloop/core';
import { ASKING_VERBS, areSameAction, STOP_WORDS, knows, stem, stemsOf, wordsOf } from './words.js';

/** A tool as this model sees it: sets of stems by where they stand. */
export interface ToolProfile {
  readonly spec: ToolSpec;
  readonly method: string;
  readonly owner: string;
  /**
   * The instance an entity tool is bound to, as it stands in the tool's id, which may be a handle.
   */
  readonly instanceId: string | undefined;
  readonly isReadOnly: boolean;
  readonly isSearch: boolean;
  readonly stems: Readonly<
    Record<'method' | 'owner' | 'kind' | 'description' | 'property', ReadonlySet<string>>
  >;
  readonly verbs: readonly string[];
}

export function toolProfile(spec: ToolSpec): ToolProfile {
  const { owner, method, instanceId } = partsOf(spec);
  const properties = Object.entries(spec.inputSchema.properties ?? {});
  const [verb = ''] = wordsOf(method);
  const verbs = [verb, wordsOf(spec.description)[0] ?? ''];
  return {
    spec,
    owner,
    method,
    instanceId,
    isReadOnly: spec.effect === 'read_only',
    isSearch: ASKING_VERBS.has(verb),
    stems: {
      method: new Set(stemsOf(method)),
      owner: new Set(stemsOf(owner)),
      kind: new Set(
        stemsOf(owner).filter(
          (one) => spec.declaredId.includes('*') || stemsOf(spec.description).includes(one),
        ),
      ),
      description: new Set(stemsOf(spec.description)),
      property: new Set(properties.flatMap(([name]) => stemsOf(name))),
    },
    verbs: verbs.filter((word) => word !== '' && !STOP_WORDS.has(word)).map(stem),
  };
}

/**
 * `{namespace}__{method}`, or `{prefix}_{instanceId}_{method}` declared as `{prefix}_*_{method}`.
 */
function partsOf({
  id,
  declaredId,
}: ToolSpec): Pick<ToolProfile, 'owner' | 'method' | 'instanceId'> {
  const [, owner, method] = /^(.+?)_\*_(.+)$/.exec(declaredId) ?? [];
  if (owner !== undefined && method !== undefined) {
    const instanceId = id.slice(owner.length + 1, -method.length - 1);
    return {
      owner,
      method,
      instanceId: instanceId === '' || !id.endsWith(`_${method}`) ? undefined : instanceId,
    };
  }
  const at = id.indexOf('__');
  return {
    owner: id.slice(0, Math.max(at, 0)),
    method: at < 0 ? id : id.slice(at + 2),
    instanceId: undefined,
  };
}

/**
 * Rates how surely a word of the user means this tool, from 0 to 1; the id says more than the
 * description.
 */
export function strength({ stems }: ToolProfile, wanted: string): number {
  return Math.max(
    knows(stems.method, wanted),
    0.6 * knows(stems.description, wanted),
    0.5 * knows(stems.owner, wanted),
  );
}

/**
 * Rates how surely an order means this tool: what reads must bear it in its name; what it says of
 * other tools' doings is no answer.
 */
export function orderStrength(profile: ToolProfile, verb: string): number {
  return profile.isReadOnly ? knows(profile.stems.method, verb) : strength(profile, verb);
}

export function isCommanded({ verbs }: ToolProfile, orders: ReadonlySet<string>): boolean {
  return verbs.some((verb) => [...orders].some((said) => areSameAction(said, verb)));
}

/**
 * The noun of a method's name: `getAverageSpend` is "average spend"; the fallback when the name is
 * but a verb.
 */
export function nounOf(method: string, fallback: string): string {
  const [verb = '', ...others] = wordsOf(method);
  return (
    (ASKING_VERBS.has(verb) ? others : [verb, ...others])
      .filter((word) => word !== 'up')
      .join(' ') || fallback
  );
}
