import { isDeepStrictEqual } from 'node:util';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type Message,
  type ModelRequest,
  type ToolCall,
} from '@toolloop/protocol';
import { names, ordersIn, range, readQuestion, type Mention, type Question } from './question.js';
import { orderStrength, strength, toolProfile, type ToolProfile } from './tools.js';
import {
  idsOf,
  isEmptyResult,
  listOf,
  nameOf,
  parseJson,
  scalarsOf,
  textsIn,
  valuesIn,
} from './values.js';
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
  /**
   * Stems of the words that stand where an order would, and of those that are sure to ask for
   * something to be done.
   */
  readonly commanded: ReadonlySet<string>;
  readonly orders: ReadonlySet<string>;
  readonly entities: readonly Entity[];
  /**
   * Stems of the words that want an answer, and of those that still want one after the calls so
   * far.
   */
  readonly wanted: readonly string[];
  readonly open: readonly string[];
  /** Names that no call has used yet. */
  readonly unlocated: readonly Mention[];
}

/** A call this model made; `denied` is one that no person approved. */
export interface MadeCall {
  readonly name: string;
  readonly args: JsonObject;
  readonly status: 'succeeded' | 'failed' | 'denied';
  readonly value: JsonValue;
  /** The promise of a call that only asked for something to happen later. */
  readonly promise?: string | undefined;
}

export interface Conversation {
  readonly question: string;
  /** Calls made for the question, oldest first, and those made before it was asked. */
  readonly calls: readonly MadeCall[];
  readonly earlierCalls: readonly MadeCall[];
  readonly usedCallIds: ReadonlySet<string>;
}

/** The reason a call failed for or was denied for, in the words of its result. */
export function reasonOf({ value }: MadeCall): string {
  const error = errorIn(value);
  const texts = [fieldOf(error, 'detail'), fieldOf(error, 'title'), error];
  return texts.find((text) => typeof text === 'string') ?? 'it failed without saying why';
}

export function isSameCall(
  one: Pick<MadeCall, 'name' | 'args'>,
  other: Pick<MadeCall, 'name' | 'args'>,
): boolean {
  return one.name === other.name && isDeepStrictEqual(one.args, other.args);
}

/** An object found in a result: a thing the conversation can speak of. */
export interface Entity {
  readonly data: JsonObject;
  readonly call: MadeCall;
  /** The values under `id` and keys like it, the plain `id` first. */
  readonly ids: readonly string[];
  /** Its scalars in lower case, and their words. */
  readonly texts: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

/**
 * The newest object an entity tool is bound to: by the id in its name or, for a handle, by the id
 * its description names.
 */
export function entityOf(
  profile: ToolProfile | undefined,
  entities: readonly Entity[],
): Entity | undefined {
  if (profile?.instanceId === undefined) return undefined;
  const { instanceId, spec } = profile;
  const described = new Set(
    spec.description.split(/[\s"'`()[\]{}<>,;:=]+|\.(?:\s|$)/).filter((word) => word !== ''),
  );
  const isBound = (id: string): boolean => id === instanceId || described.has(id);
  return (
    entities.findLast(({ ids: [own] }) => own === instanceId) ??
    entities.findLast(({ ids }) => ids.some(isBound))
  );
}

/**
 * Calls further back are forgotten, or reading them would make every answer slower than the one
 * before.
 */
const MOST_EARLIER = 8;

function readConversation({ messages }: ModelRequest): Conversation {
  const own = messages.findLastIndex(
    (message) => message.role === 'user' && message.labels === undefined,
  );
  const asked = own < 0 ? messages.findIndex(({ role }) => role === 'user') : own;
  const results = new Map(
    messages.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])),
  );
  const calls = (part: readonly Message[]): MadeCall[] =>
    part.flatMap(callsOf).map((call) => madeCall(call, results.get(call.toolCallId)));
  return {
    question: textOf(messages[asked]),
    calls: calls(messages.slice(asked + 1)),
    earlierCalls: calls(messages.slice(0, Math.max(asked, 0))).slice(-MOST_EARLIER),
    usedCallIds: new Set(messages.flatMap(callsOf).map(({ toolCallId }) => toolCallId)),
  };
}

function callsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

function textOf(message: Message | undefined): string {
  const content = message?.content ?? '';
  return typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function madeCall(
  { name, arguments: text }: ToolCall,
  result: Extract<Message, { role: 'tool' }> | undefined,
): MadeCall {
  const args = parseJson(text);
  const call = { name, args: isJsonObject(args) ? args : {} };
  if (!result) return { ...call, status: 'failed', value: 'There is no result.' };
  const content = textOf(result);
  const parsed = parseJson(content);
  const value = parsed === undefined ? content : parsed;
  if (result.isError === true || fieldOf(value, 'ok') === false)
    return {
      ...call,
      value,
      status: fieldOf(errorIn(value), 'code') === 'approval_denied' ? 'denied' : 'failed',
    };
  const inner = fieldOf(value, 'ok') === true ? fieldOf(value, 'result') : undefined;
  return {
    ...call,
    status: 'succeeded',
    value: inner === undefined ? value : inner,
    promise: promiseIn(value),
  };
}

function promiseIn(value: JsonValue): string | undefined {
  const [type, promise] = [fieldOf(value, 'type'), fieldOf(value, 'human_readable')];
  return typeof type === 'string' && type.endsWith('.requested') && typeof promise === 'string'
    ? promise
    : undefined;
}

function fieldOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isJsonObject(value) ? value[key] : undefined;
}

/**
 * The first of `{ errors: […] }`, alone or in the envelope `{ ok: false, … }`; else the value
 * itself.
 */
function errorIn(value: JsonValue): JsonValue {
  return listOf(fieldOf(value, 'errors') ?? null)?.[0] ?? value;
}

function entitiesIn(calls: readonly MadeCall[]): Entity[] {
  const succeeded = calls.filter(({ status }) => status === 'succeeded');
  const found = succeeded.flatMap((call) =>
    valuesIn(call.value).flatMap(([, data]) => (isJsonObject(data) ? { data, call } : [])),
  );
  return found.map(({ data, call }) => {
    const texts = scalarsOf(data).map(([, value]) => String(value).toLowerCase());
    return {
      data,
      call,
      ids: idsOf(data),
      texts: new Set(texts),
      words: new Set(texts.flatMap(wordsOf)),
    };
  });
}

export const ANSWERED = 0.5;
const MOST_CHARACTERS = 4000;

export function readSituation(request: ModelRequest): Situation {
  const conversation = readConversation(request);
  const { calls, earlierCalls } = conversation;
  const tools = request.tools.map(toolProfile);
  const profiles = new Map(tools.map((profile) => [profile.spec.id, profile]));
  const vocabulary = new Set(
    tools.flatMap(({ stems }) => [...stems.method, ...stems.property, ...stems.kind]),
  );
  const question = readQuestion(conversation.question.slice(0, MOST_CHARACTERS), vocabulary);
  const commands = ordersIn(question, vocabulary);
  const orders = new Set(
    commands.filter(({ lower }) => DOING_VERBS.has(lower)).flatMap(({ stems }) => stems),
  );
  const said = new Set(
    calls
      .flatMap(({ args, name }) => [...textsIn(args), ...name.split('_')])
      .map((text) => text.toLowerCase()),
  );
  const used = question.mentions.filter(({ value }) => said.has(value.toLowerCase()));
  const placed = new Set(used.flatMap(({ first, last }) => range(first, last)));
  const sent = new Set(calls.flatMap(({ args }) => textsIn(args)).flatMap(wordsOf));
  const spoken = new Set(
    question.tokens.flatMap(({ stems, lower }, index) =>
      placed.has(index) || sent.has(lower) ? stems : [],
    ),
  );
  const wanted = [...new Set(question.words.map((word) => word.stem))];
  const isAnswered = (one: string): boolean =>
    calls.some((call) => isAnsweredBy(call, profiles.get(call.name), one, orders));
  return {
    request,
    conversation,
    question,
    tools,
    profiles,
    vocabulary,
    orders,
    wanted,
    commanded: new Set(commands.flatMap(({ stems }) => stems)),
    entities: entitiesIn([...earlierCalls, ...calls]),
    open: wanted.filter((one) => !spoken.has(one) && !isAnswered(one)),
    unlocated: question.mentions.filter((mention) => names(mention) && !used.includes(mention)),
  };
}

/**
 * A word is answered by a tool that was called because of it, by an argument of its name, or by
 * what a result says; an order by a tool alone.
 */
function isAnsweredBy(
  call: MadeCall,
  profile: ToolProfile | undefined,
  one: string,
  orders: ReadonlySet<string>,
): boolean {
  if (call.status === 'failed') return false;
  if (orders.has(one)) return profile !== undefined && orderStrength(profile, one) >= ANSWERED;
  if (call.status === 'succeeded' && profile?.isReadOnly === true && isEmptyResult(call.value))
    return false;
  const isTool = profile !== undefined && strength(profile, one) >= ANSWERED;
  return (
    isTool ||
    knows(new Set([...Object.keys(call.args).flatMap(stemsOf), ...termsIn(call.value)]), one) > 0
  );
}

const LONGEST_STATE = 3;

/**
 * Stems of what a result says in keys and in short values such as a status. Running text is data
 * and answers nothing.
 */
function termsIn(value: JsonValue): string[] {
  const texts = [...valuesIn(value).map(([key]) => key), ...textsIn(value)].map(wordsOf);
  return texts.filter(({ length }) => length <= LONGEST_STATE).flatMap((words) => words.map(stem));
}

export interface Instance {
  readonly id: string;
  readonly entity: Entity | undefined;
}

export const MOST_INSTANCES = 5;

/**
 * The instances the user means: those that fit best, of these the latest where the user says so.
 * Where nothing decides which one a tool is to change, there are but the names to choose from.
 */
export function chooseInstances<T extends Instance>(
  instances: readonly T[],
  { isReadOnly }: ToolProfile,
  situation: Situation,
): { readonly chosen: readonly T[]; readonly choices: readonly string[] } {
  const fits = instances.map((instance) => fitOf(instance, situation));
  const fitting = instances.filter((_, index) => (fits[index] ?? 0) >= Math.max(...fits) - 0.05);
  const chosen = isLatestMeant(situation.question) ? latestOf(fitting) : fitting;
  const isDecided = chosen.length < 2 || isReadOnly || areAllMeant(chosen, situation.question);
  const labels = chosen.map(({ id, entity }) => (entity && nameOf(entity.data)) ?? id);
  return isDecided
    ? { chosen: chosen.slice(0, MOST_INSTANCES), choices: [] }
    : { chosen: [], choices: labels };
}

/** More than any name can say. */
const FIT_OF_ID = 100;

/**
 * Rates how surely the user named an instance, by its id or by what its object holds; 0 for not at
 * all.
 */
export function fitOf({ id, entity }: Instance, situation: Situation): number {
  const ids = new Set([id, ...(entity?.ids.slice(0, 1) ?? [])].map((one) => one.toLowerCase()));
  if (situation.question.mentions.some(({ value }) => ids.has(value.toLowerCase())))
    return FIT_OF_ID;
  return entity ? namedFit(entity, situation) : 0;
}

/**
 * Tells whether the user asked for all, or named as many things as there are, each by its whole
 * name or id.
 */
function areAllMeant(instances: readonly Instance[], { tokens, mentions }: Question): boolean {
  const texts = mentions.map(({ value }) => value.toLowerCase());
  const named = instances.flatMap(
    ({ id, entity }) =>
      texts.find((text) => text === id.toLowerCase() || entity?.texts.has(text)) ?? [],
  );
  return (
    tokens.some(({ lower }) => ['all', 'each', 'every', 'both'].includes(lower)) ||
    new Set(named).size === instances.length
  );
}

const DEEPEST = 3;

/**
 * Rates how surely the user named an object, half of what named its owner included: an order is
 * John's when it was found through John.
 */
function namedFit(entity: Entity, situation: Situation, depth = 0): number {
  const { question, entities, profiles } = situation;
  const { name, args } = entity.call;
  const groups = new Map<number, number>();
  for (const mention of question.mentions.filter(names)) {
    const wanted = wordsOf(mention.value);
    const shared =
      wanted.filter((word) => entity.words.has(word)).length / Math.max(wanted.length, 1);
    const found = textsIn(args).some((text) => text.toLowerCase() === mention.value.toLowerCase())
      ? 0.2
      : 0;
    const fit = entity.texts.has(mention.value.toLowerCase()) ? 1 : Math.max(0.8 * shared, found);
    groups.set(mention.group, Math.max(groups.get(mention.group) ?? 0, fit));
  }
  const bound = entityOf(profiles.get(name), entities);
  const given = textsIn(args);
  const owners = entities
    .slice(0, entities.indexOf(entity))
    .filter((other) => other === bound || other.ids.some((id) => given.includes(id)));
  const owned =
    depth < DEEPEST ? owners.map((owner) => 0.5 * namedFit(owner, situation, depth + 1)) : [];
  return [...groups.values()].reduce((sum, fit) => sum + fit, 0) + Math.max(0, ...owned);
}

const LATEST = new Set(['latest', 'last', 'newest', 'recent']);

/** Tells whether the user says "the latest" of something, and not of several. */
function isLatestMeant({ tokens }: Question): boolean {
  return tokens.some(
    ({ lower }, index) => LATEST.has(lower) && !/[^s]s$/.test(tokens[index + 1]?.lower ?? 's'),
  );
}

function latestOf<T extends Instance>(instances: readonly T[]): T[] {
  const timeOf = ({ entity }: T): string =>
    [...(entity?.texts ?? [])].find((text) => /^\d{4}-\d{2}-\d{2}/.test(text)) ?? '';
  return instances.toSorted((one, other) => timeOf(other).localeCompare(timeOf(one))).slice(0, 1);
}
