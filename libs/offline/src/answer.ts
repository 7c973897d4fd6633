import type { JsonObject, JsonValue } from '@toolloop/core';
import { idsOf, isEmptyResult, isIdKey, labelOf, listOf, reasonOf, type MadeCall } from './conversation.js';
import { isJsonObject, isScalar } from './json-schema.js';
import type { Need, Plan } from './planner.js';
import { names } from './question.js';
import { ANSWERED, answeredBy, answeredByResult, meant, namedFit, spokenStems, wantedStems, type Situation } from './situation.js';
import { deedOf, entityOf, nounOf, orderStrength, type ToolProfile } from './tools.js';
import {
  askedFields,
  bullets,
  capitalised,
  cut,
  ended,
  fieldList,
  fieldsOf,
  inline,
  isCounted,
  joined,
  moneyOf,
  type Field,
} from './values.js';
import { DOING_VERBS, groupedBy, humanised, isStopWord, stem, stemsOf, wordsOf } from './words.js';

const ABOUT_MODEL =
  /\b(?:who|what) are you\b|\bare you (?:an? |the )?(?:real )?(?:llm|ai|bot|chatbot|model|language model|human|robot|person|chatgpt|gpt|claude)\b|\bwhat can you do(?: for me)?\s*\?*$|\bhow do you work\b|^\s*help\s*[.!?]*$/i;

/** Whether the user asks about the model itself. */
export function isAboutModel({ question }: Situation): boolean {
  return ABOUT_MODEL.test(question.text);
}

const SELF_DESCRIPTION =
  'I am a rule-based offline model, no LLM: I match your words with the names and descriptions of the tools I am given, and I need no key and no network. ' +
  "For a real model pass one to `ToolLoopModule.forRoot({ model })`, for instance `openai('gpt-5-mini')` of @toolloop/openai.";
const MOST_TOOLS = 12;

/** The final answer in words: what became of the calls, what is missing, else what this model is and can do. */
export function answerText(situation: Situation, { need }: Plan): string {
  const {
    question,
    conversation: { calls },
  } = situation;
  const abilities = `${SELF_DESCRIPTION}\n\n${phraseAbilities(situation.tools)}`;
  if (isAboutModel(situation)) return abilities;
  const hasResults = calls.some(({ status }) => status === 'succeeded' || status === 'denied');
  const parts = [
    hasResults && (!need || need.profile.isReadOnly) ? phraseResults(situation) : '',
    ...calls.filter(({ status }) => status === 'failed').map((call) => phraseFailure(call, situation)),
    calls.some(({ status }) => status === 'open') ? 'I am still waiting for the result of a call.' : '',
    hasResults && !need ? phraseUnmet(situation) || phraseUnanswered(situation) : '',
    need ? phraseNeed(need) : '',
  ].filter((part) => part !== '');
  if (parts.length > 0) return parts.join('\n');
  return question.words.length > 0 ? `I found no tool that fits your words. ${abilities}` : abilities;
}

function phraseAbilities(tools: readonly ToolProfile[]): string {
  if (tools.length === 0) return 'I have no tools at the moment, so there is nothing I can look up or do.';
  const declared = [...new Map(tools.map((profile) => [profile.spec.declaredId, profile])).values()];
  const firstSentence = (text: string): string => cut(/^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text);
  const lines = declared.slice(0, MOST_TOOLS).map(({ method, spec }) => `- ${humanised(method)}: ${firstSentence(spec.description)}`);
  const more = declared.length - lines.length;
  return ['This is what I can do:', ...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}

function phraseFailure(call: MadeCall, { profiles }: Situation): string {
  const profile = profiles.get(call.name);
  return `I could not ${(profile && deedOf(profile)) ?? `call ${call.name}`}: ${ended(cut(reasonOf(call)))}`;
}

/** Names the orders no tool could carry out, so that nobody takes them for done. */
function phraseUnmet({ question, orders, coverage, conversation, profiles }: Situation): string {
  const tried = conversation.calls.flatMap(({ name }) => profiles.get(name) ?? []);
  const isUnmet = (one: string): boolean =>
    orders.has(one) && (coverage.get(one) ?? 0) === 0 && !tried.some((profile) => orderStrength(profile, one) > 0);
  const verbs = question.tokens
    .filter(({ lower, stems }) => DOING_VERBS.has(lower) && stems.some(isUnmet))
    .map(({ lower }) => `“${lower}”`);
  return verbs.length === 0 ? '' : `I found no tool to ${joined([...new Set(verbs)])}, so that was not done.`;
}

/** Says which words nothing was found about, when that is all of them. */
function phraseUnanswered({ question, open }: Situation): string {
  if (open.length < wantedStems(question).length) return '';
  const said = question.words.filter((word) => open.includes(word.stem) && word.token >= 0);
  const words = new Set(said.map(({ token }) => `“${question.tokens[token]?.lower ?? ''}”`));
  return words.size === 0 ? '' : `I found nothing about ${joined([...words], 0, 'or')}.`;
}

/** Asks for what a tool that would help still needs. */
function phraseNeed({ profile, missing }: Need): string {
  const deed = deedOf(profile);
  const purpose = deed === undefined ? `For “${humanised(profile.method)}”` : `To ${deed}`;
  const undecided = missing.find(({ choices }) => choices.length > 0);
  if (undecided) {
    const { name, choices } = undecided;
    return `${purpose} I need to know which ${humanised(name)} you mean: ${joined(choices.slice(0, 6), choices.length - 6, 'or')}?`;
  }
  const explained = missing.map(({ name, description }) => `\`${name}\`${description && ` (${description.replace(/\.$/, '')})`}`);
  return `${purpose} I need ${joined(explained)}. Please tell me.`;
}

function phraseResults(situation: Situation): string {
  const groups = groupedBy(answeringCalls(situation), ({ name }) => situation.profiles.get(name)?.spec.declaredId ?? name);
  return groups.flatMap((group) => group.map((call) => phraseCall(call, situation))).join('\n');
}

/**
 * The calls whose results answer the question, a person's no among them: from the newest back, each that answers a word the newer ones do not. A call
 * that only led to another one stays out, unless its result names what was asked.
 */
export function answeringCalls(situation: Situation): MadeCall[] {
  const { conversation, question, profiles, entities } = situation;
  const told = conversation.calls.filter(({ status }) => status === 'succeeded' || status === 'denied');
  const spoken = new Set(spokenStems(question, conversation.calls));
  const implied = question.words.filter(({ token }) => token < 0).map((word) => word.stem);
  const left = new Set([...wantedStems(question), ...implied].filter((one) => !spoken.has(one)));
  const kept: MadeCall[] = [];
  for (const call of told.toReversed()) {
    const profile = profiles.get(call.name);
    const answers = ledTo(call, kept, situation)
      ? answeredByResult(call)
      : isEmptyResult(call.value)
        ? (one: string) => meant(call, profile, one)
        : answeredBy(call, profile);
    const hits = [...left].filter((one) => answers(one) >= ANSWERED);
    const isSibling = kept.some(({ name }) => profiles.get(name)?.spec.declaredId === profile?.spec.declaredId);
    if (hits.length > 0 || (profile && (!profile.isReadOnly || isSibling))) kept.unshift(call);
    for (const one of hits) left.delete(one);
  }
  if (kept.length > 0) return kept;
  const named = told.find((call) => entities.some((entity) => entity.call === call && namedFit(entity, situation) >= 0.8));
  return [named ?? told.find(({ value }) => isEmptyResult(value)) ?? told[0]].filter((call) => call !== undefined);
}

/** Whether a kept call is on a thing this call found. */
function ledTo(call: MadeCall, kept: readonly MadeCall[], { profiles, entities }: Situation): boolean {
  const ids = new Set(entities.filter((entity) => entity.call === call).flatMap((entity) => entity.ids));
  return kept.some(({ name, args }) => {
    const profile = profiles.get(name);
    const bound = profile && entityOf(profile, entities)?.ids;
    return [profile?.instanceId ?? '', ...(bound ?? []), ...Object.values(args).filter(isScalar).map(String)].some((id) => ids.has(id));
  });
}

/** What a result is about, in words. */
interface Subject {
  /** "John Smith's average spend", "The forecast for Paris"; with a colon where no verb can follow. */
  readonly text: string;
  /** What there is one or many of: "recent orders". */
  readonly noun: string;
  /** " for John Smith"; empty when there is nothing to name. */
  readonly about: string;
  /** The arguments' values, which need not be said again. */
  readonly told: readonly string[];
  /** What the user asks for that is not the name of an argument. */
  readonly wanted: readonly string[];
}

function subjectOf(call: MadeCall, profile: ToolProfile | undefined, situation: Situation): Subject {
  const { question, entities } = situation;
  const method = profile?.method ?? call.name;
  const isVerb = nounOf(method) === '' || isStopWord(nounOf(method));
  const owner = profile?.instanceId === undefined ? humanised(profile?.owner ?? '') : '';
  const ownerWord =
    question.tokens.find(({ stems }) => owner !== '' && stems.includes(stem(owner)))?.lower ?? (/[^su]s$/.test(owner) ? owner : 'results');
  const noun = isVerb ? ownerWord : nounOf(method);
  const given = new Set(Object.keys(call.args).flatMap(stemsOf));
  const implied = question.words.filter(({ token }) => token < 0).map((word) => word.stem);
  const wanted = [...wantedStems(question), ...implied].filter((one) => !given.has(one));
  const told = argumentTexts(call.args, situation);
  if (profile?.instanceId !== undefined) {
    const data = entityOf(profile, entities)?.data;
    const name = (data && labelOf(data)) ?? `${humanised(profile.owner)} ${(data && idsOf(data)[0]) ?? profile.instanceId}`;
    return { noun, told, wanted, about: ` for ${name}`, text: capitalised(`${name}'s ${noun}`) };
  }
  const isDeed = DOING_VERBS.has(wordsOf(method)[0] ?? '');
  const objects = joined(isDeed ? told : told.filter((text) => !/^-?[\d.]+$/.test(text)));
  const about = objects && ` for ${objects}`;
  return { noun, told, wanted, about, text: isDeed ? `${capitalised(noun)}${objects && ` (${objects})`}:` : `The ${noun}${about}` };
}

/** The arguments a sentence can name, ids by the name of what they stand for. */
function argumentTexts(args: JsonObject, situation: Situation): string[] {
  return Object.values(args).flatMap((value) => {
    if (isJsonObject(value)) return argumentTexts(value, situation);
    const text = typeof value === 'boolean' || value === null ? '' : inline(value);
    const stood = situation.entities.findLast(({ ids }) => ids[0] === text);
    return text === '' ? [] : [(stood && labelOf(stood.data)) ?? text];
  });
}

function phraseCall(call: MadeCall, situation: Situation): string {
  const profile = situation.profiles.get(call.name);
  const subject = subjectOf(call, profile, situation);
  const { text, noun, about } = subject;
  if (call.status === 'denied') return `Not done: ${profile ? deed(profile, about) : call.name}. ${ended(cut(reasonOf(call)))}`;
  if (profile && !profile.isReadOnly) return phraseDone(call, profile, subject);
  if (isEmptyResult(call.value)) return `I found no ${noun}${about}.`;
  const list = listOf(call.value);
  if (list && !list.every(isScalar)) return phraseList(list, subject, situation);
  if (isJsonObject(call.value) && !list && !moneyOf(call.value)) return phraseObject(call.value, subject);
  return `${text}${text.endsWith(':') ? '' : verbFor(call.value, noun)} ${ended(inline(list ?? call.value))}`;
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
  const result = isJsonObject(value) && !moneyOf(value) ? fieldList(fieldsOf(value)) : inline(value);
  const says = value !== null && value !== true && result !== '';
  const repeats = says && told.every((text) => result.includes(text));
  return `Done: ${deed(profile, repeats && profile.instanceId === undefined ? '' : about)}.${says ? ` Result: ${ended(result)}` : ''}`;
}

/** "cancel order o-100", "add item for cart c1", "update product for p-1". */
function deed({ method, instanceId, owner }: ToolProfile, about: string): string {
  const verb = humanised(method);
  if (verb.includes(' ')) return `${verb}${about}`;
  return instanceId === undefined ? `${verb} ${singular(humanised(owner))}`.trim() + about : verb + about.replace(/^ for/, '');
}

function phraseList(list: readonly JsonValue[], subject: Subject, { question }: Situation): string {
  const wanted = new Set(question.mentions.filter(names).map(({ value }) => value.toLowerCase()));
  const isNamed = (item: JsonValue): boolean =>
    isJsonObject(item) && fieldsOf(item).some(({ value }) => wanted.has(String(value).toLowerCase()));
  const named = list.filter(isNamed);
  const [only, ...others] = named.length > 0 ? named : list;
  if (others.length === 0 && isJsonObject(only) && askedIn(only, subject).length > 0) return phraseObject(only, subject);
  return `I found ${list.length} ${list.length === 1 ? singular(subject.noun) : subject.noun}${subject.about}:\n${bullets(list, subject.wanted)}`;
}

/** The fields of an object the user asked for, its name and id aside. */
function askedIn(data: JsonObject, { wanted }: Subject): Field[] {
  return askedFields(
    fieldsOf(data).filter(({ name, value }) => value !== labelOf(data) && !(isIdKey(name) && value === idsOf(data)[0])),
    wanted,
  );
}

/** Fields as a sentence: "John Smith's email is …", "Order o-100: status open, placed at …". */
function phraseObject(data: JsonObject, subject: Subject): string {
  const { noun, text, told } = subject;
  const [label, [id]] = [labelOf(data), idsOf(data)];
  const owner = label ?? (id === undefined ? undefined : capitalised(`${noun === 'results' ? '' : singular(noun)} ${id}`.trim()));
  const asked = askedIn(data, subject);
  const shown =
    asked.length > 0 ? asked : fieldsOf(data).filter(({ value }) => value !== label && value !== id && !told.includes(inline(value)));
  if (shown.length === 0) return `I found ${owner ?? noun}.`;
  const [only] = shown.length === 1 ? shown : [];
  if (!only || !(isScalar(only.value) || moneyOf(only.value))) return `${owner ?? text.replace(/:$/, '')}: ${ended(fieldList(shown))}`;
  const { name, stems, value } = only;
  if (owner !== undefined) return `${owner}'s ${name}${verbFor(value, name)} ${ended(inline(value))}`;
  const unit = isCounted(name, value) ? ` ${name}` : '';
  const isNoun = unit !== '' || [...stems].every((one) => stemsOf(noun).includes(one));
  if (text.endsWith(':') || !isNoun) return `${text.replace(/:$/, '')}: ${ended(fieldList([only]))}`;
  return `${text}${verbFor(value, noun)} ${ended(`${inline(value)}${unit}`)}`;
}
