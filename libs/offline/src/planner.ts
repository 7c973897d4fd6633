import type { JsonObject, JsonValue } from '@toolloop/core';
import { fillArguments, type Filling, type Found, type Leaf, type Missing } from './arguments.js';
import { callKey, idsOf, isEmptyResult, isIdKey, labelOf, ownEntries, type Entity, type EntityField } from './conversation.js';
import { accepts, isJsonObject } from './json-schema.js';
import { names, type Mention } from './question.js';
import {
  ANSWERED,
  areAllMeant,
  chooseInstances,
  isMentioned,
  MOST_INSTANCES,
  namedFit,
  usedMentions,
  wantedStems,
  type Instance,
  type Situation,
} from './situation.js';
import { entityOf, isCommanded, orderStrength, strength, type ToolProfile } from './tools.js';
import { areSameAction, groupedBy, knows, stem, wordsOf } from './words.js';

/** A call the model could make next. */
export interface PlannedCall {
  readonly name: string;
  readonly args: JsonObject;
}

/** What a tool that would help still needs from the user. */
export interface Need {
  readonly profile: ToolProfile;
  readonly missing: readonly Missing[];
}

/** The next answer: calls to make, or nothing more to do and perhaps something to ask. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  readonly need?: Need;
}

/** One declared tool as the next thing to do: its calls, or what is missing for them, and how well it answers what is open. */
interface Option extends Need, Pick<Filling, 'used' | 'quality' | 'usedShare'> {
  readonly calls: readonly PlannedCall[];
  /** Share of the open words the tool answers, rare words counting more; from 0 to 1. */
  readonly share: number;
  /** Share of the tool's own method words that the user said. */
  readonly precision: number;
  /** Whether the user ordered what this tool changes. */
  readonly commanded: boolean;
  /** Whether the tool answers a word well enough to be called for it. */
  readonly passes: boolean;
  /** Whether it is a verb like "find" that points at the tool. */
  readonly pointed: boolean;
  /** Whether the user named the instance the tool is bound to. */
  readonly named: boolean;
}

/** Searches for one name go to so many tools at most. */
const MOST_SEARCHES = 4;
const GOOD = 0.4;
/** In an id a word means the tool; elsewhere it is only spoken of. */
const SURE = 0.7;

/** Decides by fixed rules what to do next; the same situation always gives the same plan. */
export function plan(situation: Situation, mostCalls: number): Plan {
  const choice = situation.request.toolChoice ?? 'auto';
  const { calls } = situation.conversation;
  const left = mostCalls - calls.length;
  if (choice === 'none' || left <= 0) return { calls: [] };
  if (typeof choice === 'object') return planForced(choice.tool, situation);
  const options = toolOptions(situation);
  const ready = options.filter((option) => option.calls.length > 0);
  const next = nextOption(ready, options, situation) ?? (choice === 'required' && calls.length === 0 ? best(ready) : undefined);
  if (next) return { calls: next.calls.slice(0, left) };
  const need = best(options.filter((option) => isBlocked(option) && option.passes));
  return need ? { calls: [], need } : { calls: [] };
}

/** The tool the application demands, once per question. */
function planForced(tool: string, situation: Situation): Plan {
  const group = situation.tools.filter(({ spec }) => spec.id === tool || spec.declaredId === tool);
  const isCalled = situation.conversation.calls.some(({ name }) => group.some(({ spec }) => spec.id === name));
  const option = isCalled ? undefined : optionOf(group, situation);
  if (!option) return { calls: [] };
  return option.calls.length > 0 ? { calls: option.calls } : { calls: [], need: option };
}

/**
 * First what answers the user's words about the thing they named, then what finds that thing, then what answers their words without it, then
 * another place to search. Nothing is searched while only the user can say what is missing.
 */
function nextOption(ready: readonly Option[], options: readonly Option[], situation: Situation): Option | undefined {
  const direct = ready.filter((option) => option.passes && !isBeside(option, situation));
  const aimed = best(direct.filter((option) => isAimed(option, situation)));
  const asking = options.filter((option) => mustAsk(option, situation));
  if (asking.some(({ commanded, share }) => commanded && share > (aimed?.share ?? 0))) return undefined;
  if (aimed || asking.length > 0) return aimed;
  return (
    best(ready.filter((option) => locates(option, situation))) ??
    best(direct.filter((option) => !isAstray(option, situation))) ??
    best(ready.filter((option) => relocates(option, situation))) ??
    onlyReader(ready, situation)
  );
}

function best(options: readonly Option[]): Option | undefined {
  return options.toSorted((one, other) => scoreOf(other) - scoreOf(one))[0];
}

function scoreOf({ profile, share, precision, commanded, pointed, named, quality, used, usedShare }: Option): number {
  const flags = (commanded ? 1 : 0) + (named ? 0.4 : 0) + (used.length > 0 ? 0.3 : 0) + (pointed ? 0.3 : 0) + (profile.isSearch ? 0.2 : 0);
  return 2 * share + 0.5 * precision + quality + 0.8 * usedShare + flags - (profile.isReadOnly && profile.spec.labels.egress ? 0.3 : 0);
}

function isBlocked({ calls, missing }: Option): boolean {
  return calls.length === 0 && missing.length > 0;
}

/** Whether the option is what the user means, and no search could fill what it lacks. */
function mustAsk(option: Option, situation: Situation): boolean {
  const isLacking = isBlocked(option) && option.passes && option.share > GOOD && option.missing.every(({ findable }) => !findable);
  return isLacking && isAimed({ ...option, quality: 1 }, situation);
}

const isNaming = ({ kind }: Mention): boolean => ['quoted', 'id', 'name', 'email'].includes(kind);

/** Whether the option is about what the user named, or they named nothing. */
function isAimed({ profile, named, used, quality, share }: Option, { question, unlocated }: Situation): boolean {
  if (profile.instanceId !== undefined) return named || !question.mentions.some(isNaming);
  const sure = unlocated.filter(({ kind }) => kind !== 'phrase');
  return sure.length === 0 || (used.some((mention) => sure.includes(mention)) && (quality >= GOOD || share > 0.9));
}

/** Whether the person the user named was found nowhere, and the option is not about them: all orders are no answer to a question about nobody's. */
function isBeside({ profile, used }: Option, { question, conversation }: Situation): boolean {
  const people = question.mentions.filter(({ kind }) => kind === 'name');
  if (people.length === 0 || profile.instanceId !== undefined || used.some(({ kind }) => kind === 'name')) return false;
  const searches = conversation.calls.filter((call) => usedMentions(people, [call]).length > 0);
  const isSought = people.every((person) => usedMentions([person], searches).length > 0);
  return isSought && searches.every(({ status, value }) => status === 'succeeded' && isEmptyResult(value));
}

/** Whether an entity tool belongs to another thing than the user named. */
function isAstray({ profile, named, used }: Option, { question }: Situation): boolean {
  return profile.instanceId !== undefined && !named && question.mentions.some((mention) => isNaming(mention) && !used.includes(mention));
}

/** Whether the option would find something the user named that no call has looked for yet. */
function locates({ profile, used, pointed, passes, quality }: Option, situation: Situation): boolean {
  const { unlocated, open, conversation } = situation;
  const finds = used.some((mention) => {
    if (mention.kind === 'object') return pointed;
    return unlocated.includes(mention) && (profile.isSearch || pointed || passes || mention.kind !== 'phrase');
  });
  const isWanted = open.length > 0 || conversation.calls.length === 0;
  return isWanted && finds && profile.isReadOnly && quality >= 0.25 && !hasActed(situation);
}

/** Whether the option would look for the same thing elsewhere while most of the question is open. */
function relocates({ profile, used, pointed, quality }: Option, situation: Situation): boolean {
  const {
    open,
    conversation: { calls },
    question,
    entities,
  } = situation;
  const found = new Set(entities.flatMap(({ ids }) => ids));
  const seeks = used.some((mention) => (names(mention) || (pointed && mention.kind === 'object')) && !found.has(mention.value));
  const isOpen =
    open.length * 2 > wantedStems(question).length || calls.every(({ status, value }) => status === 'failed' || isEmptyResult(value));
  const isElsewhere = calls.length < MOST_SEARCHES && !calls.some(({ name }) => name === profile.spec.id);
  return profile.isReadOnly && profile.isSearch && seeks && quality >= GOOD && isOpen && isElsewhere && !hasActed(situation);
}

/** The one thing that can be read of what the user named, when all results so far say no more than its name. */
function onlyReader(ready: readonly Option[], { conversation: { calls }, question }: Situation): Option | undefined {
  const isBare = (value: JsonValue): boolean =>
    isJsonObject(value) && ownEntries(value).every(([key, entry]) => isIdKey(key) || entry === labelOf(value)) && idsOf(value).length > 0;
  const readers = ready.filter(({ profile, named }) => profile.instanceId !== undefined && named && profile.isReadOnly);
  const isFit = calls.length > 0 && calls.every(({ value }) => isBare(value)) && readers.length === 1 && question.words.length > 0;
  return isFit ? readers[0] : undefined;
}

/** Whether something was changed already; searching on would be for nothing. */
function hasActed({ conversation, profiles }: Situation): boolean {
  return conversation.calls.some(({ name }) => profiles.get(name)?.isReadOnly === false);
}

interface BoundTool extends Instance {
  readonly profile: ToolProfile;
}

/** What changes one thing in vain is not tried on another: who said no to the latest order did not mean the one before. */
function refusalKey({ spec, isReadOnly }: ToolProfile): string {
  return isReadOnly ? spec.id : spec.declaredId;
}

/** What every permitted tool could do now. Reading is always permitted, everything else only when the user ordered it. */
function toolOptions(situation: Situation): Option[] {
  const { conversation, profiles, commanded, tools } = situation;
  const failed = conversation.calls.filter(({ status }) => status === 'failed' || status === 'denied');
  const refused = new Set(failed.flatMap(({ name }) => profiles.get(name) ?? []).map(refusalKey));
  const permitted = tools.filter((profile) => (profile.isReadOnly || isCommanded(profile, commanded)) && !refused.has(refusalKey(profile)));
  const groups = groupedBy(permitted, ({ instanceId, spec }) => (instanceId === undefined ? spec.id : spec.declaredId));
  return groups.flatMap((group) => optionOf(group, situation) ?? []);
}

/** The option of tools that differ by their instance alone; one tool by itself is such a group too. */
function optionOf(group: readonly ToolProfile[], situation: Situation): Option | undefined {
  const { question, entities, conversation } = situation;
  const bound = group.map((profile): BoundTool => ({ profile, id: profile.instanceId ?? '', entity: entityOf(profile, entities) }));
  const chosen = group.length > 1 ? chooseInstances(bound, situation).slice(0, MOST_INSTANCES) : bound;
  const [first] = chosen;
  if (!first) return undefined;
  const { profile, id, entity } = first;
  const filling = fill(first, situation);
  const isUndecided = chosen.length > 1 && !profile.isReadOnly && !areAllMeant(chosen, question);
  const made = new Set(conversation.calls.map(callKey));
  const planned = chosen.flatMap((one) => filling.variants.map((args): PlannedCall => ({ name: one.profile.spec.id, args })));
  const calls = [...new Map(planned.map((call) => [callKey(call), call])).values()].filter((call) => !made.has(callKey(call)));
  const isNamed = isMentioned([id], question) || (entity !== undefined && namedFit(entity, situation) > 0);
  return {
    ...filling,
    ...matchOf(profile, situation),
    profile,
    calls: isUndecided ? [] : calls.slice(0, MOST_INSTANCES),
    missing: isUndecided ? [{ name: profile.owner, description: '', choices: chosen.map(choiceName), findable: false }] : filling.missing,
    named: profile.instanceId !== undefined && isNamed,
  };
}

/** An instance as a person can tell it from others. */
function choiceName({ id, entity }: Instance): string {
  const label = entity ? labelOf(entity.data) : undefined;
  return label === undefined || label === id ? id : `${label} (${id})`;
}

function fill({ profile, id, entity }: BoundTool, situation: Situation): Filling {
  const { question, conversation, vocabulary, today } = situation;
  return fillArguments(profile.spec.inputSchema, {
    question,
    vocabulary,
    today,
    toolStems: new Set([...profile.stems.method, ...profile.stems.owner, ...profile.stems.description]),
    instanceNames: new Set(profile.instanceId === undefined ? [] : [id.toLowerCase(), ...(entity?.texts ?? [])]),
    spent: usedMentions(question.mentions, conversation.calls),
    changes: !profile.isReadOnly && profile.verbs.some((verb) => areSameAction(verb, stem('update'))),
    searches: profile.isReadOnly && profile.isSearch,
    lookup: (leaf) => lookUp(leaf, profile, situation),
  });
}

/** How well a tool answers what is still unanswered. */
function matchOf(profile: ToolProfile, situation: Situation): Pick<Option, 'share' | 'precision' | 'commanded' | 'passes' | 'pointed'> {
  const { question, coverage, orders, commanded } = situation;
  const wanted = wantedStems(question);
  const gains = wanted.map((one) => {
    const covered = coverage.get(one) ?? 0;
    const found = orders.has(one) ? orderStrength(profile, one) : strength(profile, one);
    const isBetter = profile.instanceId !== undefined && covered < SURE && found >= SURE;
    const gain = covered < ANSWERED || isBetter ? found : 0;
    return { gain, weight: gain > 0 || covered < ANSWERED ? rarity(one, situation) : 0 };
  });
  const total = gains.reduce((sum, { weight }) => sum + weight, 0);
  const own = [...profile.stems.method];
  return {
    share: total === 0 ? 0 : gains.reduce((sum, { gain, weight }) => sum + gain * weight, 0) / total,
    precision: own.length === 0 ? 0 : own.filter((one) => knows(new Set(wanted), one) > 0).length / own.length,
    commanded: !profile.isReadOnly && isCommanded(profile, commanded),
    passes: gains.some(({ gain }) => gain >= ANSWERED),
    pointed: question.words.some(({ weak, token, stem: one }) => weak && token >= 0 && strength(profile, one) >= SURE),
  };
}

/** BM25's inverse document frequency over the declared tools: a word that few tools share says more. */
function rarity(wanted: string, { tools }: Situation): number {
  const declared = [...new Map(tools.map((profile) => [profile.spec.declaredId, profile])).values()];
  const holders = declared.filter((profile) => strength(profile, wanted) >= ANSWERED).length;
  return Math.log(1 + (declared.length + 1) / (holders + 0.5));
}

interface FoundValue extends Instance {
  readonly entity: Entity;
  readonly field: EntityField;
}

/**
 * Fills an argument from the objects in results. A result never chooses a tool; here it gives ids of what the user means, and other fields only to
 * tools that read and carry nothing out, or the address of somebody the user named.
 */
function lookUp({ sense, stems, schema, root, type }: Leaf, profile: ToolProfile, situation: Situation): Found {
  if (type === 'array' || type === 'object' || type === 'boolean') return { values: [], choices: [] };
  const { entities, question } = situation;
  const isHarmless = profile.isReadOnly && !profile.spec.labels.egress;
  const all = entities.flatMap((entity) => entity.fields.map((field): FoundValue => ({ entity, field, id: String(field.value) })));
  const accepted = all.filter(({ field }) => accepts(schema, field.value, root));
  const kind = [...stems].filter((word) => !isIdKey(word));
  const ids = accepted
    .filter(({ field }) => isIdKey(field.key))
    .toSorted((one, other) => Number(other.field.key === 'id') - Number(one.field.key === 'id'));
  const fits = ({ field, entity }: FoundValue): boolean => {
    const isField = field.stems.length > 0 && [...stems].every((word) => field.stems.includes(word));
    const isAddress = sense === 'email' && (isField || field.stems.includes('email'));
    return isHarmless ? isField || isAddress : isAddress && namedFit(entity, situation) >= 0.8;
  };
  const found =
    sense !== 'id'
      ? accepted.filter(fits)
      : ids.filter((one) => (kind.length > 0 ? isOfKind(kind, one, situation) : one.entity.call === entities.at(-1)?.call));
  const picked = chooseInstances([...new Map(found.toReversed().map((one) => [one.id, one])).values()].toReversed(), situation);
  if (picked.length > 1 && !isHarmless && !areAllMeant(picked, question)) return { values: [], choices: picked.map(choiceName) };
  return { values: picked.slice(0, MOST_INSTANCES).map(({ field }) => field.value), choices: [] };
}

/** Whether an id is of the kind its argument's name asks for: by its own key, or by the tool whose result held it. */
function isOfKind(kind: readonly string[], { field, entity }: FoundValue, { profiles }: Situation): boolean {
  const source = profiles.get(entity.call.name)?.stems;
  const known = source ? [...source.method, ...source.owner, ...source.description] : wordsOf(entity.call.name).map(stem);
  return kind.every((word) => (field.stems.length > 1 ? field.stems.includes(word) : knows(new Set([...known, ...field.stems]), word) > 0));
}
