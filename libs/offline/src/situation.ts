import type { JsonValue, ModelRequest } from '@toolloop/core';
import { entitiesIn, isEmptyResult, ownEntries, readConversation, type Conversation, type Entity, type MadeCall } from './conversation.js';
import { isJsonArray, isJsonObject, isScalar, plainText } from './json-schema.js';
import { names, ordersIn, range, readQuestion, type Mention, type Question } from './question.js';
import { entityOf, orderStrength, strength, toolProfile, type ToolProfile } from './tools.js';
import { DOING_VERBS, isStopWord, knows, stem, stemsOf, wordsOf } from './words.js';

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
  /** Stems of the words that stand where an order would. */
  readonly commanded: ReadonlySet<string>;
  /** Stems of those that are sure to ask for something to be done, not said. */
  readonly orders: ReadonlySet<string>;
  readonly entities: readonly Entity[];
  /** How far each word of the question is answered by the calls so far, from 0 to 1. */
  readonly coverage: ReadonlyMap<string, number>;
  /** Stems of the words that still want an answer. */
  readonly open: readonly string[];
  /** What the user named and no call has used yet. */
  readonly unlocated: readonly Mention[];
}

/** From here on a word counts as answered. */
export const ANSWERED = 0.5;
/** Of a longer question only the beginning is read. */
const MOST_CHARACTERS = 4000;

export function readSituation(request: ModelRequest, givenToday?: string): Situation {
  const conversation = readConversation(request);
  const { calls, earlierCalls, earlierQuestions: earlier } = conversation;
  const tools = request.tools.map(toolProfile);
  const profiles = new Map(tools.map((profile) => [profile.spec.id, profile]));
  const vocabulary = new Set(
    tools.flatMap(({ stems, instanceId }) => [...stems.method, ...stems.property, ...(instanceId === undefined ? [] : stems.owner)]),
  );
  const today = givenToday ?? /\b(?:today|date)\b[^\d\n]{0,40}(\d{4}-\d{2}-\d{2})/i.exec(request.instructions ?? '')?.[1];
  const question = readQuestion(conversation.question.slice(0, MOST_CHARACTERS), { vocabulary, earlier, today });
  const commands = ordersIn(question, vocabulary);
  const orders = new Set(commands.filter(({ lower }) => DOING_VERBS.has(lower)).flatMap(({ stems }) => stems));
  const used = usedMentions(question.mentions, calls);
  const coverage = coverageOf({ question, profiles, orders, conversation }, used);
  return {
    request,
    conversation,
    question,
    tools,
    profiles,
    vocabulary,
    today,
    commanded: new Set(commands.flatMap(({ stems }) => stems)),
    orders,
    entities: entitiesIn([...earlierCalls, ...calls]),
    coverage,
    open: wantedStems(question).filter((wanted) => (coverage.get(wanted) ?? 0) < ANSWERED),
    unlocated: question.mentions.filter((mention) => names(mention) && !used.includes(mention)),
  };
}

/** The stems that want an answer. */
export function wantedStems({ words }: Question): string[] {
  return [...new Set(words.filter(({ weak }) => !weak).map((word) => word.stem))];
}

/** A word is answered by a tool that was called because of it, or by what a result says; an order by a tool alone. */
function coverageOf(
  { question, profiles, orders, conversation: { calls } }: Pick<Situation, 'question' | 'profiles' | 'orders' | 'conversation'>,
  used: readonly Mention[],
): ReadonlyMap<string, number> {
  const answers = calls
    .filter(({ status }) => status !== 'failed')
    .map((call) => ({ profile: profiles.get(call.name), answered: answeredBy(call, profiles.get(call.name)) }));
  const spoken = new Set(spokenStems(question, calls, used));
  const coveredBy = (wanted: string): number[] =>
    answers.map(({ profile, answered }) => (orders.has(wanted) ? (profile ? orderStrength(profile, wanted) : 0) : answered(wanted)));
  return new Map(question.words.map(({ stem: wanted }) => [wanted, spoken.has(wanted) ? 1 : Math.max(0, ...coveredBy(wanted))]));
}

/** Words that are part of a value the model has sent already. */
export function spokenStems({ tokens, mentions }: Question, calls: readonly MadeCall[], used: readonly Mention[] = usedMentions(mentions, calls)): string[] {
  const mentioned = new Set(used.flatMap(({ first, last }) => range(first, last)));
  const sent = new Set(
    calls
      .flatMap(({ args }) => scalarsDeep(args))
      .filter(({ length }) => length < LONGEST_VALUE)
      .flatMap(wordsOf),
  );
  return tokens.filter(({ lower }, index) => mentioned.has(index) || sent.has(lower)).flatMap(({ stems }) => stems);
}

/** The mentions whose value stands in the arguments of a call, or whose id stands in its tool's name. */
export function usedMentions(mentions: readonly Mention[], calls: readonly MadeCall[]): Mention[] {
  const sent = new Set(calls.flatMap(({ args, name }) => [...scalarsDeep(args), ...name.split('_')]).map((text) => text.toLowerCase()));
  return mentions.filter(({ value, kind }) => {
    const lower = value.toLowerCase();
    return sent.has(lower) || ((kind === 'name' || kind === 'phrase') && sent.has(lower.split(' ').at(-1) ?? lower));
  });
}

function scalarsDeep(value: JsonValue): string[] {
  if (isJsonArray(value)) return value.flatMap(scalarsDeep);
  return isJsonObject(value) ? Object.values(value).flatMap(scalarsDeep) : [plainText(value)];
}

/** How well one call answers a word: its tool is meant by it, an argument bears its name, or its result speaks of it. */
export function answeredBy(call: MadeCall, profile: ToolProfile | undefined): (wanted: string) => number {
  if (call.status === 'succeeded' && profile?.isReadOnly === true && isEmptyResult(call.value)) return () => 0;
  const inResult = answeredByResult(call);
  return (wanted) => Math.max(meant(call, profile, wanted), inResult(wanted));
}

/** How surely a word meant this call. */
export function meant({ args }: MadeCall, profile: ToolProfile | undefined, wanted: string): number {
  return Math.max(profile ? strength(profile, wanted) : 0, 0.9 * knows(new Set(Object.keys(args).flatMap(stemsOf)), wanted));
}

const LONGEST_VALUE = 60;
const LONGEST_STATE = 3;

/** How well a result alone answers a word: as a key, or as a short value such as a status. Running text is data and answers nothing. */
export function answeredByResult({ value }: MadeCall): (wanted: string) => number {
  const keys = new Set<string>();
  const values = new Set<string>();
  const visit = (entry: JsonValue): void => {
    if (isJsonArray(entry)) entry.forEach(visit);
    else if (isJsonObject(entry)) {
      for (const [key, inner] of ownEntries(entry)) {
        for (const word of wordsOf(key)) keys.add(stem(word));
        visit(inner);
      }
    } else {
      const words = plainText(entry).length < LONGEST_VALUE ? wordsOf(plainText(entry)) : [];
      if (words.length <= LONGEST_STATE) for (const word of words) values.add(stem(word));
    }
  };
  visit(value);
  return (wanted) => Math.max(knows(keys, wanted), values.has(wanted) ? 0.7 : 0);
}

/** One of several things of a kind: its id, and its object where a result held it. */
export interface Instance {
  readonly id: string;
  readonly entity: Entity | undefined;
}

/** How many instances one answer calls at most. */
export const MOST_INSTANCES = 5;
const DEEPEST = 3;

/** The instances the user means: those named by id, else those that fit best, else the latest or first, else all that are left. */
export function chooseInstances<T extends Instance>(instances: readonly T[], situation: Situation): T[] {
  const mentioned = instances.filter(({ id, entity }) => isMentioned([id, ...(entity?.ids.slice(0, 1) ?? [])], situation.question));
  if (mentioned.length > 0) return mentioned;
  const fits = instances.map(({ entity }) => (entity ? namedFit(entity, situation) + 0.3 * describedFit(entity, situation.question) : 0));
  const fitting = instances.filter((_, index) => (fits[index] ?? 0) >= Math.max(...fits) - 0.05);
  return fitting.length > 1 ? byTime(fitting, situation.question) : fitting;
}

export function isMentioned(ids: readonly string[], { mentions }: Question): boolean {
  return mentions.some(({ value, kind }) => kind !== 'rest' && ids.some((id) => id.toLowerCase() === value.toLowerCase()));
}

/** Whether the user asked for all, or named as many things as there are, each by its whole name or id. */
export function areAllMeant(instances: readonly Instance[], { tokens, mentions }: Question): boolean {
  const named = instances.flatMap(({ id, entity }) => {
    const texts = new Set([id.toLowerCase(), ...(entity?.texts ?? [])]);
    return mentions.find(({ value }) => texts.has(value.toLowerCase()))?.value ?? [];
  });
  return tokens.some(({ lower }) => ['all', 'each', 'every', 'both'].includes(lower)) || new Set(named).size === instances.length;
}

/** How surely the user named an object, half of what named its owner included: an order is John's when it was found through John. */
export function namedFit(entity: Entity, situation: Situation, depth = 0): number {
  const { question, entities, profiles } = situation;
  const groups = new Map<number, number>();
  for (const mention of question.mentions.filter(names))
    groups.set(mention.group, Math.max(groups.get(mention.group) ?? 0, mentionFit(mention, entity)));
  const { name, args } = entity.call;
  const profile = profiles.get(name);
  const bound = profile && entityOf(profile, entities);
  const given = new Set(Object.values(args).filter(isScalar).map(String));
  const owners = entities.filter((other) => other.index < entity.index && (other === bound || other.ids.some((id) => given.has(id))));
  const owned = depth < DEEPEST ? owners.map((owner) => 0.5 * namedFit(owner, situation, depth + 1)) : [];
  return [...groups.values()].reduce((sum, fit) => sum + fit, 0) + Math.max(0, ...owned);
}

function mentionFit({ value }: Mention, { texts, words, call }: Entity): number {
  const wanted = value.toLowerCase();
  if (texts.has(wanted)) return 1;
  const foundWith = Object.values(call.args).some((given) => isScalar(given) && String(given).toLowerCase() === wanted) ? 0.2 : 0;
  return Math.max(0.8 * shareOf(wordsOf(wanted), words), foundWith);
}

function describedFit({ words: own }: Entity, { words }: Question): number {
  const known = new Set([...own].filter((word) => !isStopWord(word)).map(stem));
  return shareOf(
    words.map((word) => word.stem),
    known,
  );
}

function shareOf(wanted: readonly string[], known: ReadonlySet<string>): number {
  return wanted.length === 0 ? 0 : wanted.filter((word) => known.has(word)).length / wanted.length;
}

/** Narrows to one when the user says "the latest" or "the first" of something. */
function byTime<T extends Instance>(instances: readonly T[], { tokens }: Question): T[] {
  const wants = (words: readonly string[]): boolean =>
    tokens.some(
      ({ lower }, index) => words.includes(lower) && tokens[index + 1]?.kind === 'word' && !/[^s]s$/.test(tokens[index + 1]?.lower ?? ''),
    );
  const sorted = instances.toSorted((one, other) => (timeOf(one) < timeOf(other) ? 1 : -1));
  const dated = instances.every((instance) => timeOf(instance) !== '');
  if (wants(['latest', 'last', 'newest', 'recent'])) return (dated ? sorted : instances).slice(0, 1);
  return wants(['oldest', 'earliest', 'first']) ? (dated ? sorted.toReversed() : instances).slice(0, 1) : [...instances];
}

function timeOf({ entity }: Instance): string {
  return entity?.fields.map(({ value }) => String(value)).find((value) => /^\d{4}-\d{2}-\d{2}/.test(value)) ?? '';
}
