import type { JsonObject, JsonValue } from '@toolloop/core';
import type { MadeCall } from './conversation.reader.js';
import { isJsonArray, isJsonObject, isScalar, ownEntries } from './json.js';
import { names, type Mention, type Question } from './question.reader.js';
import type { ToolProfile } from './tool.profile.js';
import { isStopWord, stem, wordsOf } from './words.js';

/** An object found in a result: a thing the conversation can speak of. */
export interface Entity {
  readonly data: JsonObject;
  readonly call: MadeCall;
  /** Order of appearance. */
  readonly index: number;
  /** The values under `id` and keys like it, the plain `id` first. */
  readonly ids: readonly string[];
  readonly fields: readonly EntityField[];
  /** The fields' values in lower case, and their words. */
  readonly texts: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

/** One of an object's own texts and numbers. */
export interface EntityField {
  readonly key: string;
  readonly stems: readonly string[];
  readonly value: string | number | boolean;
}

const MOST_ENTITIES = 2000;
const DEEPEST = 4;

/** The newest objects in the results, outer ones before inner ones. */
export function entitiesIn(calls: readonly MadeCall[]): Entity[] {
  const found = calls
    .filter(({ status }) => status === 'succeeded')
    .flatMap((call) => objectsIn(call.value, 0).map((data) => ({ data, call })));
  return found.slice(-MOST_ENTITIES).map(({ data, call }, index) => entityFrom(data, call, index));
}

function entityFrom(data: JsonObject, call: MadeCall, index: number): Entity {
  const fields = scalarsOf(data).map(([key, value]) => ({ key, value, stems: wordsOf(key).map(stem) }));
  const texts = fields.map(({ value }) => String(value).toLowerCase());
  return { data, call, index, fields, ids: idsOf(data), texts: new Set(texts), words: new Set(texts.flatMap(wordsOf)) };
}

function objectsIn(value: JsonValue, depth: number): JsonObject[] {
  if (depth > DEEPEST) return [];
  if (isJsonArray(value)) return value.flatMap((item) => objectsIn(item, depth + 1));
  if (!isJsonObject(value)) return [];
  return [value, ...ownEntries(value).flatMap(([, entry]) => objectsIn(entry, depth + 1))];
}

/** An object's own texts and numbers, by key. */
export function scalarsOf(data: JsonObject): [string, string | number | boolean][] {
  return ownEntries(data).flatMap(([key, value]) => (isScalar(value) ? [[key, value]] : []));
}

export function isIdKey(key: string): boolean {
  return ['id', 'key', 'code', 'sku', 'number', 'no', 'ref', 'reference', 'uuid', 'isbn', 'slug', 'handle'].includes(
    wordsOf(key).at(-1) ?? '',
  );
}

/** An object's ids: the values under `id` and keys like it, the plain `id` first. */
export function idsOf(data: JsonObject): string[] {
  return scalarsOf(data)
    .filter(([key]) => isIdKey(key))
    .toSorted(([one], [other]) => Number(other === 'id') - Number(one === 'id'))
    .map(([, value]) => String(value));
}

/** The newest object an entity tool is bound to: by the id in its name or, for a handle, by the id its description names. */
export function entityOf(profile: ToolProfile, entities: readonly Entity[]): Entity | undefined {
  const bound = profile.entity;
  if (!bound) return undefined;
  const ofId = (fits: (ids: readonly string[]) => boolean): Entity | undefined => entities.findLast(({ ids }) => fits(ids));
  return ofId(([own]) => own === bound.instanceId) ?? ofId((ids) => ids.includes(bound.instanceId)) ?? describedEntity(profile, ofId);
}

function describedEntity(
  { spec }: ToolProfile,
  ofId: (fits: (ids: readonly string[]) => boolean) => Entity | undefined,
): Entity | undefined {
  const described = new Set(spec.description.split(/[\s"'`()[\]{}<>,;:=]+|\.(?:\s|$)/));
  const isDescribed = (id: string | undefined): boolean => id !== undefined && id !== '' && described.has(id);
  return ofId(([own]) => isDescribed(own)) ?? ofId((ids) => ids.some(isDescribed));
}

const LABEL_KEYS = ['name', 'fullname', 'displayname', 'title', 'label', 'subject', 'headline'];

/** What people call an object; undefined when it has no name. */
export function labelOf(data: JsonObject): string | undefined {
  const scalars = scalarsOf(data);
  const byKey = (wanted: string): string | undefined => {
    const value = scalars.find(([key]) => key.toLowerCase().replaceAll(/[^a-z]/g, '') === wanted)?.[1];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const whole = LABEL_KEYS.map(byKey).find((label) => label !== undefined);
  const parts = [byKey('firstname'), byKey('lastname')].filter((part) => part !== undefined);
  return whole ?? (parts.length > 0 ? parts.join(' ') : undefined);
}

/** How well an object fits the user's words: what they name, and what else they say about it. */
export interface Relevance {
  readonly named: number;
  /** From 0 to 1. */
  readonly described: number;
}

export function relevance(entity: Entity, question: Question): Relevance {
  const groups = new Map<number, number>();
  for (const mention of question.mentions.filter(names)) {
    groups.set(mention.group, Math.max(groups.get(mention.group) ?? 0, mentionFit(mention, entity)));
  }
  const named = [...groups.values()].reduce((sum, fit) => sum + fit, 0);
  return { named, described: describedShare(entity, question) };
}

function mentionFit(mention: Mention, { texts, words, call }: Entity): number {
  const wanted = mention.value.toLowerCase();
  if (texts.has(wanted)) return 1;
  const foundWith = Object.values(call.args).some((value) => isScalar(value) && String(value).toLowerCase() === wanted) ? 0.2 : 0;
  return Math.max(0.8 * shareOf(wordsOf(wanted), words), foundWith);
}

function describedShare({ words: own }: Entity, { words }: Question): number {
  const known = new Set([...own].filter((word) => !isStopWord(word)).map(stem));
  return shareOf(
    words.map((word) => word.stem),
    known,
  );
}

function shareOf(wanted: readonly string[], known: ReadonlySet<string>): number {
  return wanted.length === 0 ? 0 : wanted.filter((word) => known.has(word)).length / wanted.length;
}
