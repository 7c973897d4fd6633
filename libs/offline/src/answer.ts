import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { Need } from './arguments.js';
import type { Plan } from './planner.js';
import { entityOf, reasonOf, type MadeCall, type Situation } from './situation.js';
import { nounOf, orderStrength, type ToolProfile } from './tools.js';
import {
  idsOf,
  isEmptyResult,
  isIdKey,
  isScalar,
  labelOf,
  listOf,
  nameOf,
  ownEntries,
  plainText,
  textsIn,
} from './values.js';
import { humanised, knows, stem, stemsOf, wordsOf } from './words.js';

export function isAboutModel({ question }: Situation): boolean {
  return ABOUT_MODEL.test(question.text);
}

const ABOUT_MODEL =
  /\b(?:who|what) are you\b|\bare you (?:an? |the )?(?:real )?(?:llm|ai|bot|model|language model|human|robot|person)\b|\bwhat can you do\s*\?*$|^\s*help\s*[.!?]*$/i;
const SELF_DESCRIPTION =
  'I am a rule-based offline model, no LLM: I match your words with the names and descriptions of the tools I am given, and I need no key and no network. ' +
  "For a real model pass one to `ToolLoopModule.forRoot({ model })`, for instance `openai('gpt-5-mini')` of @toolloop/openai.";
const MOST_TOOLS = 12;

export function answerText(situation: Situation, { need }: Plan): string {
  const { calls } = situation.conversation;
  const abilities = `${SELF_DESCRIPTION}\n\n${phraseAbilities(situation.tools)}`;
  if (isAboutModel(situation)) return abilities;
  const nameFor = (call: MadeCall): string =>
    humanised(situation.profiles.get(call.name)?.method ?? call.name);
  const failures = calls.filter(({ status }) => status === 'failed');
  const failed = failures.map((call) => `“${nameFor(call)}” failed: ${ended(reasonOf(call))}`);
  const told =
    !need || need.profile.isReadOnly
      ? answeringCalls(situation).map((call) => phraseCall(call, situation))
      : [];
  const asked = need ? [phraseNeed(need)] : told.length > 0 ? phraseLeft(situation) : [];
  const parts = [...told, ...failed, ...asked];
  const excuse =
    situation.question.words.length > 0 ? 'I found no tool that fits your words. ' : '';
  return parts.length > 0 ? parts.join('\n') : excuse + abilities;
}

function phraseAbilities(tools: readonly ToolProfile[]): string {
  if (tools.length === 0)
    return 'I have no tools at the moment, so there is nothing I can look up or do.';
  const declared = [
    ...new Map(tools.map((profile) => [profile.spec.declaredId, profile])).values(),
  ];
  const lines = declared.map(
    ({ method, spec }) => `${humanised(method)}: ${cut(spec.description.replace(/\. .*$/s, '.'))}`,
  );
  return ['This is what I can do:', ...bulleted(lines, MOST_TOOLS)].join('\n');
}

/**
 * Names the orders that no tool could carry out, so that the user does not take them for done; else
 * the words without any answer.
 */
function phraseLeft({
  question,
  orders,
  conversation,
  profiles,
  open,
  wanted,
}: Situation): string[] {
  const quoted = (stems: readonly string[]): string[] => {
    const said = question.words.filter(({ stem: one, token }) => token >= 0 && stems.includes(one));
    return [...new Set(said.map(({ token }) => `“${question.tokens[token]?.lower ?? ''}”`))];
  };
  const tried = conversation.calls.flatMap(({ name }) => profiles.get(name) ?? []);
  const unmet = quoted(
    open.filter((one) => orders.has(one) && !tried.some((tool) => orderStrength(tool, one) > 0)),
  );
  if (unmet.length > 0) return [`I found no tool to ${joined(unmet)}, so that was not done.`];
  const unanswered = open.length < wanted.length ? [] : quoted(open);
  return unanswered.length > 0 ? [`I found nothing about ${joined(unanswered, 'or')}.`] : [];
}

function phraseNeed({ profile, missing }: Need): string {
  const purpose = `For “${humanised(profile.method)}” I need`;
  const undecided = missing.find(({ choices }) => choices.length > 0);
  if (undecided)
    return `${purpose} to know which ${humanised(undecided.name)} you mean: ${joined(undecided.choices, 'or')}?`;
  const explained = missing.map(
    ({ name, description }) =>
      `\`${name}\`${description && ` (${description.replace(/\.$/, '')})`}`,
  );
  return `${purpose} ${joined(explained)}. Please tell me.`;
}

/** The calls whose results answer the question: those that no other call was built on. */
export function answeringCalls({ conversation, entities, profiles }: Situation): MadeCall[] {
  const told = conversation.calls.filter(({ status }) => status !== 'failed');
  const usedBy = ({ name, args }: MadeCall): string[] => [
    ...textsIn(args),
    ...(entityOf(profiles.get(name), entities)?.ids ?? []),
  ];
  return told.filter((call, index) => {
    const used = new Set(told.slice(index + 1).flatMap(usedBy));
    return !entities.some(
      (entity) => entity.call === call && entity.ids.some((id) => used.has(id)),
    );
  });
}

/**
 * The subject of a result: "John Smith's average spend", what there is one or many of, and " for
 * John Smith".
 */
interface Subject {
  readonly text: string;
  readonly noun: string;
  readonly about: string;
  /** Stems of what the user asks for that is not the name of an argument. */
  readonly wanted: readonly string[];
}

function subjectOf(
  { name, args }: MadeCall,
  profile: ToolProfile | undefined,
  situation: Situation,
): Subject {
  const given = new Set(Object.keys(args).flatMap(stemsOf));
  const texts = textsIn(args);
  const told = texts.map(
    (text) =>
      labelOf(situation.entities.findLast(({ ids }) => ids[0] === text)?.data ?? {}) ?? text,
  );
  const noun = nounOf(profile?.method ?? name, 'results');
  const own = { noun, wanted: situation.wanted.filter((one) => !given.has(one)) };
  if (profile?.instanceId === undefined) {
    const objects = joined(
      told.filter((text) => text !== '' && !/^(?:true|false|-?[\d.]+)$/.test(text)),
    );
    const about = objects && ` for ${objects}`;
    return { ...own, about, text: `The ${noun}${about}` };
  }
  const data = entityOf(profile, situation.entities)?.data ?? { id: profile.instanceId };
  const owner = labelOf(data) ?? `${humanised(profile.owner)} ${idsOf(data)[0] ?? ''}`;
  return { ...own, about: ` for ${owner}`, text: capitalised(`${owner}'s ${noun}`) };
}

function phraseCall(call: MadeCall, situation: Situation): string {
  const profile = situation.profiles.get(call.name);
  const subject = subjectOf(call, profile, situation);
  if (profile && (call.status === 'denied' || !profile.isReadOnly))
    return phraseDeed(call, profile, subject);
  if (isEmptyResult(call.value)) return `I found no ${subject.noun}${subject.about}.`;
  const value = listOf(call.value) ?? call.value;
  if (isJsonList(value) && !value.every(isScalar)) return phraseList(value, subject);
  return isJsonObject(value) && !moneyOf(value)
    ? phraseObject(value, subject)
    : sentence(subject.text, subject.noun, value);
}

function phraseDeed(call: MadeCall, profile: ToolProfile, { about }: Subject): string {
  if (call.promise !== undefined) return ended(call.promise);
  if (call.status === 'denied')
    return `Not done: ${deed(profile, about)}. ${ended(reasonOf(call))}`;
  const result = call.value === null || call.value === true ? '' : inline(call.value);
  const isTold = result !== '' && profile.instanceId === undefined;
  return `Done: ${deed(profile, isTold ? '' : about)}.${result && ` Result: ${ended(result)}`}`;
}

/** "cancel order o-100", "add item for cart c1", "update product for p-1". */
function deed({ method, instanceId, owner }: ToolProfile, about: string): string {
  const verb = humanised(method);
  if (verb.includes(' ')) return verb + about;
  return instanceId === undefined
    ? `${verb} ${singular(humanised(owner))}${about}`
    : verb + about.replace(/^ for/, '');
}

function phraseList(list: readonly JsonValue[], subject: Subject): string {
  const [only, ...others] = list;
  if (others.length === 0 && isJsonObject(only) && fieldsToTell(only, subject).length === 1)
    return phraseObject(only, subject);
  const lines = list.map((item) => {
    const told = isJsonObject(item)
      ? [nameOf(item) ?? '', fieldList(fieldsToTell(item, subject))]
      : [inline(item)];
    return told.filter((part) => part !== '').join(': ');
  });
  const counted = `${list.length} ${list.length === 1 ? singular(subject.noun) : subject.noun}`;
  return [`I found ${counted}${subject.about}:`, ...bulleted(lines, MOST_SHOWN)].join('\n');
}

/** Fields as a sentence: "John Smith's email is …", "Order o-100: status open, placed at …". */
function phraseObject(data: JsonObject, subject: Subject): string {
  const { noun, text } = subject;
  const [id] = idsOf(data);
  const owner = labelOf(data) ?? (id && capitalised(`${singular(noun)} ${id}`));
  const fields = fieldsToTell(data, subject);
  const [only, ...more] = fields;
  if (!only) return `I found ${owner ?? noun}.`;
  if (more.length > 0 || !(owner ?? isNamed(only, noun)))
    return `${owner ?? text}: ${ended(fieldList(fields))}`;
  return owner
    ? sentence(`${owner}'s ${only.name}`, only.name, only.value)
    : sentence(text, noun, only.value);
}

/**
 * The fields that answer most of what the user asked for; where none answers any, all. An object's
 * name and ids are told elsewhere.
 */
function fieldsToTell(data: JsonObject, { wanted }: Subject): Field[] {
  const fields = fieldsOf(data).filter(
    ({ name, value }) => !isIdKey(name) && value !== labelOf(data),
  );
  const hits = fields.map((field) => wanted.filter((one) => knows(field.stems, one) > 0).length);
  return fields.filter((_, index) => hits[index] === Math.max(...hits));
}

function isNamed({ stems }: Field, noun: string): boolean {
  return [...stems].every((one) => stemsOf(noun).includes(one));
}

function sentence(text: string, noun: string, value: JsonValue): string {
  const verb = typeof value === 'boolean' ? ':' : /[^su]s$/.test(noun) ? ' are' : ' is';
  return `${text}${verb} ${ended(inline(value))}`;
}

interface Field {
  readonly name: string;
  readonly stems: ReadonlySet<string>;
  readonly value: JsonValue;
}

function fieldsOf(data: JsonObject): Field[] {
  const shown = ownEntries(data).filter(([, value]) => value !== null);
  return shown.map(([key, value]) => ({
    name: humanised(key),
    stems: new Set(wordsOf(key).map(stem)),
    value,
  }));
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
export function moneyOf(
  value: JsonValue,
): { readonly amount: number; readonly currency: string } | undefined {
  const {
    amount,
    value: number = amount,
    currency,
    unit = currency,
  } = isJsonObject(value) ? value : {};
  const isNumber = number !== undefined && /^-?\d+(?:\.\d+)?$/.test(plainText(number));
  return isNumber && typeof unit === 'string'
    ? { amount: Number(number), currency: unit }
    : undefined;
}

export function inline(value: JsonValue): string {
  const money = moneyOf(value);
  if (money)
    return `${/^[A-Z]{3}$/.test(money.currency) ? money.amount.toFixed(2) : money.amount} ${money.currency}`;
  if (isJsonList(value))
    return joined(
      value
        .slice(0, MOST_SHOWN)
        .map((item) => (isJsonObject(item) && nameOf(item)) || inline(item)),
    );
  if (isJsonObject(value)) return fieldList(fieldsOf(value));
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return typeof value === 'number' ? String(Math.round(value * 1e6) / 1e6) : cut(value ?? 'none');
}

function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > LONGEST_TEXT ? `${line.slice(0, LONGEST_TEXT)}…` : line;
}

function joined(parts: readonly string[], word = 'and'): string {
  return parts.length < 2
    ? (parts[0] ?? '')
    : `${parts.slice(0, -1).join(', ')} ${word} ${parts.at(-1)}`;
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
