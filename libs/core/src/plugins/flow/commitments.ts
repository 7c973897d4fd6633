import { isDeepStrictEqual } from 'node:util';
import {
  type Endorsable,
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type Message,
  type ToolMessage,
} from '@toolloop/protocol';
import type { JSONSchema7Definition } from 'json-schema';
import type {
  CommittableCall,
  EndorsedArgument,
  EndorsementRule,
  PolicyCall,
  PolicySubject,
  PolicyTool,
} from '../../contracts/policy.js';
import { parseJson } from '../../schema/canonical-json.js';
import { covers } from '../../policy/rules.js';
import { referencedBy } from '../values/value-references.js';

/**
 * Returns the commitments that hold at the end of a transcript: those of the first call that made
 * some in the turn, by a model that had read nothing from outside. The user's next words end them,
 * and nothing widens them.
 */
export function commitmentsIn(messages: readonly ReadMessage[]): readonly Commitment[] {
  let inForce: readonly Commitment[] = [];
  const made = new Map<string, readonly Commitment[]>();
  for (const { message, outsideBits, isOfUser } of messages) {
    if (isOfUser) inForce = [];
    const planning =
      message.role === 'assistant' && outsideBits === 0 ? (message.toolCalls ?? []) : [];
    for (const { toolCallId, arguments: text } of planning.filter(({ name }) => name === COMMIT_ID))
      made.set(toolCallId, commitmentsOf(parseJson(text)));
    const told = isTaken(message) ? made.get(message.toolCallId) : undefined;
    if (inForce.length === 0) inForce = told ?? inForce;
  }
  return inForce;
}

/** The id of the tool by which a model commits itself, and under which policies name it. */
export const COMMIT_ID = 'plan__commit';

/** The id of the tool by which a model asks about texts that it does not read. */
export const ASK_ID = 'values__ask';

/** An argument that was fixed: a value, or the place in a result that it will come from. */
export type CommittedArgument = { readonly value: JsonValue } | CommittedPlace;

/** A place in a result, such as `orders__find#/id`, and the fields of the item that is meant. */
export interface CommittedPlace {
  readonly from: string;
  /** @default any item */
  readonly where?: JsonObject;
}

/** A call that was fixed before any text from outside was read. */
export interface Commitment {
  /** The id of the tool as the model knows it: of an entity's tool with the instance in it. */
  readonly tool: string;
  /** The number of such calls. */
  readonly count: number;
  readonly args: ReadonlyMap<string, CommittedArgument>;
}

/** Reads the commitments that a model makes with a call; none where a part of them says nothing. */
function commitmentsOf(input: JsonValue | undefined): readonly Commitment[] {
  const given = isJsonObject(input) ? input['calls'] : undefined;
  return isJsonList(given) ? given.flatMap((one) => commitmentOf(one) ?? []) : [];
}

function commitmentOf(given: JsonValue): Commitment | undefined {
  if (!isJsonObject(given) || typeof given['tool'] !== 'string') return undefined;
  const { tool, count = 1, arguments: named = [] } = given;
  const args = isJsonList(named) ? named.flatMap(argumentOf) : [];
  return { tool, count: typeof count === 'number' ? count : 1, args: new Map(args) };
}

function argumentOf(given: JsonValue): (readonly [string, CommittedArgument])[] {
  if (!isJsonObject(given) || typeof given['name'] !== 'string') return [];
  const { name, value, from, where } = given;
  if (typeof from === 'string') return [[name, { from, ...(isJsonObject(where) && { where }) }]];
  return value === undefined ? [] : [[name, { value }]];
}

/** A message, and all that a model has read by its end. */
export interface ReadMessage {
  readonly message: Message;
  /** The bits from outside, those of the message included. */
  readonly outsideBits: number;
  readonly isOfUser: boolean;
}

/**
 * Tells whether a model has asked to commit itself anywhere in a transcript. Most have not, and
 * nothing more is to be read of them at each of their calls.
 */
export function hasCommitted(messages: readonly Message[]): boolean {
  return messages.some(
    (message) =>
      message.role === 'assistant' &&
      message.toolCalls?.some(({ name }) => name === COMMIT_ID) === true,
  );
}

/**
 * Tells whether a message is the result of a call that was let in, and not one that a client sent.
 */
function isTaken(message: Message): message is ToolMessage {
  return message.role === 'tool' && !message.isError && message.labels?.returns === 'trusted';
}

/** A value that a model was told about texts which it does not read, and the places of those. */
export interface ToldValue {
  readonly value: JsonValue;
  readonly from: readonly string[];
}

/**
 * Returns what the models of a transcript were told about hidden texts. A client cannot make one
 * up: what it sends is not counted in bits.
 */
export function toldIn(messages: readonly Message[]): readonly ToldValue[] {
  const results = messages.filter(isResult);
  const places = new Map(
    results.flatMap(({ hidden = [] }) => hidden.map(({ id, from }) => [id, from] as const)),
  );
  const asking = messages.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );
  const asked = new Map(
    asking.flatMap((call) =>
      call.name === ASK_ID ? [[call.toolCallId, askedAbout(call.arguments)] as const] : [],
    ),
  );
  return results.flatMap((result) => {
    const of = isCounted(result) ? asked.get(result.toolCallId) : undefined;
    return of?.every((id) => places.has(id))
      ? toldBy(result, [...new Set(of.flatMap((id) => places.get(id) ?? []))])
      : [];
  });
}

function toldBy(result: ToolMessage, from: readonly string[]): readonly ToldValue[] {
  const answer = answerIn(result);
  return answer === undefined ? [] : valuesIn(answer).map((value) => ({ value, from }));
}

function isResult(message: Message): message is ToolMessage {
  return message.role === 'tool';
}

function askedAbout(text: string): readonly string[] {
  const input = parseJson(text);
  return referencedBy(isJsonObject(input) ? input['of'] : undefined);
}

function isCounted({ isError, labels }: ToolMessage): boolean {
  return !isError && labels?.outsideBits !== undefined;
}

function answerIn({ content }: ToolMessage): JsonValue | undefined {
  const result = typeof content === 'string' ? parseJson(content) : undefined;
  return result === undefined
    ? undefined
    : resultsIn(result).flatMap((one) => (isJsonObject(one) ? (one['answer'] ?? []) : []))[0];
}

function valuesIn(value: JsonValue): readonly JsonValue[] {
  if (isJsonList(value)) return value.flatMap(valuesIn);
  return isJsonObject(value) ? Object.values(value).flatMap(valuesIn) : [value];
}

/**
 * Tells whether an argument may be filled with what was told about a place: never where something
 * else was told about it as well, since which of the two was meant is what an attacker would
 * choose.
 */
export function isToldAt(told: readonly ToldValue[], value: JsonValue, place: string): boolean {
  const about = told.filter(({ from }) => from.includes(place));
  return (
    about.length > 0 &&
    about.every(
      (one) => isDeepStrictEqual(one.value, value) && one.from.every((from) => from === place),
    )
  );
}

/**
 * Tells whether a value stands at a place of a result, where no more values do than calls were
 * planned, or was told about it where the argument may be filled from there.
 */
export type Standing = (
  value: JsonValue,
  place: CommittedPlace,
  planned: { readonly argument: string; readonly count: number },
) => boolean;

/** Tells whether a call is one of those that were fixed, and was not made as often yet. */
export function isCommittedCall(
  commitments: readonly Commitment[],
  tool: PolicyTool,
  call: CommittableCall,
  isAt: Standing,
): boolean {
  return commitments.some(
    (one) => fits(one, tool, call, isAt) && timesMade(one, tool, call) < one.count,
  );
}

/**
 * The arguments that count must be fixed, and as they were fixed; what was fixed must be there. One
 * that has its default says nothing.
 */
function fits(
  { tool: named, args: fixed, count }: Commitment,
  { declaredId, labels, inputSchema }: PolicyTool,
  { args, instanceId, outside = [], fixed: mustBe }: CommittableCall,
  isAt: Standing,
): boolean {
  if (named !== (instanceId === undefined ? declaredId : declaredId.replace('*', instanceId)))
    return false;
  const given = givenIn(args, inputSchema, mustBe === 'decisive' ? labels.decisive : undefined);
  return [...new Set([...given, ...fixed.keys()])].every((name) => {
    const [value, argument] = [args[name], fixed.get(name)];
    if (value === undefined || !argument) return false;
    const from = outside.find((one) => one.name === name)?.from;
    if ('value' in argument) return !from && isDeepStrictEqual(value, argument.value);
    return from
      ? !argument.where && from.every((place) => place === argument.from)
      : isAt(value, argument, { argument: name, count });
  });
}

/** The arguments that say something, of some or of all. */
function givenIn(
  args: JsonObject,
  { properties = {} }: PolicyTool['inputSchema'],
  names: readonly string[] = Object.keys(args),
): readonly string[] {
  return names.filter(
    (name) => args[name] !== undefined && !isDefault(args[name], properties[name]),
  );
}

function isDefault(value: JsonValue, schema: JSONSchema7Definition | undefined): boolean {
  return (
    typeof schema === 'object' &&
    schema.default !== undefined &&
    isDeepStrictEqual(value, schema.default)
  );
}

/**
 * Counts rather too many than too few: of earlier calls neither the instance is kept nor where
 * their arguments came from.
 */
function timesMade(
  { args: fixed }: Commitment,
  { declaredId }: PolicyTool,
  { spent }: CommittableCall,
): number {
  const isSame = (args: JsonObject): boolean =>
    [...fixed].every(
      ([name, argument]) => 'from' in argument || isDeepStrictEqual(args[name], argument.value),
    );
  return spent.calls.filter((one) => one.declaredId === declaredId && isSame(one.args)).length;
}

/** A result of a tool as a model reads it. */
type PlacedResult = Pick<ToolMessage, 'toolName' | 'content'>;

/**
 * Tells whether a value stands at a place of results, where no more values do than calls were
 * planned: of more, someone outside could say which. The place is a tool's and a pointer with * for
 * the items of a list; `where` says which of the items are meant.
 */
export function standsAt(
  value: JsonValue,
  place: CommittedPlace,
  results: readonly PlacedResult[],
  most = 1,
): boolean {
  const found: JsonValue[] = [];
  for (const one of results.flatMap((result) => standingIn(place, result)))
    if (!found.some((other) => isDeepStrictEqual(other, one))) found.push(one);
  return found.length <= most && found.some((one) => isDeepStrictEqual(one, value));
}

function standingIn(
  { from, where = {} }: CommittedPlace,
  { toolName, content }: PlacedResult,
): readonly JsonValue[] {
  const [declaredId = '', pointer = ''] = from.split('#', 2);
  const isOfTool = declaredId === toolName || isOfInstance(declaredId, toolName);
  const result = isOfTool && typeof content === 'string' ? parseJson(content) : undefined;
  if (result === undefined) return [];
  const path = pointer.split('/').slice(1);
  const ofItem = path.lastIndexOf('*') + 1;
  const items = resultsIn(result).flatMap((one) => valuesAt(one, path.slice(0, ofItem)));
  return items
    .filter((item) => hasFields(item, where))
    .flatMap((item) => valuesAt(item, path.slice(ofItem)));
}

function hasFields(item: JsonValue, where: JsonObject): boolean {
  return Object.entries(where).every(
    ([name, value]) => isJsonObject(item) && isDeepStrictEqual(item[name], value),
  );
}

/**
 * A call as a policy decides about it where people trust something of it: what its rules let them
 * trust is from outside no more.
 */
export function endorsedCall(
  given: readonly EndorsementRule[],
  tool: PolicyTool,
  call: PolicyCall,
): PolicyCall {
  const { endorsed = [], flow, outside = [] } = call;
  const rules = given.filter(({ tools }) => covers(tools, tool));
  if (rules.length === 0 || (endorsed.length === 0 && !call.always)) return call;
  const named = new Set(rules.flatMap(({ sources = [] }) => sources));
  const sources = endorsed.flatMap((one) =>
    'source' in one && named.has(one.source) ? [one.source] : [],
  );
  const isOfSource = (place: string): boolean => sources.some((source) => isWithin(place, source));
  const isOut = (name: string, from: readonly string[]): boolean =>
    !from.every(isOfSource) && !isEndorsed(rules, name, tool, call);
  return {
    ...call,
    outside: outside.filter(({ name, from }) => isOut(name, from)),
    flow:
      (sources.length > 0 &&
        flow.endorsing?.((toolName) => sources.some((source) => isResultOf(source, toolName)))) ||
      flow,
  };
}

/**
 * The subject of a decision about a call in a tenant whose operators trust some values in all of
 * its runs.
 */
export function alwaysTrusting(
  always: readonly EndorsedArgument[] | undefined,
  subject: PolicySubject,
): PolicySubject {
  return subject.call && always && always.length > 0
    ? { ...subject, call: { ...subject.call, always } }
    : subject;
}

/**
 * Tells whether people trust every argument that decides what a call does to whom, so that nothing
 * is left to ask about where it came from.
 */
export function isWhollyEndorsed(
  given: readonly EndorsementRule[],
  tool: PolicyTool,
  call: PolicyCall,
): boolean {
  if (!call.always && !call.endorsed?.length) return false;
  const rules = given.filter(({ tools }) => covers(tools, tool));
  const names = givenIn(call.args, tool.inputSchema, tool.labels.decisive);
  return (
    rules.length > 0 &&
    names.length > 0 &&
    names.every((name) => isEndorsed(rules, name, tool, call))
  );
}

/**
 * An instance is no argument, and it decides what a call is about: of such a call no value is
 * trusted.
 */
function isEndorsed(
  rules: readonly EndorsementRule[],
  name: string,
  { declaredId }: PolicyTool,
  { args, instanceId, endorsed = [], always = [] }: PolicyCall,
): boolean {
  const naming = rules.filter((rule) => rule.arguments?.includes(name));
  if (naming.length === 0 || instanceId !== undefined) return false;
  const isSame = (one: EndorsedArgument): boolean =>
    one.tool === declaredId && one.argument === name && isDeepStrictEqual(one.value, args[name]);
  return (
    endorsed.some((one) => 'tool' in one && isSame(one)) ||
    (naming.some((rule) => rule.always) && always.some(isSame))
  );
}

/**
 * Returns what a person who approves a call may trust, by the rules of a policy; undefined where
 * that is nothing.
 */
export function endorsableIn(
  given: readonly EndorsementRule[],
  tool: PolicyTool,
  call: PolicyCall,
): Endorsable | undefined {
  const rules = given.filter(({ tools }) => covers(tools, tool));
  const { args, instanceId, outside = [], flow } = call;
  const names =
    instanceId === undefined ? givenIn(args, tool.inputSchema, tool.labels.decisive) : [];
  const scalars = names.filter(
    (name) => typeof args[name] === 'string' || typeof args[name] === 'number',
  );
  const named = (some: readonly EndorsementRule[]): readonly string[] =>
    scalars.filter((name) => some.some((rule) => rule.arguments?.includes(name)));
  const read = outside.flatMap(({ from }) => from);
  const trusted = flow.endorsing?.(() => true).outsideBits ?? Infinity;
  // else it is not for them that a person is asked
  const told = trusted < flow.outsideBits ? (flow.sources ?? []) : [];
  const isRead = (source: string): boolean =>
    read.some((place) => isWithin(place, source)) ||
    told.some((toolName) => isResultOf(source, toolName));
  const endorsable = {
    arguments: named(rules),
    sources: [...new Set(rules.flatMap(({ sources = [] }) => sources.filter(isRead)))],
    always: named(rules.filter((rule) => rule.always)),
  };
  const some = Object.entries(endorsable).filter(([, list]) => list.length > 0);
  return some.length > 0 ? Object.fromEntries(some) : undefined;
}

/** Tells whether a place of a result is a source, or in the results of one. */
function isWithin(place: string, source: string): boolean {
  return place === source || place.split('#', 1)[0] === source;
}

/**
 * Tells whether a result is one of a source's. A source that is a place in results has none of its
 * own.
 */
function isResultOf(source: string, toolName: string): boolean {
  return source === toolName || isOfInstance(source, toolName);
}

/** A result, and what is in its envelope where it has one. */
function resultsIn(result: JsonValue): readonly JsonValue[] {
  const enveloped = isJsonObject(result) && result['ok'] === true ? result['result'] : undefined;
  return enveloped === undefined ? [result] : [result, enveloped];
}

/**
 * Tells whether a name is that of an entity's tool, of an instance or of all of them. The name of
 * an instance has no underscore, which those of other tools may have.
 */
function isOfInstance(declaredId: string, toolName: string): boolean {
  const [prefix = '', method] = declaredId.split('*', 2);
  if (method === undefined || !toolName.startsWith(prefix) || !toolName.endsWith(method))
    return false;
  return (
    toolName.length >= prefix.length + method.length &&
    !toolName.slice(prefix.length, -method.length).includes('_')
  );
}

function valuesAt(value: JsonValue, [key, ...rest]: readonly string[]): readonly JsonValue[] {
  if (key === undefined) return [value];
  if (isJsonList(value)) return key === '*' ? value.flatMap((item) => valuesAt(item, rest)) : [];
  const name = key.replaceAll('~1', '/').replaceAll('~0', '~');
  if (!isJsonObject(value) || !Object.hasOwn(value, name)) return [];
  return valuesAt(value[name] ?? null, rest);
}
