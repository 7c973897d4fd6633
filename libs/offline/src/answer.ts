import type { JsonObject, JsonValue } from '@toolloop/core';
import type { Need } from './arguments.js';
import { idsOf, isEmptyResult, isIdKey, labelOf, listOf, ownEntries, reasonOf, type MadeCall } from './conversation.js';
import { isJsonArray, isJsonObject, isScalar, plainText } from './json-schema.js';
import type { Plan } from './planner.js';
import { names } from './question.js';
import { ANSWERED, meant, namedFit, resultSays, textsIn, type Situation } from './situation.js';
import { deedOf, entityOf, nounOf, orderStrength, type ToolProfile } from './tools.js';
import { humanised, knows, stem, stemsOf, wordsOf } from './words.js';

const ABOUT_MODEL =
  /\b(?:who|what) are you\b|\bare you (?:an? |the )?(?:real )?(?:llm|ai|bot|model|language model|human|robot|person)\b|\bwhat can you do\s*\?*$|^\s*help\s*[.!?]*$/i;

/** Tells whether the user asks about the model itself. */
export function isAboutModel({ question }: Situation): boolean {
  return ABOUT_MODEL.test(question.text);
}

const SELF_DESCRIPTION =
  'I am a rule-based offline model, no LLM: I match your words with the names and descriptions of the tools I am given, and I need no key and no network. ' +
  "For a real model pass one to `ToolLoopModule.forRoot({ model })`, for instance `openai('gpt-5-mini')` of @toolloop/openai.";
const MOST_TOOLS = 12;

/** The final answer in words: what became of the calls, what is missing, else what this model is and can do. */
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
  const lines = declared
    .slice(0, MOST_TOOLS)
    .map(({ method, spec }) => `- ${humanised(method)}: ${cut(spec.description.replace(/\. .*$/s, '.'))}`);
  const more = declared.length > MOST_TOOLS ? [`… and ${declared.length - MOST_TOOLS} more`] : [];
  return ['This is what I can do:', ...lines, ...more].join('\n');
}

function phraseFailure(call: MadeCall, { profiles }: Situation): string {
  const profile = profiles.get(call.name);
  return `I could not ${(profile && deedOf(profile)) ?? `call ${call.name}`}: ${ended(reasonOf(call))}`;
}

/** Names the orders that no tool could carry out, so that nobody takes them for done; else the words nothing was found about, when that is all of them. */
function phraseLeft({ question, orders, coverage, conversation, profiles, open, wanted }: Situation): string[] {
  const tried = conversation.calls.flatMap(({ name }) => profiles.get(name) ?? []);
  const isUnmet = (one: string): boolean =>
    coverage.get(one) === 0 && orders.has(one) && !tried.some((tool) => orderStrength(tool, one) > 0);
  const quoted = (fits: (one: string) => boolean): string[] => [
    ...new Set(
      question.words.flatMap(({ stem: one, token }) => (token >= 0 && fits(one) ? [`“${question.tokens[token]?.lower ?? ''}”`] : [])),
    ),
  ];
  const unmet = quoted(isUnmet);
  if (unmet.length > 0) return [`I found no tool to ${joined(unmet)}, so that was not done.`];
  const unanswered = open.length < wanted.length ? [] : quoted((one) => open.includes(one));
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

/**
 * The calls whose results answer the question, a person's no among them: from the newest back, each that answers a word
 * the newer ones do not. A call that only led to another one stays out, unless its result names what was asked.
 */
export function answeringCalls(situation: Situation): MadeCall[] {
  const { conversation, wanted, profiles, entities } = situation;
  const told = conversation.calls.filter(({ status }) => status === 'succeeded' || status === 'denied');
  const left = new Set(wanted.filter((one) => !situation.spoken.has(one)));
  const kept: MadeCall[] = [];
  for (const call of told.toReversed()) {
    const profile = profiles.get(call.name);
    const ids = new Set(entities.flatMap((entity) => (entity.call === call ? entity.ids : [])));
    const isStep = kept.some(({ name, args }) => [profiles.get(name)?.instanceId ?? '', ...textsIn(args)].some((id) => ids.has(id)));
    const strength = (one: string): number => Math.max(isStep ? 0 : meant(call, profile, one), resultSays(call, one));
    const hits = [...left].filter((one) => strength(one) >= ANSWERED);
    const isSibling = kept.some(({ name }) => profiles.get(name)?.spec.declaredId === profile?.spec.declaredId);
    if (hits.length > 0 || isSibling || profile?.isReadOnly === false) kept.unshift(call);
    for (const one of hits) left.delete(one);
  }
  if (kept.length > 0) return kept;
  const named = told.find((call) => entities.some((entity) => entity.call === call && namedFit(entity, situation) >= 0.8));
  return [named ?? told.find(({ value }) => isEmptyResult(value)) ?? told[0]].filter((call) => call !== undefined);
}

/** The subject of a result: "John Smith's average spend", what there is one or many of, and " for John Smith". */
interface Subject {
  readonly text: string;
  readonly noun: string;
  readonly about: string;
  /** The arguments' values, which need not be said again. */
  readonly told: readonly string[];
  /** Stems of what the user asks for that is not the name of an argument. */
  readonly wanted: readonly string[];
}

function subjectOf(call: MadeCall, profile: ToolProfile | undefined, situation: Situation): Subject {
  const given = new Set(Object.keys(call.args).flatMap(stemsOf));
  const wanted = situation.wanted.filter((one) => !given.has(one));
  const told = argumentTexts(call, situation);
  const own = { noun: nounFor(call, profile, situation), told, wanted };
  if (profile?.instanceId === undefined) {
    const objects = joined(told.filter((text) => !/^-?[\d.]+$/.test(text)));
    const about = objects && ` for ${objects}`;
    return { ...own, about, text: `The ${own.noun}${about}` };
  }
  const data = entityOf(profile, situation.entities)?.data ?? { id: profile.instanceId };
  const name = labelOf(data) ?? `${humanised(profile.owner)} ${idsOf(data).slice(0, 1).join('')}`;
  return { ...own, about: ` for ${name}`, text: capitalised(`${name}'s ${own.noun}`) };
}

/** The name of what a method returns; of a method that is but a verb, the user's word for its namespace. */
function nounFor({ name }: MadeCall, profile: ToolProfile | undefined, { question }: Situation): string {
  if (!profile) return name;
  const said = question.tokens.find(({ stems }) => stems.includes(stem(profile.owner)));
  return nounOf(profile.method) || (said?.lower ?? 'results');
}

/** The arguments a sentence can name, ids by the name of what they stand for. */
function argumentTexts({ args }: MadeCall, { entities }: Situation): string[] {
  const texts = Object.values(args).map((value) => (typeof value === 'boolean' ? '' : inline(value)));
  return texts.filter((text) => text !== '').map((text) => labelOf(entities.findLast(({ ids }) => ids[0] === text)?.data ?? {}) ?? text);
}

function phraseCall(call: MadeCall, situation: Situation): string {
  const profile = situation.profiles.get(call.name);
  const subject = subjectOf(call, profile, situation);
  if (profile && (call.status === 'denied' || !profile.isReadOnly)) return phraseDeed(call, profile, subject);
  if (isEmptyResult(call.value)) return `I found no ${subject.noun}${subject.about}.`;
  const value = listOf(call.value) ?? call.value;
  if (isJsonArray(value) && !value.every(isScalar)) return phraseList(value, subject, situation);
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

function phraseList(list: readonly JsonValue[], subject: Subject, { question }: Situation): string {
  const wanted = new Set(question.mentions.filter(names).map(({ value }) => value.toLowerCase()));
  const named = list.filter((item) => isJsonObject(item) && fieldsOf(item).some(({ value }) => wanted.has(plainText(value).toLowerCase())));
  const [only, ...others] = named.length > 0 ? named : list;
  if (others.length === 0 && isJsonObject(only) && askedIn(only, subject).length > 0) return phraseObject(only, subject);
  const lines = list.slice(0, MOST_SHOWN).map((item) => `- ${isJsonObject(item) ? phraseItem(item, subject) : inline(item)}`);
  const more = list.length > MOST_SHOWN ? [`… and ${list.length - MOST_SHOWN} more`] : [];
  const counted = `${list.length} ${list.length === 1 ? singular(subject.noun) : subject.noun}`;
  return [`I found ${counted}${subject.about}:`, ...lines, ...more].join('\n');
}

function phraseItem(item: JsonObject, subject: Subject): string {
  const asked = askedIn(item, subject);
  const others = fieldsOf(item).filter(({ name, value }) => !isIdKey(name) && value !== labelOf(item));
  return [nameOf(item) ?? '', fieldList(asked.length > 0 ? asked : others.slice(0, 4))].filter((part) => part !== '').join(': ');
}

/** Fields as a sentence: "John Smith's email is …", "Order o-100: status open, placed at …". */
function phraseObject(data: JsonObject, subject: Subject): string {
  const { noun, text, told } = subject;
  const [id] = idsOf(data);
  const owner = labelOf(data) ?? (id === undefined ? '' : capitalised(`${singular(noun)} ${id}`));
  const asked = askedIn(data, subject);
  const others = fieldsOf(data).filter(({ value }) => value !== labelOf(data) && value !== id && !told.includes(inline(value)));
  const [only, ...more] = asked.length > 0 ? asked : others;
  if (!only) return `I found ${owner || noun}.`;
  if (more.length > 0) return `${owner || text}: ${ended(fieldList([only, ...more]))}`;
  return owner ? sentence(`${owner}'s ${only.name}`, only.name, only.value) : phraseField(only, subject);
}

function phraseField(field: Field, { noun, text }: Subject): string {
  if (isCounted(field)) return sentence(text, noun, `${inline(field.value)} ${field.name}`);
  const isNoun = [...field.stems].every((one) => stemsOf(noun).includes(one));
  return isNoun ? sentence(text, noun, field.value) : `${text}: ${ended(fieldList([field]))}`;
}

/** "… is …", "… are …" behind a plural, and a colon before yes, no and long texts. */
function sentence(text: string, noun: string, value: JsonValue): string {
  const isLong = typeof value === 'boolean' || (typeof value === 'string' && value.length > 60);
  return `${text}${isLong ? ':' : /[^su]s$/.test(noun) ? ' are' : ' is'} ${ended(inline(value))}`;
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

function fieldList(fields: readonly Field[]): string {
  const shown = fields.slice(0, MOST_SHOWN);
  return shown
    .map((field) => (isCounted(field) ? `${inline(field.value)} ${field.name}` : `${field.name} ${inline(field.value)}`))
    .join(', ');
}

/** "days: 12" reads better as "12 days". */
function isCounted({ name, value }: Field): boolean {
  return typeof value === 'number' && /^[a-z]+[^s]s$/.test(name);
}

function nameOf(data: JsonObject): string | undefined {
  const [label, [id]] = [labelOf(data), idsOf(data)];
  return label !== undefined && id !== undefined && label !== id ? `${label} (${id})` : (label ?? id);
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
  if (isJsonArray(value)) return joined(value.slice(0, MOST_SHOWN).map((item) => (isJsonObject(item) && nameOf(item)) || inline(item)));
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
