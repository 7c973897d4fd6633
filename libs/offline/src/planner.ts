import type { JsonObject } from '@toolloop/core';
import type { Missing } from './argument.filler.js';
import { isEmptyResult, usedMentions } from './coverage.js';
import { isJsonObject } from './json.js';
import { names } from './question.reader.js';
import { isIdKey, labelOf, scalarsOf } from './result.entities.js';
import { isReadOnly, isSearch, type ToolProfile } from './tool.profile.js';
import type { Situation } from './situation.js';
import { optionOf, toolOptions, type PlannedCall, type ToolOption } from './tool.options.js';
import { ToolMatcher } from './tool.matcher.js';
import { fieldsOf } from './value.phrasing.js';

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

/** Searches for one name go to so many tools at most. */
const MOST_SEARCHES = 4;

/** Decides by fixed rules what to do next; the same situation always gives the same plan. */
export function plan(situation: Situation, mostCalls: number): Plan {
  const choice = situation.request.toolChoice ?? 'auto';
  const left = mostCalls - situation.conversation.calls.length;
  if (choice === 'none' || left <= 0) return { calls: [] };
  return typeof choice === 'object' ? planForced(choice.tool, situation) : planFree(situation, choice === 'required', left);
}

function planFree(situation: Situation, required: boolean, left: number): Plan {
  const options = toolOptions(situation);
  const ready = options.filter(({ calls }) => calls.length > 0);
  const isFirst = situation.conversation.calls.length === 0;
  const next = nextOption(ready, options, situation) ?? (required && isFirst ? best(ready) : undefined);
  if (next) return { calls: next.calls.slice(0, left) };
  const need = best(options.filter(isBlocked));
  return need ? { calls: [], need } : { calls: [] };
}

/** The tool the application demands, once per question. */
function planForced(tool: string, situation: Situation): Plan {
  const group = situation.tools.filter(({ spec }) => spec.id === tool || spec.declaredId === tool);
  const called = situation.conversation.calls.some(({ name }) => group.some(({ spec }) => spec.id === name));
  const option = called ? undefined : optionOf(group, new ToolMatcher(situation), situation);
  if (!option) return { calls: [] };
  return option.calls.length > 0 ? { calls: option.calls } : { calls: [], need: option };
}

/** Whether the option would answer, but for something only the user can say. */
function isBlocked({ calls, missing, match }: ToolOption): boolean {
  return calls.length === 0 && missing.length > 0 && match.passes;
}

/**
 * First what answers the user's words about the thing they named, then what finds that thing, then what answers their words without it, then
 * another place to search. Nothing is searched while only the user can say what is missing.
 */
function nextOption(ready: readonly ToolOption[], options: readonly ToolOption[], situation: Situation): ToolOption | undefined {
  const direct = ready.filter((option) => option.match.passes && !isBeside(option, situation));
  const aimed = best(direct.filter((option) => isAimed(option, situation)));
  const asking = options.filter((option) => mustAsk(option, situation));
  if (asking.some(({ match }) => match.commanded && match.share > (aimed?.match.share ?? 0))) return undefined;
  if (aimed || asking.length > 0) return aimed;
  const free = direct.filter((option) => !isAstray(option, situation));
  const guesses = mayGuess(options, situation) ? ready.filter(isGuess) : [];
  return (
    best(ready.filter((option) => locates(option, situation))) ??
    best(free) ??
    best(ready.filter((option) => relocates(option, situation))) ??
    onlyReader(ready, situation) ??
    best(guesses)
  );
}

/** Whether to search for words that may be a name: a question has no other answer, or an order wants a thing that has to be found. */
function mayGuess(options: readonly ToolOption[], { conversation, question }: Situation): boolean {
  const isFirst = conversation.calls.length === 0;
  const seeks = options.some((option) => isBlocked(option) && option.match.commanded && option.missing.every(({ findable }) => findable));
  return isFirst && (seeks || /\?\s*$/.test(question.text));
}

function isGuess({ profile, used, quality }: ToolOption): boolean {
  return isReadOnly(profile) && isSearch(profile) && quality >= 0.25 && used.some(({ kind }) => kind === 'object' || kind === 'phrase');
}

/** Whether the option is what the user means, and no search could fill what it lacks. */
function mustAsk(option: ToolOption, situation: Situation): boolean {
  const lacks = isBlocked(option) && option.match.share > GOOD && option.missing.every(({ findable }) => !findable);
  return lacks && isAimed({ ...option, quality: 1 }, situation);
}

function best(options: readonly ToolOption[]): ToolOption | undefined {
  return options.toSorted((one, other) => scoreOf(other) - scoreOf(one))[0];
}

function scoreOf({ profile, match, quality, used, usedShare, named }: ToolOption): number {
  return (
    2 * match.share +
    0.5 * match.precision +
    quality +
    (match.commanded ? 1 : 0) +
    (named ? 0.4 : 0) +
    (used.length > 0 ? 0.3 : 0) +
    0.8 * usedShare +
    (match.pointed ? 0.3 : 0) +
    (isSearch(profile) ? 0.2 : 0) -
    (isReadOnly(profile) && profile.spec.labels.egress ? 0.3 : 0)
  );
}

/** Names that are sure to be names; a phrase in lower case may be anything. */
function sureNames({ unlocated }: Situation): Situation['unlocated'] {
  return unlocated.filter(({ kind }) => kind !== 'phrase');
}

const GOOD = 0.4;

/** Whether the option is about what the user named, or they named nothing. */
function isAimed(option: ToolOption, situation: Situation): boolean {
  if (option.profile.entity)
    return option.named || situation.question.mentions.every(({ kind }) => !['quoted', 'id', 'name', 'email'].includes(kind));
  const sure = sureNames(situation);
  if (sure.length === 0) return true;
  const uses = option.used.some((mention) => sure.includes(mention));
  return uses && (option.quality >= GOOD || option.match.share > 0.9);
}

/** Whether whoever the user named was found nowhere, and the option is not about them: all orders are no answer to a question about nobody's. */
function isBeside({ profile, used }: ToolOption, { question, conversation }: Situation): boolean {
  const people = question.mentions.filter(({ kind }) => kind === 'name');
  if (people.length === 0 || profile.entity || used.some(({ kind }) => kind === 'name')) return false;
  const searches = conversation.calls.filter((call) => usedMentions(people, [call]).length > 0);
  const missed = people.every((person) => usedMentions([person], searches).length > 0);
  return missed && searches.every(({ status, value }) => status === 'succeeded' && isEmptyResult(value));
}

/** Whether an entity tool belongs to another thing than the user named. */
function isAstray(option: ToolOption, { question }: Situation): boolean {
  const left = question.mentions.filter(
    (mention) => ['quoted', 'id', 'name', 'email'].includes(mention.kind) && !option.used.includes(mention),
  );
  return option.profile.entity !== undefined && !option.named && left.length > 0;
}

/** Whether the option would find something the user named that no call has looked for yet. */
function locates({ profile, used, match, quality }: ToolOption, situation: Situation): boolean {
  const { unlocated, open, conversation } = situation;
  const wanted = open.length > 0 || conversation.calls.length === 0;
  const searches = isSearch(profile) || match.pointed || match.passes;
  const finds = used.some((mention) => {
    if (mention.kind === 'object') return match.pointed;
    return unlocated.includes(mention) && (searches || mention.kind !== 'phrase');
  });
  return wanted && finds && isReadOnly(profile) && quality >= 0.25 && !hasActed(situation);
}

/** Whether the option would look for the same thing elsewhere while most of the question is open. */
function relocates({ profile, used, match, quality }: ToolOption, situation: Situation): boolean {
  const { open, conversation, question } = situation;
  const elsewhere = !conversation.calls.some(({ name }) => name === profile.spec.id);
  const asked = new Set(question.words.filter(({ weak }) => !weak).map(({ stem }) => stem)).size;
  const unanswered =
    open.length * 2 > asked || conversation.calls.every(({ status, value }) => status === 'failed' || isEmptyResult(value));
  const found = new Set(situation.entities.flatMap(({ ids }) => ids));
  const seeks = used.some((mention) => (names(mention) || (match.pointed && mention.kind === 'object')) && !found.has(mention.value));
  const searches = isReadOnly(profile) && isSearch(profile) && seeks && quality >= GOOD;
  return searches && elsewhere && unanswered && conversation.calls.length < MOST_SEARCHES && !hasActed(situation);
}

/** The one thing that can be read of what the user named, when all results so far say no more than its name. */
function onlyReader(ready: readonly ToolOption[], { conversation, question }: Situation): ToolOption | undefined {
  const bare = conversation.calls.length > 0 && conversation.calls.every(({ value }) => isJsonObject(value) && isBare(value));
  const readers = ready.filter(({ profile, named }) => profile.entity !== undefined && named && isReadOnly(profile));
  return bare && readers.length === 1 && question.words.length > 0 ? readers[0] : undefined;
}

function isBare(data: JsonObject): boolean {
  return scalarsOf(data).length > 0 && fieldsOf(data).every(({ name, value }) => isIdKey(name) || value === labelOf(data));
}

/** Whether something was changed already; searching on would be for nothing. */
function hasActed({ conversation, profiles }: Situation): boolean {
  return conversation.calls.some(({ name }) => {
    const profile = profiles.get(name);
    return profile !== undefined && !isReadOnly(profile);
  });
}
