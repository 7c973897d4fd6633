import type { ToolSpec } from '@toolloop/core';
import type { Entity } from './conversation.js';
import type { Schema } from './json-schema.js';
import { ASKING_VERBS, areSameAction, DOING_VERBS, humanised, isStopWord, knows, LIGHT_VERBS, stem, stemsOf, wordsOf } from './words.js';

/** A tool as this model sees it: sets of stems by where they stand. */
export interface ToolProfile {
  readonly spec: ToolSpec;
  readonly method: string;
  /** Namespace or entity prefix, as written. */
  readonly owner: string;
  /** The instance an entity tool is bound to, as it stands in the tool's id, which may be a handle. */
  readonly instanceId: string | undefined;
  readonly isReadOnly: boolean;
  /** Whether the tool's own name says that it looks things up. */
  readonly isSearch: boolean;
  readonly stems: Readonly<Record<'method' | 'owner' | 'description' | 'property' | 'enum', ReadonlySet<string>>>;
  /** Stems with which a user orders what the tool does. */
  readonly verbs: readonly string[];
}

/** How surely a word means the tool where it stands there. */
const WEIGHTS = { method: 1, enum: 0.45, description: 0.6, owner: 0.5, property: 0.4 } as const;

export function toolProfile(spec: ToolSpec): ToolProfile {
  const { owner, method, instanceId } = partsOf(spec);
  const leaves = Object.entries(spec.inputSchema.properties ?? {});
  const [verb = '', carried = ''] = wordsOf(method);
  const verbs = [verb, wordsOf(spec.description)[0] ?? '', LIGHT_VERBS.has(verb) ? carried : ''];
  return {
    spec,
    owner,
    method,
    instanceId,
    isReadOnly: spec.effect === 'read_only',
    isSearch: ASKING_VERBS.has(verb) || (verb === 'look' && carried === 'up'),
    stems: {
      method: new Set(stemsOf(method)),
      owner: new Set(stemsOf(owner)),
      description: new Set(stemsOf(spec.description)),
      property: new Set(leaves.flatMap(([name]) => stemsOf(name))),
      enum: new Set(leaves.flatMap(([, schema]) => enumWords(schema)).map(stem)),
    },
    verbs: verbs.filter((word) => word !== '' && !isStopWord(word)).map(stem),
  };
}

/** `{namespace}__{method}`, or `{prefix}_{instanceId}_{method}` declared as `{prefix}_*_{method}`. */
function partsOf({ id, declaredId }: ToolSpec): Pick<ToolProfile, 'owner' | 'method' | 'instanceId'> {
  const [, owner, method] = /^(.+?)_\*_(.+)$/.exec(declaredId) ?? [];
  if (owner === undefined || method === undefined) {
    const [namespace = '', ...rest] = id.split('__');
    return rest.length > 0
      ? { owner: namespace, method: rest.join('__'), instanceId: undefined }
      : { owner: '', method: id, instanceId: undefined };
  }
  const isBound = id.startsWith(`${owner}_`) && id.endsWith(`_${method}`) && id.length > owner.length + method.length + 2;
  return { owner, method, instanceId: isBound ? id.slice(owner.length + 1, id.length - method.length - 1) : undefined };
}

function enumWords(schema: Schema | boolean): string[] {
  if (typeof schema === 'boolean') return [];
  const { items } = schema;
  const inner = items === undefined || Array.isArray(items) ? [] : enumWords(items);
  return [...(schema.enum ?? []).flatMap((value) => (typeof value === 'string' ? wordsOf(value) : [])), ...inner];
}

/** How surely a word of the user means this tool, from 0 to 1; the id says more than the description. */
export function strength({ stems }: ToolProfile, wanted: string): number {
  return Math.max(
    WEIGHTS.method * knows(stems.method, wanted),
    WEIGHTS.enum * knows(stems.enum, wanted),
    WEIGHTS.description * knows(stems.description, wanted),
    WEIGHTS.owner * knows(stems.owner, wanted),
    WEIGHTS.property * knows(stems.property, wanted),
  );
}

/** How surely an order means this tool: what reads must bear it in its name; what it says of other tools' doings is no answer. */
export function orderStrength(profile: ToolProfile, verb: string): number {
  return profile.isReadOnly ? knows(profile.stems.method, verb) : strength(profile, verb);
}

/** Whether one of the user's orders is a verb of this tool. */
export function isCommanded({ verbs }: ToolProfile, orders: ReadonlySet<string>): boolean {
  return verbs.some((verb) => [...orders].some((said) => areSameAction(said, verb)));
}

/** What a method returns, in words: `getAverageSpend` is "average spend"; empty when the name is but a verb. */
export function nounOf(method: string): string {
  const words = wordsOf(method);
  const verbs = words[0] === 'look' && words[1] === 'up' ? 2 : ASKING_VERBS.has(words[0] ?? '') ? 1 : 0;
  return words.slice(verbs).join(' ');
}

const LONGEST_DEED = 60;

/** What a tool does, as an infinitive: its description when that begins with a verb, else its name when that does. */
export function deedOf({ spec, method }: ToolProfile): string | undefined {
  const [sentence = ''] = spec.description.split(/\.(?:\s|$)/);
  const isDeed = (text: string): boolean => [ASKING_VERBS, DOING_VERBS].some((verbs) => verbs.has(wordsOf(text)[0] ?? ''));
  if (sentence.length <= LONGEST_DEED && isDeed(sentence)) return sentence.charAt(0).toLowerCase() + sentence.slice(1);
  return isDeed(method) ? humanised(method) : undefined;
}

/** The newest object an entity tool is bound to: by the id in its name or, for a handle, by the id its description names. */
export function entityOf({ instanceId, spec }: ToolProfile, entities: readonly Entity[]): Entity | undefined {
  if (instanceId === undefined) return undefined;
  const described = new Set(spec.description.split(/[\s"'`()[\]{}<>,;:=]+|\.(?:\s|$)/).filter((word) => word !== ''));
  const isOwn = (id: string): boolean => id === instanceId;
  for (const fits of [isOwn, (id: string) => described.has(id)]) {
    const found = entities.findLast(({ ids }) => ids.slice(0, 1).some(fits)) ?? entities.findLast(({ ids }) => ids.some(fits));
    if (found) return found;
  }
  return undefined;
}
