import type { MadeCall } from './conversation.reader.js';
import { ALL_WORDS, EARLIEST_WORDS, LATEST_WORDS } from './english.js';
import { isScalar } from './json.js';
import type { Question } from './question.reader.js';
import { entityOf, labelOf, relevance, type Entity } from './result.entities.js';
import type { ToolProfile } from './tool.profile.js';

/** What is known when something has to be chosen: the user's words and the objects found so far. */
export interface Scene {
  readonly question: Question;
  readonly profiles: ReadonlyMap<string, ToolProfile>;
  readonly entities: readonly Entity[];
}

/** One of several things of a kind: its id, and its object where a result held it. */
export interface Instance {
  readonly id: string;
  readonly entity: Entity | undefined;
}

/** An instance as a person can tell it from others. */
export function choiceName({ id, entity }: Instance): string {
  const label = entity ? labelOf(entity.data) : undefined;
  return label === undefined || label === id ? id : `${label} (${id})`;
}

/** How many instances one answer calls at most. */
export const MOST_INSTANCES = 5;

const NEAR = 0.05;
const DEEPEST = 3;

/** The instances the user means: those named, else those that fit best, else the latest, else all that are left. */
export function chooseInstances<T extends Instance>(instances: readonly T[], scene: Scene): T[] {
  const mentioned = instances.filter(({ id, entity }) => isMentioned([id, ...(entity?.ids.slice(0, 1) ?? [])], scene.question));
  if (mentioned.length > 0) return mentioned;
  const scored = instances.map((instance) => ({ instance, score: instance.entity ? fitOf(instance.entity, scene) : 0 }));
  const best = Math.max(...scored.map(({ score }) => score));
  const fitting = scored.filter(({ score }) => score >= best - NEAR).map(({ instance }) => instance);
  return fitting.length > 1 ? byTime(fitting, scene.question) : fitting;
}

/** Whether the user named as many things as there are, each by its whole name or id, or asked for all. */
export function areAllMeant(instances: readonly Instance[], question: Question): boolean {
  const named = instances.flatMap(({ id, entity }) => {
    const texts = new Set([id.toLowerCase(), ...(entity?.texts ?? [])]);
    return question.mentions.find(({ value }) => texts.has(value.toLowerCase()))?.value ?? [];
  });
  return asksForAll(question) || new Set(named).size === instances.length;
}

function asksForAll({ tokens }: Question): boolean {
  return tokens.some((token) => ALL_WORDS.has(token.lower));
}

export function isMentioned(ids: readonly string[], { mentions }: Question): boolean {
  return mentions.some(({ value, kind }) => kind !== 'rest' && ids.some((id) => id.toLowerCase() === value.toLowerCase()));
}

/** How well an object fits the user's words, by name first. */
function fitOf(entity: Entity, scene: Scene): number {
  return namedFit(entity, scene) + 0.3 * relevance(entity, scene.question).described;
}

/** How surely the user named an object, half of what named its owner included: an order is John's when it was found through John. */
export function namedFit(entity: Entity, scene: Scene, depth = 0): number {
  const owners = depth < DEEPEST ? ownersOf(entity.call, scene).filter((owner) => owner.index < entity.index) : [];
  return relevance(entity, scene.question).named + Math.max(0, ...owners.map((owner) => 0.5 * namedFit(owner, scene, depth + 1)));
}

function ownersOf(call: MadeCall, { profiles, entities }: Scene): Entity[] {
  const profile = profiles.get(call.name);
  const bound = profile ? entityOf(profile, entities) : undefined;
  const given = new Set(Object.values(call.args).filter(isScalar).map(String));
  const passed = given.size > 0 ? entities.filter(({ ids }) => ids.some((id) => given.has(id))) : [];
  return bound ? [bound, ...passed] : passed;
}

/** Narrows to one when the user says "the latest" or "the first" of something. */
function byTime<T extends Instance>(instances: readonly T[], question: Question): T[] {
  const wants = (words: ReadonlySet<string>): boolean =>
    question.tokens.some((token, index) => words.has(token.lower) && isSingular(question, index + 1));
  const sorted = instances.toSorted((one, other) => (timeOf(one) < timeOf(other) ? 1 : -1));
  const dated = instances.every((instance) => timeOf(instance) !== '');
  if (wants(LATEST_WORDS)) return (dated ? sorted : instances).slice(0, 1);
  if (wants(EARLIEST_WORDS)) return (dated ? sorted.toReversed() : instances).slice(0, 1);
  return [...instances];
}

function isSingular({ tokens }: Question, index: number): boolean {
  const next = tokens[index];
  return next !== undefined && next.kind === 'word' && !/[^s]s$/.test(next.lower);
}

function timeOf({ entity }: Instance): string {
  const values = entity?.fields.map(({ value }) => String(value)) ?? [];
  return values.find((value) => /^\d{4}-\d{2}-\d{2}/.test(value)) ?? '';
}
