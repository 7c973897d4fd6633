import type { JsonValue } from '@toolloop/core';
import type { Found } from './argument.filler.js';
import type { Leaf } from './argument.leaves.js';
import { areAllMeant, choiceName, chooseInstances, MOST_INSTANCES, namedFit, type Instance } from './instance.choice.js';
import { isIdKey, type Entity, type EntityField } from './result.entities.js';
import { accepts } from './schema.check.js';
import type { Situation } from './situation.js';
import { isReadOnly, type ToolProfile } from './tool.profile.js';
import { knows, stem, wordsOf } from './words.js';

interface FoundValue extends Instance {
  readonly value: JsonValue;
}

/**
 * Fills an argument from the objects in results. A result never chooses a tool; here it gives ids of what the user means, and other fields
 * only to tools that read and carry nothing out.
 */
export function lookUp(leaf: Leaf, profile: ToolProfile, situation: Situation): Found {
  if (leaf.type === 'array' || leaf.type === 'object' || leaf.type === 'boolean') return { values: [], choices: [] };
  const harmless = isReadOnly(profile) && !profile.spec.labels.egress;
  const found = leaf.sense === 'id' ? foundIds(leaf, situation) : foundFields(leaf, situation, harmless);
  const picked = chooseInstances(found, situation);
  if (picked.length > 1 && !harmless && !areAllMeant(picked, situation.question)) return { values: [], choices: picked.map(choiceName) };
  return { values: picked.slice(0, MOST_INSTANCES).map(({ value }) => value), choices: [] };
}

/** Ids of the kind the argument's name asks for; when results do not tell their kind, ids of the newest result. */
function foundIds(leaf: Leaf, situation: Situation): FoundValue[] {
  const kind = [...leaf.stems].filter((word) => !isIdKey(word));
  const candidates = situation.entities.flatMap((entity) => idValues(entity, leaf));
  const ofKind = candidates.filter(
    ({ entity, field }) => kind.length > 0 && kind.every((word) => isOfKind(word, field, entity, situation)),
  );
  const newest = situation.entities.at(-1)?.call;
  return distinct(ofKind.length > 0 || kind.length > 0 ? ofKind : candidates.filter(({ entity }) => entity.call === newest));
}

interface IdValue extends FoundValue {
  readonly entity: Entity;
  readonly field: EntityField;
}

function idValues(entity: Entity, { schema, root }: Leaf): IdValue[] {
  const ids = entity.fields.filter(({ key, value }) => isIdKey(key) && accepts(schema, value, root));
  const plainFirst = ids.toSorted((one, other) => Number(other.key === 'id') - Number(one.key === 'id'));
  return plainFirst.map((field) => ({ entity, field, value: field.value, id: String(field.value) }));
}

function isOfKind(word: string, { stems }: EntityField, { call }: Entity, { profiles }: Situation): boolean {
  if (stems.length > 1) return stems.includes(word);
  const source = profiles.get(call.name);
  const known = source ? [...source.methodStems, ...source.ownerStems, ...source.descriptionStems] : wordsOf(call.name).map(stem);
  return knows(new Set([...known, ...stems]), word) > 0;
}

/** Fields that bear the argument's name; a tool that acts gets one only of a thing the user named, and only an address. */
function foundFields(leaf: Leaf, situation: Situation, harmless: boolean): FoundValue[] {
  if (!harmless && leaf.sense !== 'email') return [];
  const found = situation.entities.flatMap((entity) =>
    entity.fields
      .filter((field) => fieldFits(field, leaf) && accepts(leaf.schema, field.value, leaf.root))
      .map(({ value }) => ({ entity, value, id: String(value) })),
  );
  return distinct(found.filter(({ entity }) => harmless || namedFit(entity, situation) >= 0.8));
}

function fieldFits({ stems }: EntityField, leaf: Leaf): boolean {
  const isAddress = leaf.sense === 'email' && stems.includes('email');
  return isAddress || (stems.length > 0 && [...leaf.stems].every((word) => stems.includes(word)));
}

function distinct(found: readonly FoundValue[]): FoundValue[] {
  return [...new Map(found.map((one) => [one.id, one])).values()];
}
