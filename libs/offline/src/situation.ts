import { isDeepStrictEqual } from 'node:util';
import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type Message,
  type ModelRequest,
  type ToolCall,
  type ToolMessage,
} from '@toolloop/protocol';
import { isScalar, parseJson } from './json-schema.js';
import { names, ordersIn, range, readQuestion, type Mention, type Question } from './question.js';
import { orderStrength, strength, toolProfile, type ToolProfile } from './tools.js';
import { DOING_VERBS, knows, stem, stemsOf, wordsOf } from './words.js';

/** A call this model made. `open` has no result yet; `denied` is one that no person approved. */
export interface MadeCall {
  readonly name: string;
  readonly args: JsonObject;
  readonly status: 'succeeded' | 'failed' | 'denied' | 'open';
  /** The result as JSON; plain text is a JSON string. */
  readonly value: JsonValue;
  /** The promise of a call that only asked for something to happen later. */
  readonly promise?: string | undefined;
}

/** The question at hand, and the calls made for it. */
export interface Conversation {
  readonly question: string;
  /** Earlier questions of the user, newest first. */
  readonly earlierQuestions: readonly string[];
  /** Calls made for the question, oldest first, and those made before it was asked. */
  readonly calls: readonly MadeCall[];
  readonly earlierCalls: readonly MadeCall[];
  readonly usedCallIds: ReadonlySet<string>;
}

/** Questions and calls further back resolve no pronoun, and reading them would make every answer slower than the one before. */
const MOST_EARLIER = 8;
const CORRECTION = /\b(?:json|schema|valid\w*|invalid|does not (?:match|satisfy|conform))\b/i;

/** Reads the newest question, the calls made for it, and what came before. */
function readConversation({ messages, answerFormat }: ModelRequest): Conversation {
  const users = messages.flatMap(({ role }, index) => (role === 'user' ? [index] : []));
  const asked = users.filter((index, nth) => !answerFormat || nth === 0 || !isCorrection(messages, index));
  const end = asked.at(-1) ?? -1;
  let start = Math.max(end, 0);
  while (messages[start - 1]?.role === 'user') start -= 1;
  const results = new Map(messages.flatMap((message) => (message.role === 'tool' ? [[message.toolCallId, message]] : [])));
  const calls = (part: readonly Message[]): MadeCall[] => part.flatMap(callsOf).map((call) => madeCall(call, results.get(call.toolCallId)));
  const earlier = asked.filter((index) => index < start).slice(-MOST_EARLIER);
  return {
    question: messages
      .slice(start, end + 1)
      .map(textOf)
      .join('\n'),
    earlierQuestions: earlier.toReversed().map((index) => textOf(messages[index])),
    calls: calls(messages.slice(end + 1)),
    earlierCalls: calls(messages.slice(0, start)).slice(-MOST_EARLIER),
    usedCallIds: new Set(messages.flatMap(callsOf).map(({ toolCallId }) => toolCallId)),
  };
}

/** Tells whether a message complains about the JSON answer before it, which makes it no question of its own. */
function isCorrection(messages: readonly Message[], index: number): boolean {
  const before = messages[index - 1];
  const isAnswered = before?.role === 'assistant' && callsOf(before).length === 0 && isJsonObject(parseJson(before.content));
  return isAnswered && CORRECTION.test(textOf(messages[index]));
}

function callsOf(message: Message): readonly ToolCall[] {
  return message.role === 'assistant' ? (message.toolCalls ?? []) : [];
}

function textOf(message: Message | undefined): string {
  const content = message?.content ?? '';
  return typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function madeCall({ name, arguments: text }: ToolCall, result: ToolMessage | undefined): MadeCall {
  const args = parseJson(text);
  const call = { name, args: isJsonObject(args) ? args : {} };
  if (!result) return { ...call, status: 'open', value: null };
  const content = textOf(result);
  const parsed = parseJson(content);
  const value = parsed === undefined ? content : parsed;
  if (result.isError === true || isError(value))
    return { ...call, value, status: fieldOf(errorIn(value), 'code') === 'approval_denied' ? 'denied' : 'failed' };
  const inner = fieldOf(value, 'ok') === true ? fieldOf(value, 'result') : undefined;
  return { ...call, status: 'succeeded', value: inner === undefined ? value : inner, promise: promiseIn(value) };
}

/** Tells whether a result is an error: `{ errors: […] }`, alone or in the envelope `{ ok: false, … }`. */
function isError(value: JsonValue): boolean {
  return isJsonObject(value) && (value['ok'] === false || (isJsonList(value['errors']) && Object.keys(value).length === 1));
}

function promiseIn(value: JsonValue): string | undefined {
  const [type, promise] = [fieldOf(value, 'type'), fieldOf(value, 'human_readable')];
  return typeof type === 'string' && type.endsWith('.requested') && typeof promise === 'string' ? promise : undefined;
}

function fieldOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isJsonObject(value) ? value[key] : undefined;
}

function errorIn(value: JsonValue): JsonValue | undefined {
  const errors = fieldOf(value, 'errors');
  return isJsonList(errors) ? errors[0] : (fieldOf(value, 'error') ?? value);
}

/** The reason a call failed for or was denied for, in the words of its result. */
export function reasonOf({ value }: MadeCall): string {
  const error = errorIn(value);
  const texts = [error, fieldOf(error, 'detail'), fieldOf(error, 'message'), fieldOf(error, 'title'), fieldOf(value, 'human_readable')];
  return texts.find((text) => typeof text === 'string') ?? 'it failed without saying why';
}

/** Tells whether two calls are the same: the tool and its arguments. */
export function isSameCall(one: Pick<MadeCall, 'name' | 'args'>, other: Pick<MadeCall, 'name' | 'args'>): boolean {
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

/** The objects in the results, outer ones before inner ones, in the order of the calls. */
function entitiesIn(calls: readonly MadeCall[]): Entity[] {
  const succeeded = calls.filter(({ status }) => status === 'succeeded');
  const found = succeeded.flatMap((call) => objectsIn(call.value).map((data) => ({ data, call })));
  return found.map(({ data, call }) => {
    const texts = scalarsOf(data).map(([, value]) => String(value).toLowerCase());
    return { data, call, ids: idsOf(data), texts: new Set(texts), words: new Set(texts.flatMap(wordsOf)) };
  });
}

function objectsIn(value: JsonValue): JsonObject[] {
  if (isJsonList(value)) return value.flatMap(objectsIn);
  return isJsonObject(value) ? [value, ...ownEntries(value).flatMap(([, entry]) => objectsIn(entry))] : [];
}

/** An object's properties without the framework's own, which begin with an underscore. */
export function ownEntries(value: JsonObject): [string, JsonValue][] {
  return Object.entries(value).filter(([key]) => !key.startsWith('_'));
}

/** The scalars of a value as text. */
export function textsIn(value: JsonValue): string[] {
  if (isJsonList(value)) return value.flatMap(textsIn);
  return isJsonObject(value) ? ownEntries(value).flatMap(([, inner]) => textsIn(inner)) : [String(value)];
}

/** An object's own scalars by their keys. */
export function scalarsOf(data: JsonObject): [string, string | number | boolean][] {
  return ownEntries(data).flatMap(([key, value]) => (isScalar(value) ? [[key, value]] : []));
}

const ID_KEYS = new Set(['id', 'key', 'code', 'sku', 'number', 'no', 'ref', 'reference', 'uuid', 'isbn', 'slug', 'handle']);

export function isIdKey(key: string): boolean {
  return ID_KEYS.has(wordsOf(key).at(-1) ?? '');
}

export function idsOf(data: JsonObject): string[] {
  const ids = scalarsOf(data).filter(([key]) => isIdKey(key));
  return ids.toSorted(([one], [other]) => Number(other === 'id') - Number(one === 'id')).map(([, value]) => String(value));
}

/** The name of an object; undefined when it has none. */
export function labelOf(data: JsonObject): string | undefined {
  const texts = ['name', 'fullName', 'displayName', 'title', 'label', 'subject'].map((key) => data[key]);
  return texts.find((text): text is string => typeof text === 'string' && text !== '');
}

/** An object as a person can tell it from others: "Walnut desk (p-100)". */
export function nameOf(data: JsonObject): string | undefined {
  const [label, [id]] = [labelOf(data), idsOf(data)];
  return label !== undefined && id !== undefined && label !== id ? `${label} (${id})` : (label ?? id);
}

/** The list a result is about: itself, or the one list of a page. */
export function listOf(value: JsonValue): readonly JsonValue[] | undefined {
  if (!isJsonObject(value)) return isJsonList(value) ? value : undefined;
  const entries = ownEntries(value).map(([, entry]) => entry);
  const lists = entries.filter(isJsonList);
  return lists.length === 1 && entries.every((entry) => typeof entry !== 'string' && !isJsonObject(entry)) ? lists[0] : undefined;
}

/** Tells whether a result holds nothing: an empty list or text, or a page of one. */
export function isEmptyResult(value: JsonValue): boolean {
  const length = listOf(value)?.length ?? (isJsonObject(value) ? ownEntries(value).length : undefined);
  return length === 0 || value === null || value === '';
}

/** The newest object an entity tool is bound to: by the id in its name or, for a handle, by the id its description names. */
export function entityOf({ instanceId, spec }: ToolProfile, entities: readonly Entity[]): Entity | undefined {
  if (instanceId === undefined) return undefined;
  const described = new Set(spec.description.split(/[\s"'`()[\]{}<>,;:=]+|\.(?:\s|$)/).filter((word) => word !== ''));
  const isBound = (id: string): boolean => id === instanceId || described.has(id);
  return entities.findLast(({ ids: [own] }) => own === instanceId) ?? entities.findLast(({ ids }) => ids.some(isBound));
}

/** Everything this model knows before it decides: read from one request, kept nowhere. */
export interface Situation {
  readonly request: ModelRequest;
  readonly conversation: Conversation;
  readonly question: Question;
  readonly tools: readonly ToolProfile[];
  readonly profiles: ReadonlyMap<string, ToolProfile>;
  /** Stems of what the tools speak in: such words name kinds of things, not things. */
  readonly vocabulary: ReadonlySet<string>;
  /** Stems of the words that stand where an order would, and of those that are sure to ask for something to be done. */
  readonly commanded: ReadonlySet<string>;
  readonly orders: ReadonlySet<string>;
  readonly entities: readonly Entity[];
  /** Stems of the words that want an answer, and of those that still want one after the calls so far. */
  readonly wanted: readonly string[];
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

/** Reads the request: the question, the tools, and how far the calls so far answer it. */
export function readSituation(request: ModelRequest): Situation {
  const conversation = readConversation(request);
  const { calls, earlierCalls, earlierQuestions: earlier } = conversation;
  const tools = request.tools.map(toolProfile);
  const profiles = new Map(tools.map((profile) => [profile.spec.id, profile]));
  const vocabulary = new Set(tools.flatMap(({ stems }) => [...stems.method, ...stems.property, ...stems.kind]));
  const question = readQuestion(conversation.question.slice(0, MOST_CHARACTERS), vocabulary, earlier);
  const commands = ordersIn(question, vocabulary);
  const orders = new Set(commands.filter(({ lower }) => DOING_VERBS.has(lower)).flatMap(({ stems }) => stems));
  const used = usedMentions(question.mentions, calls);
  const placed = new Set(used.flatMap(({ first, last }) => range(first, last)));
  const sent = new Set(calls.flatMap(({ args }) => textsIn(args)).flatMap(wordsOf));
  const spoken = new Set(question.tokens.flatMap(({ stems, lower }, index) => (placed.has(index) || sent.has(lower) ? stems : [])));
  const wanted = [...new Set(question.words.map((word) => word.stem))];
  const isAnswered = (one: string): boolean => calls.some((call) => isAnsweredBy(call, profiles.get(call.name), one, orders));
  return {
    request,
    conversation,
    question,
    tools,
    profiles,
    vocabulary,
    orders,
    wanted,
    spoken,
    commanded: new Set(commands.flatMap(({ stems }) => stems)),
    entities: entitiesIn([...earlierCalls, ...calls]),
    open: wanted.filter((one) => !spoken.has(one) && !isAnswered(one)),
    unlocated: question.mentions.filter((mention) => names(mention) && !used.includes(mention)),
  };
}

/** A word is answered by a tool that was called because of it, or by what its result says; an order by a tool alone. */
function isAnsweredBy(call: MadeCall, profile: ToolProfile | undefined, one: string, orders: ReadonlySet<string>): boolean {
  if (call.status === 'failed') return false;
  if (orders.has(one)) return profile !== undefined && orderStrength(profile, one) >= ANSWERED;
  const isVain = call.status === 'succeeded' && profile?.isReadOnly === true && isEmptyResult(call.value);
  return !isVain && answers(call, profile, one);
}

/** Tells whether a call answers a word: by its tool, by an argument that bears its name, or by its result. */
export function answers(call: MadeCall, profile: ToolProfile | undefined, wanted: string): boolean {
  const isTool = profile !== undefined && strength(profile, wanted) >= ANSWERED;
  return isTool || knows(new Set(Object.keys(call.args).flatMap(stemsOf)), wanted) > 0 || resultSays(call, wanted);
}

const LONGEST_STATE = 3;

/** Tells whether a result alone answers a word: as a key, or as a short value such as a status. Running text is data and answers nothing. */
export function resultSays({ value }: MadeCall, wanted: string): boolean {
  const short = termsIn(value)
    .map(wordsOf)
    .filter(({ length }) => length <= LONGEST_STATE);
  return knows(new Set(short.flat().map(stem)), wanted) > 0;
}

/** The keys and scalars of a value as text. */
function termsIn(value: JsonValue): string[] {
  if (isJsonList(value)) return value.flatMap(termsIn);
  return isJsonObject(value) ? ownEntries(value).flatMap(([key, inner]) => [key].concat(termsIn(inner))) : [String(value)];
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

/**
 * The instances the user means: those named by id, else those that fit best, else the latest or first, else all that are left. Where nothing decides
 * which one a tool is to change, there are but the names to choose from.
 */
export function chooseInstances<T extends Instance>(
  instances: readonly T[],
  { isReadOnly }: ToolProfile,
  situation: Situation,
): { readonly chosen: readonly T[]; readonly choices: readonly string[] } {
  const chosen = instances.length > 1 ? bestFitting(instances, situation) : instances;
  const isDecided = chosen.length < 2 || isReadOnly || areAllMeant(chosen, situation.question);
  return isDecided ? { chosen: chosen.slice(0, MOST_INSTANCES), choices: [] } : { chosen: [], choices: chosen.map(choiceName) };
}

function bestFitting<T extends Instance>(instances: readonly T[], situation: Situation): readonly T[] {
  const mentioned = instances.filter(({ id, entity }) => isMentioned([id, ...(entity?.ids.slice(0, 1) ?? [])], situation.question));
  if (mentioned.length > 0) return mentioned;
  const fits = instances.map(({ entity }) => (entity ? namedFit(entity, situation) : 0));
  const fitting = instances.filter((_, index) => (fits[index] ?? 0) >= Math.max(...fits) - 0.05);
  return fitting.length > 1 ? byTime(fitting, situation.question) : fitting;
}

/** Tells whether the user named an instance, by its id or by what its object holds. */
export function isNamed({ id, entity }: Instance, situation: Situation): boolean {
  return isMentioned([id], situation.question) || (entity !== undefined && namedFit(entity, situation) > 0);
}

function isMentioned(ids: readonly string[], { mentions }: Question): boolean {
  return mentions.some(({ value }) => ids.some((id) => id.toLowerCase() === value.toLowerCase()));
}

/** Tells whether the user asked for all, or named as many things as there are, each by its whole name or id. */
function areAllMeant(instances: readonly Instance[], { tokens, mentions }: Question): boolean {
  const isWhole = ({ id, entity }: Instance, text: string): boolean => text === id.toLowerCase() || entity?.texts.has(text) === true;
  const named = instances.flatMap((instance) => mentions.find(({ value }) => isWhole(instance, value.toLowerCase())) ?? []);
  return tokens.some(({ lower }) => ['all', 'each', 'every', 'both'].includes(lower)) || new Set(named).size === instances.length;
}

const DEEPEST = 3;

/** Rates how surely the user named an object, half of what named its owner included: an order is John's when it was found through John. */
function namedFit(entity: Entity, situation: Situation, depth = 0): number {
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
  const owners = entities
    .slice(0, entities.indexOf(entity))
    .filter((other) => other === bound || other.ids.some((id) => given.includes(id)));
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

/** An instance as a person can tell it from others. */
function choiceName({ id, entity }: Instance): string {
  return (entity && nameOf(entity.data)) ?? id;
}
