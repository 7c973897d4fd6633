import type { ToolSpec } from '@toolloop/core';
import { LIGHT_VERBS, READ_VERBS } from './english.js';
import type { Schema } from './json.js';
import { isStopWord, knows, stem, stemsOf, wordsOf } from './words.js';

/** The instance an entity tool is bound to, as its id tells it. */
export interface BoundEntity {
  readonly prefix: string;
  /** The id as it stands in the tool's id, which may be a handle. */
  readonly instanceId: string;
}

/** A tool as this model sees it: sets of stems by where they stand. */
export interface ToolProfile {
  readonly spec: ToolSpec;
  readonly method: string;
  /** Namespace or entity prefix, as written. */
  readonly owner: string;
  readonly entity: BoundEntity | undefined;
  readonly methodStems: ReadonlySet<string>;
  readonly ownerStems: ReadonlySet<string>;
  readonly descriptionStems: ReadonlySet<string>;
  readonly propertyStems: ReadonlySet<string>;
  readonly enumStems: ReadonlySet<string>;
  /** Words with which a user orders what the tool does. */
  readonly verbs: ReadonlySet<string>;
}

export function toolProfile(spec: ToolSpec): ToolProfile {
  const { owner, method, entity } = partsOf(spec);
  const leaves = Object.entries(spec.inputSchema.properties ?? {});
  const [firstWord = ''] = wordsOf(spec.description);
  const [verb = '', carried = ''] = wordsOf(method);
  return {
    spec,
    method,
    owner,
    entity,
    methodStems: new Set(stemsOf(method)),
    ownerStems: new Set(stemsOf(owner)),
    descriptionStems: new Set(stemsOf(spec.description)),
    propertyStems: new Set(leaves.flatMap(([name]) => stemsOf(name))),
    enumStems: new Set(leaves.flatMap(([, schema]) => enumWords(schema)).map(stem)),
    verbs: new Set([verb, firstWord, LIGHT_VERBS.has(verb) ? carried : ''].filter((word) => word !== '' && !isStopWord(word)).map(stem)),
  };
}

/** `{namespace}__{method}`, or `{prefix}_{instanceId}_{method}` declared as `{prefix}_*_{method}`. */
function partsOf({ id, declaredId }: ToolSpec): { owner: string; method: string; entity?: BoundEntity } {
  const declared = /^(.+?)_\*_(.+)$/.exec(declaredId);
  if (declared) {
    const [, prefix = '', method = ''] = declared;
    const bound = id.startsWith(`${prefix}_`) && id.endsWith(`_${method}`) && id.length > prefix.length + method.length + 2;
    const instanceId = id.slice(prefix.length + 1, id.length - method.length - 1);
    return { owner: prefix, method, ...(bound ? { entity: { prefix, instanceId } } : {}) };
  }
  const [owner, ...rest] = id.split('__');
  return rest.length > 0 ? { owner: owner ?? '', method: rest.join('__') } : { owner: '', method: id };
}

function enumWords(schema: Schema | boolean): string[] {
  if (typeof schema === 'boolean') return [];
  const { items } = schema;
  const inner = items === undefined || Array.isArray(items) ? [] : enumWords(items);
  const own = (schema.enum ?? []).flatMap((value) => (typeof value === 'string' ? wordsOf(value) : []));
  return [...own, ...inner];
}

/** How surely a word of the user means this tool, from 0 to 1; the id says more than the description. */
export function strength(profile: ToolProfile, wanted: string): number {
  return Math.max(
    knows(profile.methodStems, wanted),
    0.45 * knows(profile.enumStems, wanted),
    0.6 * knows(profile.descriptionStems, wanted),
    0.5 * knows(profile.ownerStems, wanted),
    0.4 * knows(profile.propertyStems, wanted),
  );
}

/** How surely an order means this tool: what reads must bear it in its name, what it says about other tools' doings is no answer. */
export function orderStrength(profile: ToolProfile, verb: string): number {
  return isReadOnly(profile) ? knows(profile.methodStems, verb) : strength(profile, verb);
}

/** What a method returns, in words: `getAverageSpend` → "average spend"; empty when the name is but a verb. */
export function nounOf(method: string): string {
  const words = wordsOf(method);
  const verbs = words[0] === 'look' && words[1] === 'up' ? 2 : READ_VERBS.includes(words[0] ?? '') ? 1 : 0;
  return words.slice(verbs).join(' ');
}

/** Whether the tool's own name says that it looks things up. */
export function isSearch(profile: ToolProfile): boolean {
  const [first = '', second = ''] = wordsOf(profile.method);
  return READ_VERBS.includes(first) || (first === 'look' && second === 'up');
}

export function isReadOnly(profile: ToolProfile): boolean {
  return profile.spec.effect === 'read_only';
}
