import type { JsonObject } from '@toolloop/core';
import { fillArguments, type Filling, type Missing } from './argument.filler.js';
import { isPermitted } from './commands.js';
import { callKey } from './conversation.reader.js';
import { usedMentions } from './coverage.js';
import { groupedBy } from './grouping.js';
import { areAllMeant, choiceName, chooseInstances, isMentioned, MOST_INSTANCES, namedFit, type Instance } from './instance.choice.js';
import type { Mention } from './question.reader.js';
import { entityOf } from './result.entities.js';
import { lookUp } from './result.lookup.js';
import type { Situation } from './situation.js';
import { ToolMatcher, type Match } from './tool.matcher.js';
import { isReadOnly, isSearch, type ToolProfile } from './tool.profile.js';
import { areSameAction, stem } from './words.js';

/** A call the model could make next. */
export interface PlannedCall {
  readonly name: string;
  readonly args: JsonObject;
}

/** One declared tool as the next thing to do: its calls, or what is missing for them. */
export interface ToolOption {
  readonly profile: ToolProfile;
  readonly match: Match;
  readonly calls: readonly PlannedCall[];
  readonly missing: readonly Missing[];
  readonly used: readonly Mention[];
  readonly quality: number;
  readonly usedShare: number;
  /** Whether the user named the instance the tool is bound to. */
  readonly named: boolean;
}

interface BoundTool extends Instance {
  readonly profile: ToolProfile;
}

/** What every permitted tool could do now; of entity tools that differ by their instance alone there is one option. */
export function toolOptions(situation: Situation): ToolOption[] {
  const matcher = new ToolMatcher(situation);
  const refused = refusedTools(situation);
  const permitted = situation.tools.filter((profile) => isPermitted(profile, situation.commanded) && !refused.has(refusalKey(profile)));
  const groups = groupedBy(permitted, ({ entity, spec }) => (entity ? spec.declaredId : spec.id));
  return groups.flatMap((group) => optionOf(group, matcher, situation) ?? []);
}

/** The tools whose calls failed, or were denied. */
function refusedTools({ conversation, profiles }: Situation): ReadonlySet<string> {
  const refused = conversation.calls.filter(({ status }) => status === 'failed' || status === 'denied');
  return new Set(refused.flatMap(({ name }) => profiles.get(name) ?? []).map(refusalKey));
}

/** What changes one thing in vain is not tried on another: whoever said no to the latest order did not mean the one before. */
function refusalKey(profile: ToolProfile): string {
  const { id, declaredId } = profile.spec;
  return isReadOnly(profile) ? id : declaredId;
}

/** The option of tools that differ by their instance alone; one tool by itself is such a group too. */
export function optionOf(group: readonly ToolProfile[], matcher: ToolMatcher, situation: Situation): ToolOption | undefined {
  const bound = group.map((profile) => boundTool(profile, situation));
  const chosen = group.length > 1 ? chooseInstances(bound, situation).slice(0, MOST_INSTANCES) : bound;
  const [first] = chosen;
  if (!first) return undefined;
  const { profile } = first;
  const filling = fill(first, situation);
  const undecided = chosen.length > 1 && !isReadOnly(profile) && !areAllMeant(chosen, situation.question);
  return {
    profile,
    match: matcher.match(profile),
    calls: undecided ? [] : newCalls(chosen, filling, situation),
    missing: undecided ? [whichOf(profile, chosen)] : filling.missing,
    used: filling.used,
    quality: filling.quality,
    usedShare: filling.usedShare,
    named: profile.entity !== undefined && isNamed(first, situation),
  };
}

function boundTool(profile: ToolProfile, { entities }: Situation): BoundTool {
  return { profile, id: profile.entity?.instanceId ?? '', entity: entityOf(profile, entities) };
}

function fill({ profile, id, entity }: BoundTool, situation: Situation): Filling {
  const { question, conversation, vocabulary, today } = situation;
  return fillArguments(profile.spec.inputSchema, {
    question,
    vocabulary,
    today,
    toolStems: new Set([...profile.methodStems, ...profile.ownerStems, ...profile.descriptionStems]),
    instanceNames: new Set(profile.entity ? [id.toLowerCase(), ...(entity?.texts ?? [])] : []),
    spent: usedMentions(question.mentions, conversation.calls),
    changes: !isReadOnly(profile) && [...profile.verbs].some((verb) => areSameAction(verb, stem('update'))),
    searches: isReadOnly(profile) && isSearch(profile),
    lookup: (leaf) => lookUp(leaf, profile, situation),
  });
}

/** The calls that were not made yet, none twice. */
function newCalls(tools: readonly BoundTool[], filling: Filling, { conversation }: Situation): PlannedCall[] {
  const made = new Set(conversation.calls.map(({ name, args }) => callKey(name, args)));
  const planned = tools.flatMap(({ profile }) => filling.variants.map((args): PlannedCall => ({ name: profile.spec.id, args })));
  const distinct = new Map(planned.map((call) => [callKey(call.name, call.args), call]));
  return [...distinct]
    .filter(([key]) => !made.has(key))
    .map(([, call]) => call)
    .slice(0, MOST_INSTANCES);
}

function whichOf({ entity }: ToolProfile, tools: readonly BoundTool[]): Missing {
  return { name: entity?.prefix ?? 'instance', description: '', choices: tools.map(choiceName), findable: false };
}

function isNamed({ id, entity }: BoundTool, situation: Situation): boolean {
  return isMentioned([id], situation.question) || (entity !== undefined && namedFit(entity, situation) > 0);
}
