import type { JsonObject } from '@toolloop/core';
import { fillArguments, type Filling, type Need } from './arguments.js';
import { callKey, isEmptyResult } from './conversation.js';
import type { Mention } from './question.js';
import {
  ANSWERED,
  areAllMeant,
  choiceName,
  chooseInstances,
  isMentioned,
  MOST_INSTANCES,
  namedFit,
  usedMentions,
  type Situation,
} from './situation.js';
import { entityOf, isCommanded, orderStrength, strength, type ToolProfile } from './tools.js';

/** A call the model could make next. */
export interface PlannedCall {
  readonly name: string;
  readonly args: JsonObject;
}

/** The next answer: calls to make, or nothing more to do and perhaps something to ask. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  readonly need?: Need;
}

/** The fit of a tool for the words that are still unanswered. */
interface Match {
  /** Share of the open words the tool answers, rare words counting more; from 0 to 1. */
  readonly share: number;
  /** Tells whether the tool answers a word well enough to be called for it. */
  readonly passes: boolean;
  /** Tells whether a verb like "find" points at the tool, or an order at what it changes. */
  readonly pointed: boolean;
  readonly commanded: boolean;
}

/** One declared tool as the next thing to do: its calls, or what is missing for them. */
interface Option extends Need, Match, Pick<Filling, 'used' | 'quality' | 'usedShare'> {
  readonly calls: readonly PlannedCall[];
  /** Tells whether the user named the instance the tool is bound to. */
  readonly named: boolean;
}

const GOOD = 0.4;

/** Decides by fixed rules what to do next; the same situation always gives the same plan. */
export function plan(situation: Situation, mostCalls: number): Plan {
  const choice = situation.request.toolChoice ?? 'auto';
  const { calls } = situation.conversation;
  const left = mostCalls - calls.length;
  if (choice === 'none' || left <= 0) return { calls: [] };
  if (typeof choice === 'object') return planForced(choice.tool, situation);
  const options = optionsIn(situation);
  const ready = options.filter((option) => option.calls.length > 0);
  const any = choice === 'required' && calls.length === 0 ? best(ready) : undefined;
  const next = nextOption(ready, options, situation) ?? any;
  if (next) return { calls: next.calls.slice(0, left) };
  const need = best(options.filter((option) => option.calls.length === 0 && option.missing.length > 0 && option.passes));
  return need ? { calls: [], need } : { calls: [] };
}

/** The tool the application demands, once per question. */
function planForced(tool: string, situation: Situation): Plan {
  const group = situation.tools.filter(({ spec }) => spec.id === tool || spec.declaredId === tool);
  const isCalled = situation.conversation.calls.some(({ name }) => group.some(({ spec }) => spec.id === name));
  const need = isCalled ? undefined : optionOf(group, situation);
  return { calls: need?.calls ?? [], ...(need?.calls.length === 0 && { need }) };
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
  return best(ready.filter((option) => locates(option, situation))) ?? best(direct.filter((option) => !isAstray(option, situation)));
}

function best(options: readonly Option[]): Option | undefined {
  return options.toSorted((one, other) => scoreOf(other) - scoreOf(one))[0];
}

function scoreOf({ profile, share, commanded, pointed, named, quality, used, usedShare }: Option): number {
  const flags = (commanded ? 1 : 0) + (named ? 0.4 : 0) + (used.length > 0 ? 0.3 : 0) + (pointed ? 0.3 : 0) + (profile.isSearch ? 0.2 : 0);
  return 2 * share + quality + 0.8 * usedShare + flags - (profile.isReadOnly && profile.spec.labels.egress ? 0.3 : 0);
}

/** Tells whether the option is what the user means, and no search could fill what it lacks. */
function mustAsk(option: Option, situation: Situation): boolean {
  const { calls, missing, passes, share } = option;
  const isLacking = calls.length === 0 && missing.length > 0 && missing.every(({ findable }) => !findable);
  return isLacking && passes && share > GOOD && isAimed({ ...option, quality: 1 }, situation);
}

function isNaming({ kind }: Mention): boolean {
  return ['quoted', 'id', 'name', 'email'].includes(kind);
}

/** Tells whether the option is about what the user named, or they named nothing. */
function isAimed({ profile, named, used, quality, share }: Option, { question, unlocated }: Situation): boolean {
  if (profile.instanceId !== undefined) return named || !question.mentions.some(isNaming);
  const sure = unlocated.filter(({ kind }) => kind !== 'phrase');
  return sure.length === 0 || (used.some((mention) => sure.includes(mention)) && (quality >= GOOD || share > 0.9));
}

/** Tells whether the person the user named was found nowhere, and the option is not about them: all orders are no answer to a question about nobody's. */
function isBeside({ profile, used }: Option, { question, conversation }: Situation): boolean {
  const people = question.mentions.filter(({ kind }) => kind === 'name');
  if (people.length === 0 || profile.instanceId !== undefined || used.some(({ kind }) => kind === 'name')) return false;
  const searches = conversation.calls.filter((call) => usedMentions(people, [call]).length > 0);
  const isSought = usedMentions(people, searches).length === people.length;
  return isSought && searches.every(({ status, value }) => status === 'succeeded' && isEmptyResult(value));
}

/** Tells whether an entity tool belongs to another thing than the user named. */
function isAstray({ profile, named, used }: Option, { question }: Situation): boolean {
  return profile.instanceId !== undefined && !named && question.mentions.some((mention) => isNaming(mention) && !used.includes(mention));
}

/** Tells whether the option would find something the user named that no call has looked for yet. */
function locates({ profile, used, pointed, passes, quality }: Option, situation: Situation): boolean {
  const { unlocated, open, conversation } = situation;
  const isFit = (mention: Mention): boolean => profile.isSearch || pointed || passes || mention.kind !== 'phrase';
  const finds = used.some((mention) => (mention.kind === 'object' ? pointed : unlocated.includes(mention) && isFit(mention)));
  const isWanted = open.length > 0 || conversation.calls.length === 0;
  return isWanted && finds && profile.isReadOnly && quality >= 0.25 && !hasActed(situation);
}

/** Tells whether something was changed already; searching on would be for nothing. */
function hasActed({ conversation, profiles }: Situation): boolean {
  return conversation.calls.some(({ name }) => profiles.get(name)?.isReadOnly === false);
}

/** The key of a refusal. A change refused for one thing is not tried on another: a no to the latest order does not mean the one before. */
function refusalKey({ spec, isReadOnly }: ToolProfile): string {
  return isReadOnly ? spec.id : spec.declaredId;
}

/** The next step of every permitted tool. Reading is always permitted, everything else only when the user ordered it. */
function optionsIn(situation: Situation): Option[] {
  const { conversation, profiles, commanded, tools } = situation;
  const failed = conversation.calls.filter(({ status }) => status === 'failed' || status === 'denied');
  const refused = new Set(failed.flatMap(({ name }) => profiles.get(name) ?? []).map(refusalKey));
  const groups = new Map<string, ToolProfile[]>();
  for (const profile of tools.filter((one) => (one.isReadOnly || isCommanded(one, commanded)) && !refused.has(refusalKey(one)))) {
    const key = profile.instanceId === undefined ? profile.spec.id : profile.spec.declaredId;
    groups.set(key, [...(groups.get(key) ?? []), profile]);
  }
  return [...groups.values()].flatMap((group) => optionOf(group, situation) ?? []);
}

/** The option of tools that differ by their instance alone; one tool by itself is such a group too. */
function optionOf(group: readonly ToolProfile[], situation: Situation): Option | undefined {
  const { question, entities, conversation } = situation;
  const bound = group.map((profile) => ({ profile, id: profile.instanceId ?? '', entity: entityOf(profile, entities) }));
  const chosen = bound.length > 1 ? chooseInstances(bound, situation).slice(0, MOST_INSTANCES) : bound;
  const [first] = chosen;
  if (!first) return undefined;
  const { profile, id, entity } = first;
  const filling = fillArguments(profile, first, situation);
  const isUndecided = chosen.length > 1 && !profile.isReadOnly && !areAllMeant(chosen, question);
  const made = new Set(conversation.calls.map(callKey));
  const planned = chosen.flatMap((one) => filling.variants.map((args): PlannedCall => ({ name: one.profile.spec.id, args })));
  const fresh = planned.filter(
    (call, index) => !made.has(callKey(call)) && planned.findIndex((one) => callKey(one) === callKey(call)) === index,
  );
  const isNamed = isMentioned([id], question) || (entity !== undefined && namedFit(entity, situation) > 0);
  return {
    ...filling,
    ...matchOf(profile, situation),
    profile,
    calls: isUndecided ? [] : fresh.slice(0, MOST_INSTANCES),
    missing: isUndecided ? [{ name: profile.owner, description: '', choices: chosen.map(choiceName), findable: false }] : filling.missing,
    named: profile.instanceId !== undefined && isNamed,
  };
}

/** In an id a word means the tool; elsewhere it is only spoken of. */
const SURE = 0.7;

function matchOf(profile: ToolProfile, situation: Situation): Match {
  const { question, wanted, coverage, orders, commanded } = situation;
  const gains = wanted.map((one) => {
    const covered = coverage.get(one) ?? 0;
    const found = orders.has(one) ? orderStrength(profile, one) : strength(profile, one);
    const isBetter = profile.instanceId !== undefined && covered < SURE && found >= SURE;
    const gain = covered < ANSWERED || isBetter ? found : 0;
    return { gain, weight: gain > 0 || covered < ANSWERED ? 1 : 0 };
  });
  const total = gains.reduce((sum, { weight }) => sum + weight, 0);
  return {
    share: total === 0 ? 0 : gains.reduce((sum, { gain, weight }) => sum + gain * weight, 0) / total,
    commanded: !profile.isReadOnly && isCommanded(profile, commanded),
    passes: gains.some(({ gain }) => gain >= ANSWERED),
    pointed: question.words.some(({ weak, token, stem: one }) => weak && token >= 0 && strength(profile, one) >= SURE),
  };
}
