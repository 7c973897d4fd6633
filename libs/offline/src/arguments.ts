import type { JsonObject, JsonValue } from '@toolloop/core';
import { isIdKey } from './conversation.js';
import { accepts, isJson, plainText, resolved, typeOf, type Schema } from './json-schema.js';
import { dateOfWord, hasStem, isValue, lowerAt, names, range, type Mention, type Question, type Token } from './question.js';
import { lookUp, MOST_INSTANCES, type Found, type Instance, type Situation } from './situation.js';
import type { ToolProfile } from './tools.js';
import { list, NEGATIONS, pairs, stem, wordsOf } from './words.js';

/** One argument: a property of the tool's input. */
interface Leaf {
  readonly name: string;
  readonly schema: Schema;
  readonly root: Schema;
  readonly required: boolean;
  readonly type: string | undefined;
  /** The kind of value its name and schema ask for: `id`, `name`, `place`, `query`, `body`, `email`, `url`, `day`, `time`, `number`, `other`. */
  readonly sense: string;
  readonly stems: readonly string[];
  /** Small words that announce the value. */
  readonly cues: readonly string[];
}

/** A required argument without a value, and the things among which the user has to decide. */
export interface Missing {
  readonly name: string;
  readonly description: string;
  readonly choices: readonly string[];
  /** Tells whether a search could bring it to light, as it could an id. */
  readonly findable: boolean;
}

/** A tool that would help, and the arguments it still needs from the user. */
export interface Need {
  readonly profile: ToolProfile;
  readonly missing: readonly Missing[];
}

/** The arguments of a tool so far as they are known. */
export interface Filling {
  /** Argument objects ready to be sent; several when the user named several values; none when something is missing. */
  readonly variants: readonly JsonObject[];
  readonly missing: readonly Missing[];
  /** The user's values that the arguments use, and their share of all. */
  readonly used: readonly Mention[];
  readonly usedShare: number;
  /** From 0 to 1, how sure the values are. */
  readonly quality: number;
}

/** Words of a property's name, the sense they give it, and the small words that announce its value; the name's last known word decides. */
const SENSES = [
  'email | email mail |',
  'url | url uri link website |',
  'day | date day birthday deadline due when | on for',
  'time | time | at',
  'query | query q search term keyword phrase question prompt topic word | about',
  'body | message body text content comment note reason description summary detail task | because',
  'place | from origin source departure start | from between since',
  'place | to destination target arrival end until | to into until and',
  'place | city location place country address town region room area airport timezone | in at near',
  'name | name title label person user owner author contact company brand team customer recipient employee member guest |',
  'other | min minimum | over above least minimum',
  'other | max maximum | under below most maximum',
  'other | limit count top | top first last latest recent limit',
  'other | quantity amount unit | add order buy put reorder',
].map((row) => {
  const [[sense = ''] = [], about = [], cues = []] = row.split('|').map(list);
  return { sense, about: about.map(stem), cues };
});
/** The sense that a format or a type gives. */
const EXACT = pairs('email:email uri:url date:day date-time:day time:time uuid:id number:number integer:number');

function leafOf(name: string, schema: Schema, root: Schema): Leaf {
  const type = typeOf(schema);
  const stems = wordsOf(name).map(stem);
  const known = stems.toReversed().flatMap((word) => SENSES.find(({ about }) => about.includes(word))?.sense ?? []);
  const fixed = EXACT.get(schema.format ?? '') ?? (isIdKey(name) ? 'id' : EXACT.get(type ?? ''));
  const sense = fixed ?? known[0] ?? 'other';
  const cues = SENSES.filter(({ about }) => about.some((word) => stems.includes(word))).flatMap((row) => row.cues);
  return { name, schema, root, required: root.required?.includes(name) ?? false, type, sense, stems, cues };
}

/** A value that could fill an argument, how well it fits, and where in the user's words it stands. */
interface Candidate {
  readonly leaf: Leaf;
  readonly value: JsonValue;
  readonly fit: number;
  readonly tokens: readonly number[];
  readonly mentions: readonly Mention[];
}

/** A tool, what is known, and the texts, in lower case, that only say which instance is meant. */
interface Scope {
  readonly profile: ToolProfile;
  readonly situation: Situation;
  readonly instanceNames: readonly string[];
}

/** Everything in the user's words that an argument's schema accepts. */
function candidatesFor(leaf: Leaf, scope: Scope): Candidate[] {
  const { schema, root, sense, required } = leaf;
  const { question, today, unlocated } = scope.situation;
  if (schema.enum || leaf.type === 'boolean') return literalCandidates(leaf, scope);
  return question.mentions.flatMap((mention): Candidate[] => {
    const isSpent = !required && sense !== 'name' && names(mention) && !unlocated.includes(mention);
    const fit = isSpent || scope.instanceNames.includes(mention.value.toLowerCase()) ? 0 : fitOf(leaf, mention, question);
    const value = fit > 0 ? formsOf(leaf, mention, today).find((form) => accepts(schema, form, root)) : undefined;
    const tokens = range(mention.first, mention.last);
    return value === undefined ? [] : [{ leaf, value, tokens, mentions: [mention], fit: fit + contextFit(leaf, tokens, scope) }];
  });
}

/** The fit of each kind of mention for each sense; what is not here never fits. */
const FITS = new Map(
  [
    'quoted | id:0.8 name:1.5 place:1.5 query:1.5 body:1.5 other:1.5',
    'name | name:1.3 place:1.3 query:1.3 body:0.6 other:0.6',
    'phrase | name:0.95 place:0.95 query:0.95 body:0.5 other:0.5',
    'object | name:0.7 place:0.7 query:0.7 body:0.7 other:0.7',
    'id | id:1.5 number:0.3 name:0.5 place:0.5 query:0.5 other:0.25',
    'number | number:0.8 id:0.7 other:0.1',
    'email | email:1.5 name:0.5 query:0.5 other:0.25',
    'url | url:1.5 query:0.5 other:0.25',
    'date | day:1.5 time:0.5 other:0.1',
    'day | day:1.5 time:0.5 place:0.4 query:0.4 other:0.2',
    'time | time:1.5 other:0.1',
    'rest | body:1.2',
  ].map((row) => [row.replace(/ .*/, ''), pairs(row.replace(/.*\| /, ''))]),
);

/** Rates how well a mention suits an argument by their kinds; what is quoted behind "saying" is told to somebody, not looked for. */
function fitOf({ sense, schema }: Leaf, mention: Mention, question: Question): number {
  const fit = Number(FITS.get(mention.kind)?.get(sense) ?? 0);
  if (sense === 'id' && mention.value.includes(' ')) return 0;
  if (mention.kind === 'quoted' && isTold(mention, question)) return sense === 'body' ? 2 : 0;
  return schema.pattern === undefined ? fit : Math.max(fit, 0.5) + 1;
}

function isTold({ first }: Mention, { mentions }: Question): boolean {
  const rest = mentions.find((other) => other.kind === 'rest' && other.first <= first);
  return rest !== undefined && mentions.some((other) => names(other) && other.first < rest.first);
}

/** The values a mention can stand for. */
function formsOf({ type, schema }: Leaf, { kind, value }: Mention, today = ''): JsonValue[] {
  if (EXACT.has(type ?? '')) return [Number(value)].filter(Number.isFinite);
  const date = kind === 'day' ? (dateOfWord(value, today) ?? value) : value;
  const formatted = schema.format === undefined ? [] : [`${date}T00:00:00Z`, `${value}:00Z`];
  return type === 'object' || type === 'array' ? [] : [date, ...formatted, value, value.toUpperCase()];
}

const CONNECTORS = new Set(list('is are of = : number no # the a an named called titled id to as with exactly'));

/** The nearest word before a value that is no mere connector. */
function indexBefore(first: number, { stems }: Leaf, tokens: readonly Token[]): number {
  let index = first - 1;
  while (CONNECTORS.has(lowerAt(index, tokens)) && !hasStem(index, stems, tokens)) index -= 1;
  return index;
}

/** Rates the words around a value for an argument: its own name beside it, a small word that announces it, its own name with "to" before the value. */
function contextFit(leaf: Leaf, at: readonly number[], scope: Scope): number {
  const { tokens } = scope.situation.question;
  const { stems, cues, type = '' } = leaf;
  const [first = -1] = at;
  const isCued = cues.includes(lowerAt(first - 1, tokens)) || cues.includes(lowerAt(first - 2, tokens));
  const named = tokens.some((_, index) => !at.includes(index) && hasStem(index, stems, tokens));
  const isTarget = named && ['to', 'as', '='].includes(lowerAt(first - 1, tokens));
  const unit = hasStem(first + at.length, stems, tokens) ? (EXACT.has(type) ? 1.5 : 0.5) : 0;
  const before = hasStem(indexBefore(first, leaf, tokens), stems, tokens) ? 2 : 0;
  return before + unit + (isCued ? 1.2 : 0) + (isTarget ? 1.2 : 0) - otherFit(leaf, first, scope);
}

/** Finds the plural that a number counts; -1 for none. */
function countedBy(first: number, tokens: readonly Token[]): number {
  const plural = range(first + 1, first + 3).find((index) => /[^s]s$/.test(lowerAt(index, tokens)));
  return tokens[first]?.kind === 'number' ? (plural ?? -1) : -1;
}

/** Rates the signs against an argument: the "7" of "order 7" is no customer's id, and "5 orders" limits no tool that does not speak of orders. */
function otherFit(leaf: Leaf, first: number, { situation, profile }: Scope): number {
  const { tokens } = situation.question;
  const { sense, stems, required, cues } = leaf;
  const index = indexBefore(first, leaf, tokens);
  const counted = countedBy(first, tokens);
  const isOther = stems.length > 1 && !hasStem(index, stems, tokens) && hasStem(index, situation.vocabulary, tokens);
  if (sense === 'id') return isOther || counted > 0 ? 1 : 0;
  const isLimit = counted > 0 && !required && cues.includes('limit');
  return isLimit && !hasStem(counted, profile.stems.all, tokens) ? 2 : 0;
}

/** The values that a schema names itself, where the user says them: an enum's, or a boolean's by its name, by "on" or by "off". */
function literalCandidates(leaf: Leaf, scope: Scope): Candidate[] {
  const { schema, root, stems } = leaf;
  const { tokens, mentions } = scope.situation.question;
  const spoken = tokens.flatMap(({ value }, token) => wordsOf(value).map((word) => ({ stem: stem(word), token })));
  const said = (text: string, value: JsonValue, least = 1.5): Candidate[] => {
    const wanted = wordsOf(text).map(stem);
    const start = spoken.findIndex((_, from) => wanted.every((word, offset) => spoken[from + offset]?.stem === word));
    const at = spoken.slice(start, start + wanted.length).map(({ token }) => token);
    if (start < 0 || at.length === 0 || !accepts(schema, value, root)) return [];
    const used = mentions.filter((mention) => names(mention) && at.includes(mention.first));
    return [{ leaf, value, tokens: at, mentions: used, fit: least + wanted.length / 10 + contextFit(leaf, at, scope) }];
  };
  if (schema.enum) return schema.enum.filter(isJson).flatMap((value) => said(plainText(value), value));
  if (stems.includes('on') || stems.includes('enabl')) return [...said('off', false), ...said('on', true, 1)];
  const isDenied = ({ tokens: [first = 0] }: Candidate): boolean =>
    tokens.slice(Math.max(0, first - 2), first).some(({ lower }) => NEGATIONS.has(lower));
  const named = said(leaf.name.replace(/^(?:is|in|has|only|include)(?=[A-Z])/, ''), true);
  return named.map((candidate) => Object.assign(candidate, { value: !isDenied(candidate) }));
}

function isJoined(one: Mention | undefined, other: Mention | undefined): boolean {
  return one?.kind === other?.kind && one?.group === other?.group && one?.group !== -1;
}

/** Fills a tool's arguments from the user's words, then from the schema, then from what results hold. */
export function fillArguments(profile: ToolProfile, { id, entity }: Instance, situation: Situation): Filling {
  const root = profile.spec.inputSchema;
  const instanceNames = profile.instanceId === undefined ? [] : [id.toLowerCase(), ...(entity?.texts ?? [])];
  const scope: Scope = { profile, situation, instanceNames };
  const leaves = leavesOf(root, profile);
  const chosen = assigned(leaves.flatMap((leaf) => candidatesFor(leaf, scope)).filter((one) => one.fit >= leastFit(one, profile)));
  const open = leaves.filter((leaf) => leaf.required && !chosen.some((one) => one.leaf === leaf));
  const extra = open.map((leaf): Several & Found => Object.assign(valuesFor(leaf, scope), { leaf, mentions: [] }));
  const several = severalOf(chosen, scope) ?? extra.find(({ values }) => values.length > 1);
  const single = [...chosen.map(({ leaf, value }) => ({ leaf, values: [value] })), ...extra];
  const variants = (several?.values ?? [null]).slice(0, MOST_INSTANCES).map((value): JsonObject => {
    const entries = leaves.flatMap((leaf) => single.filter((one) => one.leaf === leaf && one.values.length > 0));
    return Object.fromEntries(entries.map(({ leaf, values: [first = null] }) => [leaf.name, leaf === several?.leaf ? value : first]));
  });
  const valid = variants.filter((args) => accepts(root, args, root));
  const unfilled = extra.filter(({ values }) => values.length === 0).map(missingOf);
  const missing = unfilled.length + valid.length > 0 ? unfilled : [{ name: 'arguments', description: '', choices: [], findable: false }];
  const used = [...chosen, ...(several ? [several] : [])].flatMap(({ mentions }) => mentions);
  const ready = missing.length > 0 ? [] : valid;
  return { variants: ready, missing, used, usedShare: usedShareOf(chosen, situation), quality: qualityOf(chosen) };
}

function qualityOf(chosen: readonly Candidate[]): number {
  const fits = chosen.flatMap(({ leaf, fit }) => (leaf.required ? [Math.min(fit / 2, 1)] : []));
  return fits.length === 0 ? 0.5 : fits.reduce((sum, fit) => sum + fit, 0) / fits.length;
}

function usedShareOf(chosen: readonly Candidate[], { question }: Situation): number {
  const values = question.mentions.filter(isValue);
  return values.filter(({ first }) => chosen.some(({ tokens }) => tokens.includes(first))).length / Math.max(values.length, 1);
}

function leavesOf(root: Schema, { isReadOnly, isSearch }: ToolProfile): Leaf[] {
  return Object.entries(root.properties ?? {}).flatMap(([name, node]): Leaf[] => {
    const schema = resolved(node, root);
    if (typeof schema === 'boolean') return [];
    const leaf = leafOf(name, schema, root);
    return [isReadOnly && isSearch && leaf.sense === 'body' ? { ...leaf, sense: 'query' } : leaf];
  });
}

/** The least fit for a value; an optional argument needs a better reason, but a search without one would find everything. */
function leastFit({ leaf, mentions }: Candidate, { isReadOnly, isSearch }: ToolProfile): number {
  if (leaf.required) return 0.4;
  const isSought = mentions.some(({ kind }) => ['name', 'quoted', 'object', 'phrase'].includes(kind));
  return isReadOnly && isSearch && isSought && (leaf.sense === 'query' || leaf.sense === 'name') ? 0.65 : 1.2;
}

/** Gives each argument its best value and each value to one argument, the surest pairs first. */
function assigned(candidates: readonly Candidate[]): Candidate[] {
  const chosen: Candidate[] = [];
  for (const candidate of candidates.toSorted((one, other) => other.fit - one.fit)) {
    const isTaken = chosen.some(({ leaf, tokens }) => leaf === candidate.leaf || tokens.some((token) => candidate.tokens.includes(token)));
    if (!isTaken) chosen.push(candidate);
  }
  return chosen;
}

interface Several {
  readonly leaf: Leaf;
  readonly values: readonly JsonValue[];
  readonly mentions: readonly Mention[];
}

/** When the user joined several names and one is used, the others are wanted the same way. */
function severalOf(chosen: readonly Candidate[], scope: Scope): Several | undefined {
  const used = new Set(chosen.flatMap(({ mentions }) => mentions));
  const found = chosen.map(({ leaf, mentions: [own], value }): Several => {
    const others = own && names(own) ? candidatesFor(leaf, scope) : [];
    const joined = others.filter(({ mentions: [other] }) => other && !used.has(other) && isJoined(own, other));
    return { leaf, values: [...new Set([value, ...joined.map((one) => one.value)])], mentions: joined.flatMap(({ mentions }) => mentions) };
  });
  return found.find(({ values }) => values.length > 1);
}

/** Values for a required argument that the user's words do not fill: the schema's own value, else one from the results. */
function valuesFor(leaf: Leaf, scope: Scope): Found {
  const { schema, root } = leaf;
  const given: unknown[] = [schema.const, schema.default, schema.enum?.length === 1 ? schema.enum[0] : undefined];
  const fixed = given.filter(isJson).find((value) => accepts(schema, value, root));
  return fixed === undefined ? lookUp(leaf, scope.profile, scope.situation) : { values: [fixed], choices: [] };
}

function missingOf({ leaf, choices }: { readonly leaf: Leaf } & Found): Missing {
  const { name, schema, sense } = leaf;
  const description = schema.enum ? `one of ${schema.enum.map(String).join(', ')}` : (schema.description ?? '');
  return { name, description, choices, findable: sense === 'id' || sense === 'email' };
}
