import type { JsonObject, JsonValue } from '@toolloop/core';
import { answeringCalls, wantedStems } from './answering.calls.js';
import type { MadeCall } from './conversation.reader.js';
import { isEmptyResult } from './coverage.js';
import { groupedBy } from './grouping.js';
import { isJsonObject, isScalar, plainText } from './json.js';
import { names } from './question.reader.js';
import { entityOf, idsOf, isIdKey, labelOf, scalarsOf } from './result.entities.js';
import type { Situation } from './situation.js';
import { subjectOf, type Subject } from './subject.phrasing.js';
import { isReadOnly, type ToolProfile } from './tool.profile.js';
import {
  askedFields,
  bullets,
  capitalised,
  cut,
  ended,
  fieldList,
  fieldsOf,
  inline,
  isUnit,
  joined,
  listOf,
  moneyOf,
  type Field,
} from './value.phrasing.js';
import { humanised, stemsOf } from './words.js';

/** Says what the results hold, as sentences built from the tools' names, the things they are about, and the values. */
export function phraseResults(situation: Situation): string {
  const groups = groupedBy(answeringCalls(situation), ({ name }) => situation.profiles.get(name)?.spec.declaredId ?? name);
  return groups.flatMap((group) => group.map((call) => phraseCall(call, situation))).join('\n');
}

/** Says which words nothing was found about, when that is all of them. */
export function phraseUnanswered({ question, open }: Situation): string {
  const asked = new Set(question.words.filter(({ weak }) => !weak).map(({ stem }) => stem));
  if (open.length === 0 || open.length < asked.size) return '';
  const words = question.words
    .filter(({ stem, token }) => open.includes(stem) && token >= 0)
    .map(({ token }) => question.tokens[token]?.lower ?? '');
  const quoted = [...new Set(words)].map((word) => `“${word}”`);
  return quoted.length === 0 ? '' : `I found nothing about ${joined(quoted, 0, 'or')}.`;
}

function phraseCall(call: MadeCall, situation: Situation): string {
  const profile = situation.profiles.get(call.name);
  const subject = subjectOf(call, profile, situation);
  if (call.status === 'denied') return phraseDenied(call, profile, subject);
  if (profile && !isReadOnly(profile)) return phraseDone(call, profile, subject);
  if (isEmptyResult(call.value)) return `I found no ${subject.noun}${subject.about}.`;
  const list = listOf(call.value);
  if (list && !list.every(isScalar)) return phraseList(list, subject, situation);
  if (isRecord(call.value)) return phraseObject(call.value, subject, situation);
  const verb = subject.text.endsWith(':') ? '' : verbFor(call.value, subject.noun);
  return `${subject.text}${verb} ${ended(inline(list ?? call.value))}`;
}

function isRecord(value: JsonValue): value is JsonObject {
  return isJsonObject(value) && !moneyOf(value);
}

const LONG_TEXT = 60;

/** What stands between a noun and its value. */
function verbFor(value: JsonValue, noun: string): string {
  if (typeof value === 'boolean' || (typeof value === 'string' && value.length > LONG_TEXT)) return ':';
  return /[^su]s$/.test(noun) ? ' are' : ' is';
}

function singular(noun: string): string {
  return noun.replace(/([^su])s$/, '$1');
}

function phraseDone({ value, promise }: MadeCall, profile: ToolProfile, { about, told }: Subject): string {
  if (promise !== undefined) return ended(promise);
  const result = isRecord(value) ? fieldList(fieldsOf(value)) : inline(value);
  const says = value !== null && value !== true && result !== '';
  const repeats = says && told.every((text) => result.includes(text));
  return `Done: ${deed(profile, about, repeats)}.${says ? ` Result: ${ended(result)}` : ''}`;
}

/** What a person, or nobody, did not let happen, and why. */
function phraseDenied({ name, value }: MadeCall, profile: ToolProfile | undefined, { about }: Subject): string {
  return `Not done: ${profile ? deed(profile, about, false) : name}. ${ended(cut(plainText(value)))}`;
}

/** "cancel order o-100", "add item for cart c1", "update product for p-1"; what the result says again need not be said. */
function deed({ method, entity, owner }: ToolProfile, about: string, repeats: boolean): string {
  const verb = humanised(method);
  const isBare = !verb.includes(' ');
  if (entity) return `${verb}${isBare ? about.replace(/^ for/, '') : about}`;
  const whole = isBare ? `${verb} ${singular(humanised(owner))}`.trim() : verb;
  return repeats ? whole : `${whole}${about}`;
}

function phraseList(list: readonly JsonValue[], subject: Subject, situation: Situation): string {
  const [only, ...others] = focusOn(list, situation);
  if (others.length === 0 && isJsonObject(only) && askedIn(only, subject, situation).length > 0)
    return phraseObject(only, subject, situation);
  const counted = list.length === 1 ? singular(subject.noun) : subject.noun;
  return `I found ${list.length} ${counted}${subject.about}:\n${bullets(list, stemsFor(subject, situation))}`;
}

/** The items the user named exactly, when there are any. */
function focusOn(list: readonly JsonValue[], { question }: Situation): readonly JsonValue[] {
  const wanted = new Set(question.mentions.filter(names).map(({ value }) => value.toLowerCase()));
  const named = list.filter((item) => isJsonObject(item) && scalarsOf(item).some(([, value]) => wanted.has(String(value).toLowerCase())));
  return named.length > 0 ? named : list;
}

/** The fields of an object the user asked for, its name and id aside. */
function askedIn(data: JsonObject, subject: Subject, situation: Situation): Field[] {
  const [label, id] = [labelOf(data), idsOf(data)[0]];
  const others = fieldsOf(data).filter(({ name, value }) => value !== label && !(isIdKey(name) && value === id));
  return askedFields(others, stemsFor(subject, situation));
}

function phraseObject(data: JsonObject, subject: Subject, situation: Situation): string {
  const owner = ownerOf(data, subject);
  const asked = askedIn(data, subject, situation);
  const shown = asked.length > 0 ? asked : untold(data, subject);
  const [only] = shown.length === 1 ? shown : [];
  if (only && (isScalar(only.value) || moneyOf(only.value))) return phraseField(only, owner, subject);
  if (shown.length === 0) return `I found ${owner ?? subject.noun}.${abilitiesOn(data, situation)}`;
  return `${owner === undefined ? subject.text.replace(/:$/, '') : opening(owner, subject.noun)}: ${ended(fieldList(shown))}`;
}

/** What an object is called: "John Smith", "order o-100". */
function ownerOf(data: JsonObject, { noun }: Subject): string | undefined {
  const [label, id] = [labelOf(data), idsOf(data)[0]];
  return label ?? (id && `${noun === 'results' ? '' : singular(noun)} ${id}`.trim());
}

/** A name as a sentence begins with it: "Order o-100", but never "O-100". */
function opening(owner: string, noun: string): string {
  return owner.startsWith(singular(noun)) ? capitalised(owner) : owner;
}

/** The fields that say something new: not the object's name or id, and not what was asked with. */
function untold(data: JsonObject, { told }: Subject): Field[] {
  const [label, id] = [labelOf(data), idsOf(data)[0]];
  return fieldsOf(data).filter(({ value }) => value !== label && value !== id && !told.includes(inline(value)));
}

/** One field as a sentence: "Ada's department is Research", "Ada's vacation balance is 12 days". */
function phraseField(field: Field, owner: string | undefined, { text, noun }: Subject): string {
  const { name, stems, value } = field;
  if (owner !== undefined) return `${opening(owner, noun)}'s ${name}${verbFor(value, name)} ${ended(inline(value))}`;
  const nounStems = new Set(stemsOf(noun));
  const unit = typeof value === 'number' && isUnit(name) ? ` ${name}` : '';
  const isNoun = [...stems].every((stem) => nounStems.has(stem)) || unit !== '';
  if (text.endsWith(':') || !isNoun) return `${text.replace(/:$/, '')}: ${ended(fieldList([field]))}`;
  return `${text}${verbFor(value, noun)} ${ended(`${inline(value)}${unit}`)}`;
}

/** What can be done with a thing of which the result says nothing more. */
function abilitiesOn(data: JsonObject, { tools, entities }: Situation): string {
  const own = tools.filter((profile) => profile.entity && entityOf(profile, entities)?.data === data);
  return own.length === 0 ? '' : ` For it I can ${joined(own.slice(0, 6).map(({ method }) => humanised(method)))}.`;
}

function stemsFor({ given }: Subject, situation: Situation): string[] {
  return wantedStems(situation).filter((wanted) => !given.has(wanted));
}
