import type { JsonObject } from '@toolloop/core';
import type { MadeCall } from './conversation.reader.js';
import { COMMON_VERBS } from './english.js';
import { isJsonObject } from './json.js';
import { entityOf, idsOf, labelOf } from './result.entities.js';
import type { Situation } from './situation.js';
import { nounOf, type ToolProfile } from './tool.profile.js';
import { capitalised, inline, joined } from './value.phrasing.js';
import { humanised, isStopWord, stem, stemsOf, wordsOf } from './words.js';

/** What a result is about, in words. */
export interface Subject {
  /** "John Smith's average spend", "The forecast for Paris"; with a colon where no verb can follow. */
  readonly text: string;
  /** What there is one or many of: "recent orders". */
  readonly noun: string;
  /** " for John Smith"; empty when there is nothing to name. */
  readonly about: string;
  /** Stems of the arguments' names: the user set these, they do not ask for them. */
  readonly given: ReadonlySet<string>;
  /** The arguments' values, which need not be said again. */
  readonly told: readonly string[];
}

export function subjectOf(call: MadeCall, profile: ToolProfile | undefined, situation: Situation): Subject {
  const method = profile?.method ?? call.name.split('_').at(-1) ?? call.name;
  const noun = subjectNoun(method, profile, situation);
  const given = new Set(Object.keys(call.args).flatMap(stemsOf));
  const told = argumentTexts(call.args, situation);
  if (profile?.entity) {
    const owner = ownerName(profile, situation);
    return { noun, given, told, about: ` for ${owner}`, text: capitalised(`${owner}'s ${noun}`) };
  }
  return { noun, given, told, ...(isAction(method) ? deed(noun, told) : thing(noun, told)) };
}

/** What the method returns; of a method that is but a verb, what its namespace is about, in the user's word for it. */
function subjectNoun(method: string, profile: ToolProfile | undefined, { question }: Situation): string {
  const noun = nounOf(method);
  if (noun !== '' && !isStopWord(noun)) return noun;
  const owner = profile && !profile.entity ? humanised(profile.owner) : '';
  const said = question.tokens.find(({ stems }) => owner !== '' && stems.includes(stem(owner)))?.lower;
  const namesThings = noun === '' ? /[^su]s$/.test(owner) : owner !== '';
  return said ?? (namesThings ? owner : 'results');
}

/** Whether a method's name says what is done rather than what is returned. */
function isAction(method: string): boolean {
  return COMMON_VERBS.has(wordsOf(method)[0] ?? '') && nounOf(method) === humanised(method);
}

function deed(noun: string, told: readonly string[]): Pick<Subject, 'text' | 'about'> {
  const objects = joined(told);
  return { about: objects && ` for ${objects}`, text: `${capitalised(noun)}${objects && ` (${objects})`}:` };
}

function thing(noun: string, told: readonly string[]): Pick<Subject, 'text' | 'about'> {
  const objects = joined(told.filter((text) => !/^-?[\d.]+$/.test(text)));
  const about = objects && ` for ${objects}`;
  return { about, text: `The ${noun}${about}` };
}

/** The arguments a sentence can name, ids by the name of what they stand for; yes and no are none. */
function argumentTexts(args: JsonObject, situation: Situation): string[] {
  return Object.values(args).flatMap((value) => {
    if (isJsonObject(value)) return argumentTexts(value, situation);
    if (typeof value === 'boolean' || value === null) return [];
    const text = inline(value);
    const meant = situation.entities.findLast(({ data }) => idsOf(data)[0] === text);
    return text === '' ? [] : [(meant && labelOf(meant.data)) ?? text];
  });
}

/** What the thing a tool is bound to is called: by its object, else by its kind and id. */
function ownerName(profile: ToolProfile, { entities }: Situation): string {
  const data = entityOf(profile, entities)?.data;
  const kind = humanised(profile.entity?.prefix ?? '');
  const id = (data && idsOf(data)[0]) ?? profile.entity?.instanceId ?? '';
  return (data && labelOf(data)) ?? `${kind} ${id}`.trim();
}
