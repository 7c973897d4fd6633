import type { JsonObject } from '@toolloop/protocol';
import { fillArguments, type Filling, type Need } from './arguments.js';
import { isValue, names } from './question.js';
import {
  ANSWERED,
  chooseInstances,
  entityOf,
  fitOf,
  isSameCall,
  MOST_INSTANCES,
  type Situation,
} from './situation.js';
import { isCommanded, orderStrength, strength, type ToolProfile } from './tools.js';
import { isEmptyResult } from './values.js';

export interface PlannedCall {
  readonly name: string;
  readonly args: JsonObject;
}

/** The next answer: calls to make, or nothing more to do and perhaps something to ask. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  readonly need?: Need;
}

/** One declared tool as the next thing to do: its calls, or what is missing for them. */
interface Option extends Need, Pick<Filling, 'used' | 'fit'> {
  readonly calls: readonly PlannedCall[];
  readonly share: number;
  readonly passes: boolean;
  readonly commanded: boolean;
  readonly named: boolean;
}

export function plan(situation: Situation, mostCalls: number): Plan {
  const choice = situation.request.toolChoice ?? 'auto';
  const { calls } = situation.conversation;
  const left = mostCalls - calls.length;
  if (choice === 'none' || left <= 0) return { calls: [] };
  if (typeof choice === 'object') return planForced(choice.tool, situation);
  const options = optionsIn(situation);
  const ready = options.filter((option) => option.calls.length > 0);
  const any = choice === 'required' && calls.length === 0 ? best(ready) : undefined;
  const next = nextOption(ready, situation) ?? any;
  if (next) return { calls: next.calls.slice(0, left) };
  const need = best(
    options.filter(
      (option) => option.calls.length === 0 && option.missing.length > 0 && option.passes,
    ),
  );
  return need ? { calls: [], need } : { calls: [] };
}

function planForced(tool: string, situation: Situation): Plan {
  const group = situation.tools.filter(({ spec }) => spec.id === tool || spec.declaredId === tool);
  const isCalled = situation.conversation.calls.some(({ name }) =>
    group.some(({ spec }) => spec.id === name),
  );
  const need = isCalled ? undefined : optionOf(group, situation);
  return { calls: need?.calls ?? [], ...(need?.calls.length === 0 && { need }) };
}

/**
 * First what answers the user's words about the thing they named, then what finds that thing, then
 * what answers their words without it.
 */
function nextOption(ready: readonly Option[], situation: Situation): Option | undefined {
  if (isLost(situation)) return undefined;
  const direct = ready.filter(({ passes }) => passes);
  const aimed = best(direct.filter((option) => isAimed(option, situation)));
  return (
    aimed ??
    best(ready.filter((option) => locates(option, situation))) ??
    best(direct.filter(({ profile }) => profile.instanceId === undefined))
  );
}

/**
 * Tells whether the person the user named was found nowhere: all orders are no answer to a question
 * about someone unknown.
 */
function isLost({ question, unlocated, conversation: { calls } }: Situation): boolean {
  const isVain =
    calls.length > 0 &&
    calls.every(({ status, value }) => status === 'succeeded' && isEmptyResult(value));
  return (
    isVain &&
    question.mentions.some(({ kind }) => kind === 'name') &&
    !unlocated.some(({ kind }) => kind === 'name')
  );
}

function best(options: readonly Option[]): Option | undefined {
  return options.toSorted((one, other) => scoreOf(other) - scoreOf(one))[0];
}

function scoreOf({ share, commanded, named, fit }: Option): number {
  return 2 * share + fit / 2 + (commanded ? 1 : 0) + (named ? 0.4 : 0);
}

/** Tells whether the option is about what the user named, or they named nothing. */
function isAimed({ profile, named, used }: Option, { question, unlocated }: Situation): boolean {
  if (profile.instanceId !== undefined)
    return named || !question.mentions.some((mention) => names(mention) && isValue(mention));
  const sure = unlocated.filter(({ kind }) => kind !== 'phrase');
  return sure.length === 0 || used.some((mention) => sure.includes(mention));
}

/** Tells whether the option would find something the user named that no call has looked for yet. */
function locates({ profile, used }: Option, { unlocated, open, conversation }: Situation): boolean {
  const isWanted = open.length > 0 || conversation.calls.length === 0;
  return isWanted && profile.isReadOnly && used.some((mention) => unlocated.includes(mention));
}

/**
 * The key of a refusal. A change refused for one thing is not tried on another: a no to the latest
 * order does not mean the one before.
 */
function refusalKey({ spec, isReadOnly }: ToolProfile): string {
  return isReadOnly ? spec.id : spec.declaredId;
}

function groupKey({ instanceId, spec }: ToolProfile): string {
  return instanceId === undefined ? spec.id : spec.declaredId;
}

/**
 * The next step of every permitted tool. Reading is always permitted, everything else only when the
 * user ordered it.
 */
function optionsIn(situation: Situation): Option[] {
  const { conversation, profiles, commanded, tools } = situation;
  const failed = conversation.calls.filter(
    ({ status }) => status === 'failed' || status === 'denied',
  );
  const refused = new Set(failed.flatMap(({ name }) => profiles.get(name) ?? []).map(refusalKey));
  const permitted = tools.filter(
    (one) => (one.isReadOnly || isCommanded(one, commanded)) && !refused.has(refusalKey(one)),
  );
  const groups = [...new Set(permitted.map(groupKey))].map((key) =>
    permitted.filter((one) => groupKey(one) === key),
  );
  return groups.flatMap((group) => optionOf(group, situation) ?? []);
}

/**
 * The option of tools that differ by their instance alone; one tool by itself is such a group too.
 */
function optionOf(group: readonly ToolProfile[], situation: Situation): Option | undefined {
  const { entities, conversation, open, orders, commanded } = situation;
  const bound = group.map((profile) => ({
    profile,
    id: profile.instanceId ?? '',
    entity: entityOf(profile, entities),
  }));
  const [first] = bound;
  if (!first) return undefined;
  const { chosen, choices } = chooseInstances(bound, first.profile, situation);
  const { profile, ...instance } = chosen[0] ?? first;
  const { variants, missing, ...filling } = fillArguments(profile, instance, situation);
  const gains = open.map((one) =>
    orders.has(one) ? orderStrength(profile, one) : strength(profile, one),
  );
  const planned = chosen.flatMap((one) =>
    variants.map((args): PlannedCall => ({ name: one.profile.spec.id, args })),
  );
  const isNew = (call: PlannedCall, index: number): boolean =>
    ![...conversation.calls, ...planned.slice(0, index)].some((made) => isSameCall(made, call));
  return {
    ...filling,
    profile,
    share: gains.reduce((sum, gain) => sum + gain, 0) / Math.max(gains.length, 1),
    passes: gains.some((gain) => gain >= ANSWERED),
    commanded: !profile.isReadOnly && isCommanded(profile, commanded),
    calls: planned.filter(isNew).slice(0, MOST_INSTANCES),
    missing: choices.length > 0 ? [{ name: profile.owner, description: '', choices }] : missing,
    named: profile.instanceId !== undefined && fitOf(instance, situation) > 0,
  };
}
