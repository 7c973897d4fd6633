import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { Need } from './arguments.js';
import { isScalar, plainText } from './json-schema.js';
import type { Plan } from './planner.js';
import type { MadeCall, Situation } from './situation.js';
import {
  answers,
  entityOf,
  idsOf,
  isEmptyResult,
  isIdKey,
  labelOf,
  listOf,
  nameOf,
  ownEntries,
  reasonOf,
  resultSays,
  textsIn,
} from './situation.js';
import { deedOf, nounOf, orderStrength, type ToolProfile } from './tools.js';
import { humanised, knows, stem, stemsOf, wordsOf } from './words.js';

const ABOUT_MODEL =
  /\b(?:who|what) are you\b|\bare you (?:an? |the )?(?:real )?(?:llm|ai|bot|model|language model|human|robot|person)\b|\bwhat can you do\s*\?*$|^\s*help\s*[.!?]*$/i;
const SELF_DESCRIPTION =
  'I am a rule-based offline model, no LLM: I match your words with the names and descriptions of the tools I am given, and I need no key and no network. ' +
  "For a real model pass one to `ToolLoopModule.forRoot({ model })`, for instance `openai('gpt-5-mini')` of @toolloop/openai.";
const MOST_TOOLS = 12;

/** Tells whether the user asks about the model itself. */
export function isAboutModel({ question }: Situation): boolean {
  return ABOUT_MODEL.test(question.text);
}

/** The final answer in words: the results, failures and missing arguments, else what this model is and can do. */
export function answerText(situation: Situation, { need }: Plan): string {
  const { calls } = situation.conversation;
  const abilities = `${SELF_DESCRIPTION}\n\n${phraseAbilities(situation.tools)}`;
  if (isAboutModel(situation)) return abilities;
  const failed = calls.filter(({ status }) => status === 'failed').map((call) => phraseFailure(call, situation));
  const told = !need || need.profile.isReadOnly ? answeringCalls(situation).map((call) => phraseCall(call, situation)) : [];
  const open = calls.some(({ status }) => status === 'open') ? ['I am still waiting for the result of a call.'] : [];
  const asked = need ? [phraseNeed(need)] : told.length > 0 ? phraseLeft(situation) : [];
  const parts = [...told, ...failed, ...open, ...asked];
  const excuse = situation.question.words.length > 0 ? 'I found no tool that fits your words. ' : '';
  return parts.length > 0 ? parts.join('\n') : excuse + abilities;
}

function phraseAbilities(tools: readonly ToolProfile[]): string {
  if (tools.length === 0) return 'I have no tools at the moment, so there is nothing I can look up or do.';
  const declared = [...new Map(tools.map((profile) => [profile.spec.declaredId, profile])).values()];
  const lines = declared.map(({ method, spec }) => `${humanised(method)}: ${cut(spec.description.replace(/\. .*$/s, '.'))}`);
  return ['This is what I can do:', ...bulleted(lines, MOST_TOOLS)].join('\n');
}

function phraseFailure(call: MadeCall, { profiles }: Situation): string {
  const profile = profiles.get(call.name);
  return `I could not ${(profile && deedOf(profile)) ?? `call ${call.name}`}: ${ended(reasonOf(call))}`;
}

/** Names the orders that no tool could carry out, so that the user does not take them for done; else the words without any answer. */
function phraseLeft({ question, orders, conversation, profiles, open, wanted }: Situation): string[] {
  const quoted = (stems: readonly string[]): string[] => {
    const said = question.words.filter(({ stem: one, token }) => token >= 0 && stems.includes(one));
    return [...new Set(said.map(({ token }) => `“${question.tokens[token]?.lower ?? ''}”`))];
  };
  const tried = conversation.calls.flatMap(({ name }) => profiles.get(name) ?? []);
  const unmet = quoted(open.filter((one) => orders.has(one) && !tried.some((tool) => orderStrength(tool, one) > 0)));
  if (unmet.length > 0) return [`I found no tool to ${joined(unmet)}, so that was not done.`];
  const unanswered = open.length < wanted.length ? [] : quoted(open);
  return unanswered.length > 0 ? [`I found nothing about ${joined(unanswered, 'or')}.`] : [];
}

/** Asks for what a tool that would help still needs. */
function phraseNeed({ profile, missing }: Need): string {
  const act = deedOf(profile);
  const purpose = act === undefined ? `For “${humanised(profile.method)}”` : `To ${act}`;
  const undecided = missing.find(({ choices }) => choices.length > 0);
  if (undecided) return `${purpose} I need to know which ${humanised(undecided.name)} you mean: ${joined(undecided.choices, 'or')}?`;
  const explained = missing.map(({ name, description }) => `\`${name}\`${description && ` (${description.replace(/\.$/, '')})`}`);
  return `${purpose} I need ${joined(explained)}. Please tell me.`;
}

/** The calls whose results answer the question. A call that only led to another one stays out, unless its result says what no other does. */
export function answeringCalls({ conversation, wanted, spoken, entities, profiles }: Situation): MadeCall[] {
  const told = conversation.calls.filter(({ status }) => status === 'succeeded' || status === 'denied');
  const usedBy = ({ name, args }: MadeCall): readonly string[] => {
    const profile = profiles.get(name);
    return [...textsIn(args), ...((profile && entityOf(profile, entities))?.ids ?? [])];
  };
  const ends = told.filter((call, index) => {
    const used = new Set(told.slice(index + 1).flatMap(usedBy));
    return !entities.some((entity) => entity.call === call && entity.ids.some((id) => used.has(id)));
  });
  const left = wanted.filter((one) => !spoken.has(one) && !ends.some((call) => answers(call, profiles.get(call.name), one)));
  return told.filter((call) => ends.includes(call) || left.some((one) => resultSays(call, one)));
}

/** The subject of a result: "John Smith's average spend", what there is one or many of, and " for John Smith". */
interface Subject {
  readonly text: string;
  readonly noun: string;
  readonly about: string;
  /** Stems of what the user asks for that is not the name of an argument. */
  readonly wanted: readonly string[];
}

function subjectOf({ name, args }: MadeCall, profile: ToolProfile | undefined, situation: Situation): Subject {
  const given = new Set(Object.keys(args).flatMap(stemsOf));
  const texts = Object.values(args).flatMap((value) => (typeof value === 'boolean' ? [] : [inline(value)]));
  const told = texts.map((text) => labelOf(situation.entities.findLast(({ ids }) => ids[0] === text)?.data ?? {}) ?? text);
  const noun = profile ? nounFor(profile, situation) : name;
  const own = { noun, wanted: situation.wanted.filter((one) => !given.has(one)) };
  if (profile?.instanceId === undefined) {
    const objects = joined(told.filter((text) => text !== '' && !/^-?[\d.]+$/.test(text)));
    const about = objects && ` for ${objects}`;
    return { ...own, about, text: `The ${noun}${about}` };
  }
  const data = entityOf(profile, situation.entities)?.data ?? { id: profile.instanceId };
  const owner = labelOf(data) ?? `${humanised(profile.owner)} ${idsOf(data)[0] ?? ''}`;
  return { ...own, about: ` for ${owner}`, text: capitalised(`${owner}'s ${noun}`) };
}

/** The name of what a method returns; of a method that is but a verb, the user's word for its namespace. */
function nounFor({ method, owner }: ToolProfile, { question }: Situation): string {
  const said = question.tokens.find(({ stems }) => stems.includes(stem(owner)));
  return nounOf(method) || (said?.lower ?? 'results');
}

function phraseCall(call: MadeCall, situation: Situation): string {
  const profile = situation.profiles.get(call.name);
  const subject = subjectOf(call, profile, situation);
  if (profile && (call.status === 'denied' || !profile.isReadOnly)) return phraseDeed(call, profile, subject);
  if (isEmptyResult(call.value)) return `I found no ${subject.noun}${subject.about}.`;
  const value = listOf(call.value) ?? call.value;
  if (isJsonList(value) && !value.every(isScalar)) return phraseList(value, subject);
  return isJsonObject(value) && !moneyOf(value) ? phraseObject(value, subject) : sentence(subject.text, subject.noun, value);
}

function phraseDeed(call: MadeCall, profile: ToolProfile, { about }: Subject): string {
  if (call.promise !== undefined) return ended(call.promise);
  if (call.status === 'denied') return `Not done: ${deed(profile, about)}. ${ended(reasonOf(call))}`;
  const result = call.value === null || call.value === true ? '' : inline(call.value);
  const isTold = result !== '' && profile.instanceId === undefined;
  return `Done: ${deed(profile, isTold ? '' : about)}.${result && ` Result: ${ended(result)}`}`;
}

/** "cancel order o-100", "add item for cart c1", "update product for p-1". */
function deed({ method, instanceId, owner }: ToolProfile, about: string): string {
  const verb = humanised(method);
  if (verb.includes(' ')) return verb + about;
  return instanceId === undefined ? `${verb} ${singular(humanised(owner))}${about}` : verb + about.replace(/^ for/, '');
}

function phraseList(list: readonly JsonValue[], subject: Subject): string {
  const [only, ...others] = list;
  if (others.length === 0 && isJsonObject(only) && askedIn(only, subject).length > 0) return phraseObject(only, subject);
  const lines = list.map((item) => (isJsonObject(item) ? phraseItem(item, subject) : inline(item)));
  const counted = `${list.length} ${list.length === 1 ? singular(subject.noun) : subject.noun}`;
  return [`I found ${counted}${subject.about}:`, ...bulleted(lines, MOST_SHOWN)].join('\n');
}

function phraseItem(item: JsonObject, subject: Subject): string {
  return [nameOf(item) ?? '', fieldList(fieldsToTell(item, subject))].filter((part) => part !== '').join(': ');
}

/** Fields as a sentence: "John Smith's email is …", "Order o-100: status open, placed at …". */
function phraseObject(data: JsonObject, subject: Subject): string {
  const { noun, text } = subject;
  const [id] = idsOf(data);
  const owner = labelOf(data) ?? (id && capitalised(`${singular(noun)} ${id}`));
  const fields = fieldsToTell(data, subject);
  const [only, ...more] = fields;
  if (!only) return `I found ${owner ?? noun}.`;
  if (more.length > 0 || !(owner ?? isNamed(only, noun))) return `${owner ?? text}: ${ended(fieldList(fields))}`;
  return owner ? sentence(`${owner}'s ${only.name}`, only.name, only.value) : sentence(text, noun, only.value);
}

/** The fields that were asked for, else all but the object's name and ids. */
function fieldsToTell(data: JsonObject, subject: Subject): Field[] {
  const asked = askedIn(data, subject);
  if (asked.length > 0) return asked;
  return fieldsOf(data).filter(({ name, value }) => !isIdKey(name) && value !== labelOf(data));
}

function isNamed({ stems }: Field, noun: string): boolean {
  return [...stems].every((one) => stemsOf(noun).includes(one));
}

/** "… is …", "… are …" behind a plural, and a colon before yes and no. */
function sentence(text: string, noun: string, value: JsonValue): string {
  const verb = typeof value === 'boolean' ? ':' : /[^su]s$/.test(noun) ? ' are' : ' is';
  return `${text}${verb} ${ended(inline(value))}`;
}

/** A value of an object, with the words of its key. */
interface Field {
  readonly name: string;
  readonly stems: ReadonlySet<string>;
  readonly value: JsonValue;
}

function fieldsOf(data: JsonObject): Field[] {
  const shown = ownEntries(data).filter(([, value]) => value !== null);
  return shown.map(([key, value]) => ({ name: humanised(key), stems: new Set(wordsOf(key).map(stem)), value }));
}

/** The fields that answer most of what the user asked for, the object's name and id aside; none when no field answers any. */
function askedIn(data: JsonObject, { wanted }: Subject): Field[] {
  const fields = fieldsOf(data).filter(({ value }) => value !== labelOf(data) && value !== idsOf(data)[0]);
  const hits = fields.map((field) => wanted.filter((one) => knows(field.stems, one) > 0).length);
  return fields.filter((_, index) => hits[index] === Math.max(1, ...hits));
}

const MOST_SHOWN = 6;
const LONGEST_TEXT = 300;

function bulleted(lines: readonly string[], most: number): string[] {
  const more = lines.length > most ? [`… and ${lines.length - most} more`] : [];
  return [...lines.slice(0, most).map((line) => `- ${line}`), ...more];
}

function fieldList(fields: readonly Field[]): string {
  return fields
    .slice(0, MOST_SHOWN)
    .map(({ name, value }) => `${name} ${inline(value)}`)
    .join(', ');
}

/** `{ amount, currency }` and its like; undefined for anything else. */
export function moneyOf(value: JsonValue): { readonly amount: number; readonly currency: string } | undefined {
  const { amount, value: number = amount, currency, unit = currency } = isJsonObject(value) ? value : {};
  const isNumber = number !== undefined && /^-?\d+(?:\.\d+)?$/.test(plainText(number));
  return isNumber && typeof unit === 'string' ? { amount: Number(number), currency: unit } : undefined;
}

/** A value in one line. */
export function inline(value: JsonValue): string {
  const money = moneyOf(value);
  if (money) return `${/^[A-Z]{3}$/.test(money.currency) ? money.amount.toFixed(2) : money.amount} ${money.currency}`;
  if (isJsonList(value)) return joined(value.slice(0, MOST_SHOWN).map((item) => (isJsonObject(item) && nameOf(item)) || inline(item)));
  if (isJsonObject(value)) return fieldList(fieldsOf(value));
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return typeof value === 'number' ? String(Math.round(value * 1e6) / 1e6) : cut(value ?? 'none');
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > LONGEST_TEXT ? `${line.slice(0, LONGEST_TEXT)}…` : line;
}

function joined(parts: readonly string[], word = 'and'): string {
  return parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} ${word} ${parts.at(-1)}`;
}

function singular(noun: string): string {
  return noun.replace(/([^su])s$/, '$1');
}

function ended(text: string): string {
  return cut(text).replace(/(?<![.!?…])$/, '.');
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
