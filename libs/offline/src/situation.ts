import type { JsonValue } from '@toolloop/core';
import type { ModelRequest } from '@toolloop/protocol';
import {
  entitiesIn,
  isEmptyResult,
  isIdKey,
  labelOf,
  ownEntries,
  readConversation,
  type Conversation,
  type Entity,
  type MadeCall,
} from './conversation.js';
import { accepts, isJsonArray, isJsonObject, type Schema } from './json-schema.js';
import { names, ordersIn, range, readQuestion, type Mention, type Question } from './question.js';
import { entityOf, orderStrength, strength, toolProfile, type ToolProfile } from './tools.js';
import { DOING_VERBS, knows, stem, stemsOf, wordsOf } from './words.js';

/** Everything this model knows before it decides: read from one request, kept nowhere. */
export interface Situation {
  readonly request: ModelRequest;
  readonly conversation: Conversation;
  readonly question: Question;
  readonly tools: readonly ToolProfile[];
  readonly profiles: ReadonlyMap<string, ToolProfile>;
  /** Stems of what the tools speak in: such words name kinds of things, not things. */
  readonly vocabulary: ReadonlySet<string>;
  readonly today: string | undefined;
  /** Stems of the words that stand where an order would, and of those that are sure to ask for something to be done. */
  readonly commanded: ReadonlySet<string>;
  readonly orders: ReadonlySet<string>;
  readonly entities: readonly Entity[];
  /** Stems of the words that want an answer, and how far each is answered by the calls so far, from 0 to 1. */
  readonly wanted: readonly string[];
  readonly coverage: ReadonlyMap<string, number>;
  /** Those that still want an answer. */
  readonly open: readonly string[];
  /** Stems of words that are part of a value the model has sent already. */
  readonly spoken: ReadonlySet<string>;
  /** Names that no call has used yet. */
  readonly unlocated: readonly Mention[];
}

/** From here on a word counts as answered. */
export const ANSWERED = 0.5;
/** The beginning of a longer question is all that is read. */
const MOST_CHARACTERS = 4000;

export function readSituation(request: ModelRequest, givenToday?: string): Situation {
  const conversation = readConversation(request);
  const { calls, earlierCalls, earlierQuestions: earlier } = conversation;
  const tools = request.tools.map(toolProfile);
  const profiles = new Map(tools.map((profile) => [profile.spec.id, profile]));
  const vocabulary = new Set(tools.flatMap(({ stems }) => [...stems.method, ...stems.property, ...stems.kind]));
  const today = givenToday ?? /\b(?:today|date)\b[^\d\n]{0,40}(\d{4}-\d{2}-\d{2})/i.exec(request.instructions ?? '')?.[1];
  const question = readQuestion(conversation.question.slice(0, MOST_CHARACTERS), { vocabulary, earlier, today });
  const commands = ordersIn(question, vocabulary);
  const orders = new Set(commands.filter(({ lower }) => DOING_VERBS.has(lower)).flatMap(({ stems }) => stems));
  const used = usedMentions(question.mentions, calls);
  const placed = new Set(used.flatMap(({ first, last }) => range(first, last)));
  const sent = new Set(calls.flatMap(({ args }) => textsIn(args)).flatMap(wordsOf));
  const spoken = new Set(question.tokens.flatMap(({ stems, lower }, index) => (placed.has(index) || sent.has(lower) ? stems : [])));
  const wanted = [...new Set(question.words.flatMap((word) => (word.weak ? [] : [word.stem])))];
  const coverage = new Map(
    wanted.map((one) => {
      const covered = calls.map((call) => coveredBy(call, profiles.get(call.name), one, orders));
      return [one, spoken.has(one) ? 1 : Math.max(0, ...covered)];
    }),
  );
  return {
    request,
    conversation,
    question,
    tools,
    profiles,
    vocabulary,
    today,
    orders,
    wanted,
    coverage,
    spoken,
    commanded: new Set(commands.flatMap(({ stems }) => stems)),
    entities: entitiesIn([...earlierCalls, ...calls]),
    open: wanted.filter((one) => (coverage.get(one) ?? 0) < ANSWERED),
    unlocated: question.mentions.filter((mention) => names(mention) && !used.includes(mention)),
  };
}

/** A word is answered by a tool that was called because of it, or by what its result says; an order by a tool alone. */
function coveredBy(call: MadeCall, profile: ToolProfile | undefined, one: string, orders: ReadonlySet<string>): number {
  if (call.status === 'failed') return 0;
  if (orders.has(one)) return profile ? orderStrength(profile, one) : 0;
  const isVain = call.status === 'succeeded' && profile?.isReadOnly === true && isEmptyResult(call.value);
  return isVain ? 0 : Math.max(meant(call, profile, one), resultSays(call, one));
}

/** Rates how surely a word meant this call: its tool, or an argument that bears its name. */
export function meant({ args }: MadeCall, profile: ToolProfile | undefined, wanted: string): number {
  return Math.max(profile ? strength(profile, wanted) : 0, 0.9 * knows(new Set(Object.keys(args).flatMap(stemsOf)), wanted));
}

const LONGEST_STATE = 3;

/** Rates how well a result alone answers a word: as a key, or as a short value such as a status. Running text is data and answers nothing. */
export function resultSays({ value }: MadeCall, wanted: string): number {
  const states = textsIn(value)
    .map(wordsOf)
    .filter(({ length }) => length <= LONGEST_STATE);
  const keys = new Set(keysIn(value).flatMap(wordsOf).map(stem));
  return Math.max(knows(keys, wanted), states.some((words) => words.some((word) => stem(word) === wanted)) ? 0.7 : 0);
}

function keysIn(value: JsonValue): string[] {
  if (isJsonArray(value)) return value.flatMap(keysIn);
  if (!isJsonObject(value)) return [];
  const entries = ownEntries(value);
  return [...entries.map(([key]) => key), ...entries.flatMap(([, inner]) => keysIn(inner))];
}

/** The scalars of a value as text. */
export function textsIn(value: JsonValue): string[] {
  if (isJsonArray(value)) return value.flatMap(textsIn);
  return isJsonObject(value) ? ownEntries(value).flatMap(([, inner]) => textsIn(inner)) : [String(value)];
}

/** The mentions whose value stands in the arguments of a call, or whose id stands in its tool's name. */
export function usedMentions(mentions: readonly Mention[], calls: readonly MadeCall[]): Mention[] {
  const sent = new Set(calls.flatMap(({ args, name }) => [textsIn(args), name.split('_')].flat()).map((text) => text.toLowerCase()));
  return mentions.filter(({ value }) => sent.has(value.toLowerCase()));
}

/** One of several things of a kind: its id, and its object where a result held it. */
export interface Instance {
  readonly id: string;
  readonly entity: Entity | undefined;
}

/** The most instances that one answer calls. */
export const MOST_INSTANCES = 5;

/** The instances the user means: those named by id, else those that fit best, else the latest or first, else all that are left. */
export function chooseInstances<T extends Instance>(instances: readonly T[], situation: Situation): T[] {
  const { question, wanted } = situation;
  const mentioned = instances.filter(({ id, entity }) => isMentioned([id, ...(entity?.ids.slice(0, 1) ?? [])], question));
  if (mentioned.length > 0) return mentioned;
  const fits = instances.map(({ entity }) => {
    const described = entity ? wanted.filter((one) => [...entity.words].some((word) => stem(word) === one)).length : 0;
    return entity ? namedFit(entity, situation) + (0.3 * described) / Math.max(wanted.length, 1) : 0;
  });
  const fitting = instances.filter((_, index) => (fits[index] ?? 0) >= Math.max(...fits) - 0.05);
  return fitting.length > 1 ? byTime(fitting, question) : fitting;
}

export function isMentioned(ids: readonly string[], { mentions }: Question): boolean {
  return mentions.some(({ value, kind }) => kind !== 'rest' && ids.some((id) => id.toLowerCase() === value.toLowerCase()));
}

/** Tells whether the user asked for all, or named as many things as there are, each by its whole name or id. */
export function areAllMeant(instances: readonly Instance[], { tokens, mentions }: Question): boolean {
  const isNamed = ({ id, entity }: Instance, text: string): boolean => text === id.toLowerCase() || entity?.texts.has(text) === true;
  const named = instances.flatMap((instance) => mentions.find(({ value }) => isNamed(instance, value.toLowerCase())) ?? []);
  return tokens.some(({ lower }) => ['all', 'each', 'every', 'both'].includes(lower)) || new Set(named).size === instances.length;
}

const DEEPEST = 3;

/** Rates how surely the user named an object, half of what named its owner included: an order is John's when it was found through John. */
export function namedFit(entity: Entity, situation: Situation, depth = 0): number {
  const { question, entities, profiles } = situation;
  const { name, args } = entity.call;
  const groups = new Map<number, number>();
  for (const mention of question.mentions.filter(names)) {
    const wanted = wordsOf(mention.value);
    const shared = wanted.filter((word) => entity.words.has(word)).length / Math.max(wanted.length, 1);
    const found = textsIn(args).some((text) => text.toLowerCase() === mention.value.toLowerCase()) ? 0.2 : 0;
    const fit = entity.texts.has(mention.value.toLowerCase()) ? 1 : Math.max(0.8 * shared, found);
    groups.set(mention.group, Math.max(groups.get(mention.group) ?? 0, fit));
  }
  const profile = profiles.get(name);
  const bound = profile && entityOf(profile, entities);
  const given = textsIn(args);
  const owners = entities.filter((other) => other.index < entity.index && (other === bound || other.ids.some((id) => given.includes(id))));
  const owned = depth < DEEPEST ? owners.map((owner) => 0.5 * namedFit(owner, situation, depth + 1)) : [];
  return [...groups.values()].reduce((sum, fit) => sum + fit, 0) + Math.max(0, ...owned);
}

/** Narrows to one when the user says "the latest" or "the first" of something. */
function byTime<T extends Instance>(instances: readonly T[], { tokens }: Question): T[] {
  const isOne = (words: readonly string[]): boolean =>
    tokens.some(({ lower }, index) => words.includes(lower) && !/[^s]s$/.test(tokens[index + 1]?.lower ?? 's'));
  const timeOf = ({ entity }: T): string => [...(entity?.texts ?? [])].find((text) => /^\d{4}-\d{2}-\d{2}/.test(text)) ?? '';
  const sorted = instances.toSorted((one, other) => timeOf(other).localeCompare(timeOf(one)));
  if (isOne(['latest', 'last', 'newest', 'recent'])) return sorted.slice(0, 1);
  return isOne(['oldest', 'earliest', 'first']) ? sorted.slice(-1) : [...instances];
}

/** Values for an argument from elsewhere, or the things among which nothing decides. */
export interface Found {
  readonly values: readonly JsonValue[];
  readonly choices: readonly string[];
}

/** An argument that the user's words do not fill. */
interface Wanted {
  readonly sense: string;
  readonly stems: readonly string[];
  readonly schema: Schema;
  readonly root: Schema;
}

interface FoundValue extends Instance {
  readonly entity: Entity;
  readonly field: Entity['fields'][number];
}

/**
 * Fills an argument from the objects in results. A result never chooses a tool; here it gives ids of what the user means, and other fields only to
 * tools that read and carry nothing out.
 */
export function lookUp({ sense, stems, schema, root }: Wanted, profile: ToolProfile, situation: Situation): Found {
  const { entities, profiles, question } = situation;
  const isHarmless = profile.isReadOnly && !profile.spec.labels.egress;
  const kind = stems.filter((word) => !isIdKey(word));
  const fits = ({ field, entity }: FoundValue): boolean => {
    const isField = stems.every((word) => field.stems.includes(word));
    if (sense !== 'id') return isField && isHarmless;
    const known = new Set([...(profiles.get(entity.call.name)?.stems.all ?? []), ...field.stems]);
    const isOfKind = field.stems.length > 1 ? isField : kind.every((word) => knows(known, word) > 0);
    return isIdKey(field.key) && (kind.length > 0 ? isOfKind : entity.call === entities.at(-1)?.call);
  };
  const all = entities.flatMap((entity) => entity.fields.map((field): FoundValue => ({ entity, field, id: String(field.value) })));
  const accepted = all.filter((found) => accepts(schema, found.field.value, root) && fits(found));
  const plainFirst = accepted.toSorted((one, other) => Number(other.field.key === 'id') - Number(one.field.key === 'id'));
  const distinct = plainFirst.filter(({ id }, index) => plainFirst.findIndex((one) => one.id === id) === index);
  const picked = chooseInstances(distinct, situation);
  if (picked.length > 1 && !isHarmless && !areAllMeant(picked, question)) return { values: [], choices: picked.map(choiceName) };
  return { values: picked.map(({ field }) => field.value), choices: [] };
}

/** An instance as a person can tell it from others. */
export function choiceName({ id, entity }: Instance): string {
  const label = entity ? labelOf(entity.data) : undefined;
  return label === undefined || label === id ? id : `${label} (${id})`;
}
