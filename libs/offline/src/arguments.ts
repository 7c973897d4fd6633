import type { JsonObject, JsonValue } from '@toolloop/core';
import { isIdKey } from './conversation.js';
import { accepts, isJson, isJsonObject, plainText, resolved, typeOf, type Schema } from './json-schema.js';
import { dateOfWord, isValue, names, range, type Mention, type Question } from './question.js';
import { isPlainEnglish, isStopWord, knows, NEGATIONS, stem, wordsOf } from './words.js';

/** The kind of value that a property's name asks for. */
type Sense = 'id' | 'name' | 'place' | 'query' | 'body' | 'email' | 'url' | 'day' | 'time' | 'number' | 'other';

/** One argument that takes a value: a property, or a property of a property. */
export interface Leaf {
  readonly path: readonly string[];
  readonly schema: Schema;
  /** The schema that `$ref`s are resolved against. */
  readonly root: Schema;
  readonly required: boolean;
  readonly type: string | undefined;
  readonly sense: Sense;
  readonly stems: ReadonlySet<string>;
}

/** Values for an argument from elsewhere, or the things among which nothing decides. */
export interface Found {
  readonly values: readonly JsonValue[];
  readonly choices: readonly string[];
}

/** A required argument without a value, and the things among which the user has to decide. */
export interface Missing extends Pick<Found, 'choices'> {
  readonly name: string;
  readonly description: string;
  /** Whether a search could bring it to light, as it could an id. */
  readonly findable: boolean;
}

/** What a tool's arguments came to. */
export interface Filling {
  /** Argument objects ready to be sent; several when the user named several values; none when something is missing. */
  readonly variants: readonly JsonObject[];
  readonly missing: readonly Missing[];
  /** What the user wrote that the arguments use. */
  readonly used: readonly Mention[];
  /** From 0 to 1, how sure the values are. */
  readonly quality: number;
  /** Share of the values in the user's words that the arguments use. */
  readonly usedShare: number;
}

export interface FillingOptions {
  readonly question: Question;
  /** Stems of what all tools speak in. */
  readonly vocabulary: ReadonlySet<string>;
  /** Stems of the tool's own id and description: its subject, not its values. */
  readonly toolStems: ReadonlySet<string>;
  /** `YYYY-MM-DD`; without it "tomorrow" fills no date. */
  readonly today: string | undefined;
  /** Texts, in lower case, that only say which instance is meant. */
  readonly instanceNames: ReadonlySet<string>;
  /** What earlier calls used already. */
  readonly spent: readonly Mention[];
  /** Finds an argument that the user's words do not fill. */
  readonly lookup: (leaf: Leaf) => Found;
  /** The tool changes what it is given, so that it needs something to change. */
  readonly changes: boolean;
  /** The tool looks things up, so that a text is what to look for. */
  readonly searches: boolean;
}

const split = (text: string): string[] => text.split(' ').map(stem);

/** Words of a property's name and the sense they give it; the last word of the name that is here decides. */
const SENSES: readonly (readonly [Sense, readonly string[]])[] = [
  ['email', split('email mail')],
  ['url', split('url uri link website')],
  ['day', split('date day birthday deadline due')],
  ['time', split('time at')],
  ['query', split('query q search term keyword phrase question prompt topic word')],
  ['body', split('message body text content comment note reason description summary detail task todo')],
  ['place', split('city location place country address town region where room area airport origin destination from to zone timezone')],
  ['name', split('name title label person user owner author artist contact company brand team customer recipient employee member guest')],
];
const FORMAT_SENSES: Readonly<Record<string, Sense>> = {
  email: 'email',
  uri: 'url',
  date: 'day',
  'date-time': 'day',
  time: 'time',
  uuid: 'id',
};

/** Small words that announce a property's value. */
const CUES: readonly (readonly [about: readonly string[], cues: readonly string[]])[] = [
  [split('from origin source departure start since'), ['from', 'between', 'since']],
  [split('to destination target arrival recipient end until language'), ['to', 'into', 'until', 'and', 'till']],
  [split('city location place country room area address town region zone timezone'), ['in', 'at', 'near']],
  [split('date day when'), ['on', 'for']],
  [split('time'), ['at']],
  [split('author artist creator'), ['by']],
  [split('topic subject about'), ['about', 'on']],
  [split('ingredient'), ['with']],
  [split('reason cause'), ['because']],
  [split('min minimum least'), ['over', 'above', 'least', 'minimum', 'more']],
  [split('max maximum most budget'), ['under', 'below', 'most', 'maximum', 'less', 'up', 'within']],
  [split('limit count top size take number'), ['top', 'first', 'last', 'latest', 'recent', 'limit']],
  [split('quantity amount count unit'), ['add', 'order', 'buy', 'put', 'reorder']],
];

/** The arguments of a tool, one level of nested objects opened. */
function leavesOf(root: Schema): Leaf[] {
  return propertiesOf(root, root).flatMap(([name, schema]) => {
    const required = root.required?.includes(name) ?? false;
    const inner = typeOf(schema) === 'object' ? propertiesOf(schema, root) : [];
    if (inner.length === 0) return [leafOf([name], schema, root, required)];
    return inner.map(([key, node]) => leafOf([name, key], node, root, required && (schema.required?.includes(key) ?? false)));
  });
}

function propertiesOf(schema: Schema, root: Schema): [string, Schema][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, node]) => {
    const found = resolved(node, root);
    return typeof found === 'boolean' ? [] : [[name, found]];
  });
}

function leafOf(path: readonly string[], schema: Schema, root: Schema, required: boolean): Leaf {
  const stems = new Set(wordsOf(path.join(' ')).map(stem));
  return { path, schema, root, required, type: typeOf(schema), sense: senseOf(path.at(-1) ?? '', schema), stems };
}

function senseOf(name: string, schema: Schema): Sense {
  const byFormat = FORMAT_SENSES[schema.format ?? ''];
  if (byFormat || isIdKey(name)) return byFormat ?? 'id';
  if (typeOf(schema) === 'number' || typeOf(schema) === 'integer') return 'number';
  const words = wordsOf(name).toReversed().map(stem);
  return words.flatMap((word) => SENSES.find(([, known]) => known.includes(word))?.[0] ?? []).at(0) ?? 'other';
}

/** A value that could fill an argument, how well it fits, and where in the user's words it stands. */
interface Candidate {
  readonly leaf: Leaf;
  readonly value: JsonValue;
  readonly fit: number;
  readonly tokens: readonly number[];
  readonly mentions: readonly Mention[];
}

/** Everything in the user's words that an argument's schema accepts. */
function candidatesFor(leaf: Leaf, options: FillingOptions): Candidate[] {
  if (leaf.type === 'array') return listCandidates(leaf, options);
  if (leaf.schema.enum || leaf.type === 'boolean') return literalCandidates(leaf, options);
  return mentionsFor(leaf, options).flatMap((mention): Candidate[] => {
    const base = baseFit(leaf, mention, options.question);
    const form = base > 0 && isFree(mention, leaf, options) ? formOf(leaf, mention, options.today) : undefined;
    return form ? [{ leaf, ...form, mentions: [mention], fit: base + contextFit(leaf, form.tokens, options) }] : [];
  });
}

/** With a pattern any word may be a value. */
function mentionsFor({ schema }: Leaf, { question, toolStems }: FillingOptions): readonly Mention[] {
  if (schema.pattern === undefined) return question.mentions;
  const words = question.tokens.flatMap(({ kind, lower, value, stems }, index): Mention[] => {
    const isPlain = kind !== 'word' || isPlainEnglish(lower) || stems.some((one) => toolStems.has(one));
    return isPlain ? [] : [{ kind: 'object', value, first: index, last: index, group: -1 }];
  });
  return [...question.mentions, ...words];
}

/** A name that led to the instance is no argument, and what was searched for is no optional text. */
function isFree(mention: Mention, { sense, required }: Leaf, { instanceNames, spent }: FillingOptions): boolean {
  if (!names(mention) && mention.kind !== 'object') return true;
  const isText = sense === 'body' || sense === 'query' || sense === 'other';
  return !instanceNames.has(mention.value.toLowerCase()) && !(isText && !required && spent.includes(mention));
}

/** How well each kind of mention suits each sense; 0 is never. */
const FITS: Readonly<Record<Mention['kind'], Partial<Record<Sense, number>> & { readonly otherwise: number }>> = {
  quoted: { id: 0.8, day: 0.2, otherwise: 1.5 },
  name: { id: 0, name: 1.3, place: 1.2, query: 0.9, body: 0.3, email: 0, url: 0, day: 0.1, time: 0, otherwise: 0.6 },
  phrase: { id: 0, name: 0.95, place: 0.9, query: 0.8, body: 0.5, email: 0, url: 0, day: 0.1, time: 0, otherwise: 0.5 },
  object: { id: 0, name: 0.7, place: 0.7, query: 0.7, body: 0.6, email: 0, url: 0, day: 0, time: 0, otherwise: 0.45 },
  id: { id: 1.5, query: 0.6, name: 0.5, body: 0.2, email: 0, url: 0.5, day: 0, time: 0, otherwise: 0.4 },
  email: { email: 2, query: 0.6, name: 0.5, id: 0.2, day: 0, time: 0, otherwise: 0.4 },
  url: { url: 2, email: 0, day: 0, time: 0, otherwise: 0.4 },
  date: { day: 2, time: 1, email: 0, otherwise: 0.2 },
  time: { time: 2, day: 0.1, email: 0, otherwise: 0.2 },
  day: { day: 1.2, time: 1, email: 0, otherwise: 0.2 },
  number: { number: 0.8, id: 0.7, email: 0, url: 0, day: 0.1, time: 0.1, otherwise: 0.15 },
  rest: { body: 1.2, query: 0.3, id: 0, email: 0, url: 0, day: 0, time: 0, place: 0, name: 0.1, otherwise: 0.1 },
};
const REASONS = new Set(split('reason cause why note comment'));

function baseFit({ sense, stems, schema }: Leaf, mention: Mention, { tokens, mentions }: Question): number {
  const { kind, value, first } = mention;
  const fit = FITS[kind][sense] ?? FITS[kind].otherwise;
  if (kind === 'rest' && tokens[first - 1]?.lower === 'because') return [...stems].some((one) => REASONS.has(one)) ? fit : 0;
  const isTold =
    kind === 'quoted' &&
    mentions.some(
      (rest) => rest.kind === 'rest' && rest.first <= first && mentions.some((other) => names(other) && other.first < rest.first),
    );
  if (isTold || (kind === 'quoted' && sense === 'id' && value.includes(' '))) return sense === 'body' ? fit + 0.5 : 0;
  return schema.pattern === undefined ? fit : Math.max(fit, 0.5) + 1;
}

/** The likeliest form of a mention that an argument's schema accepts. */
function formOf(
  leaf: Leaf,
  { kind, value, first, last }: Mention,
  today: string | undefined,
): Pick<Candidate, 'value' | 'tokens'> | undefined {
  const { schema, type, stems, root } = leaf;
  const tokens = range(first, last);
  const words = value.split(' ');
  const isPart = leaf.sense === 'name' && (kind === 'name' || kind === 'phrase') && words.length > 1;
  const part =
    (isPart && [...LAST_NAMES].some((one) => stems.has(one)) && [-1]) ||
    (isPart && [...FIRST_NAMES].some((one) => stems.has(one)) && [0, -1]);
  if (part) return { value: words.slice(...part).join(' '), tokens: words.length === tokens.length ? tokens.slice(...part) : tokens };
  const date = kind === 'day' && today !== undefined ? dateOfWord(value, today) : kind === 'date' ? value : undefined;
  const texts = date === undefined ? [value, ...(kind === 'time' ? [`${value}:00Z`] : [])] : [date, `${date}T00:00:00Z`, value];
  const cased = schema.pattern === undefined ? texts : [...texts, value.toUpperCase(), value.toLowerCase()];
  const isNumber = type === 'number' || type === 'integer';
  const forms: readonly JsonValue[] = isNumber ? (/^-?\d+(?:\.\d+)?$/.test(value) ? [Number(value)] : []) : type === 'object' ? [] : cased;
  const found = forms.find((form) => accepts(schema, form, root));
  return found === undefined ? undefined : { value: found, tokens };
}

const FIRST_NAMES = new Set(split('first given'));
const LAST_NAMES = new Set(split('last surname family'));
const CONNECTORS = new Set('is are of = : number no # the a an named called titled id to as with exactly'.split(' '));
const MOST_CONNECTORS = 4;
const TARGETING = new Set(['to', 'as', 'at', 'by', '=']);
const LIMITS = split('limit top count size take result');

/** What the words around a value say for an argument: its own name beside it, a small word that announces it, what it counts. */
function contextFit(
  { stems, sense, required, type }: Leaf,
  at: readonly number[],
  { question: { tokens }, toolStems, vocabulary }: FillingOptions,
): number {
  const [first = -1] = at;
  const token = tokens[first];
  if (!token) return 0;
  const stemsAt = (index: number): readonly string[] => tokens[index]?.stems ?? [];
  const meets = (found: readonly string[]): boolean => found.some((one) => stems.has(one));
  let index = first - 1;
  while (CONNECTORS.has(tokens[index]?.lower ?? '') && first - index <= MOST_CONNECTORS && !meets(stemsAt(index))) index -= 1;
  const before = stemsAt(index);
  const cues = CUES.filter(([about]) => meets(about)).flatMap(([, words]) => words);
  const isTarget = TARGETING.has(tokens[first - 1]?.lower ?? '') && tokens.some((word, where) => !at.includes(where) && meets(word.stems));
  const isNumber = type === 'number' || type === 'integer';
  const isOtherKind = sense === 'id' && stems.size > 1 && !meets(before) && before.some((one) => vocabulary.has(one));
  const counted = token.kind === 'number' ? tokens.slice(first + 1, first + 4).find(({ lower }) => /[^s]s$/.test(lower)) : undefined;
  const isLimit = !required && LIMITS.some((word) => stems.has(word)) && counted !== undefined;
  return (
    (meets(before) ? 2 : 0) +
    (meets(stemsAt((at.at(-1) ?? first) + 1)) ? (isNumber ? 1.5 : 0.5) : 0) +
    ([first - 1, first - 2].some((near) => cues.includes(tokens[near]?.lower ?? '')) ? 1.2 : 0) +
    (isTarget ? 1.2 : 0) -
    (isOtherKind || (counted && sense === 'id') ? 1 : 0) -
    (isLimit && !counted.stems.some((one) => knows(toolStems, one) > 0) ? 2 : 0)
  );
}

const OFF = new Set(['off', 'disable', 'deactivate', 'disabled']);
const ON = /\b(?:turn|switch|put|set|power|leave|keep)\b.*\bon\b|\b(?:enable|activate)\b/i;
const SWITCHES = new Set(split('on enabled active power state activated'));
const FILLERS = new Set('include includes is has have with only should show allow use want'.split(' '));

/** The values that a schema names itself, where the user says them. */
function literalCandidates(leaf: Leaf, options: FillingOptions): Candidate[] {
  const { tokens, mentions, text } = options.question;
  const spoken = tokens.flatMap(({ kind, value }, token) =>
    kind === 'sign' ? [] : wordsOf(value).map((word) => ({ word, stem: stem(word), token })),
  );
  const candidate = (value: JsonValue, at: readonly number[], fit: number): Candidate => {
    const isTarget = !leaf.required && ['as', 'to'].includes(tokens[(at[0] ?? 0) - 1]?.lower ?? '');
    const used = mentions.filter((mention) => names(mention) && at.includes(mention.first));
    return { leaf, value, tokens: at, mentions: used, fit: fit + contextFit(leaf, at, options) - (isTarget ? 1 : 0) };
  };
  if (leaf.type === 'boolean' && !leaf.schema.enum) {
    const wanted = wordsOf(leaf.path.at(-1) ?? '')
      .filter((word) => !FILLERS.has(word))
      .map(stem);
    const off = spoken.find(({ word }) => OFF.has(word));
    const on = ON.test(text) ? spoken.findLast(({ word }) => ['on', 'enable', 'activate'].includes(word)) : undefined;
    const toggled = off ?? on;
    if (wanted.some((word) => SWITCHES.has(word))) return toggled ? [candidate(toggled !== off, [toggled.token], 1.5)] : [];
    const said = wanted.filter((word) => !isStopWord(word)).map((one) => spoken.find((word) => word.stem === one)?.token);
    const at = said.filter((token) => token !== undefined);
    const first = Math.min(...at);
    const isDenied = [first - 1, first - 2].some((index) => NEGATIONS.has(tokens[index]?.lower ?? ''));
    return at.length === 0 || at.length < said.length ? [] : [candidate(!isDenied, at, 1.5)];
  }
  return (leaf.schema.enum ?? []).filter(isJson).flatMap((value) => {
    const words = value === null || !accepts(leaf.schema, value, leaf.root) ? [] : wordsOf(plainText(value));
    const starts =
      words.length === 0 ? [] : [...spoken.keys()].filter((start) => words.every((word, offset) => spoken[start + offset]?.stem === stem(word)));
    const isExact = (start: number): boolean =>
      words.every((word, offset) => spoken[start + offset]?.word.replace(/s$/, '') === word.replace(/s$/, ''));
    const fit = words.every(isStopWord) ? 0.8 : 1 + 0.5 * words.length;
    return starts.map((start) => {
      const at = range(spoken[start]?.token ?? 0, spoken[start + words.length - 1]?.token ?? 0);
      return candidate(value, at, isExact(start) ? fit : 0.6);
    });
  });
}

const MOST_ITEMS = 50;

/** A list takes the best value and everything joined to it by commas or "and". */
function listCandidates(leaf: Leaf, options: FillingOptions): Candidate[] {
  const { items, maxItems = MOST_ITEMS } = leaf.schema;
  const inner = Array.isArray(items) ? false : resolved(items, leaf.root);
  if (typeof inner === 'boolean' || ['array', 'object'].includes(typeOf(inner) ?? '')) return [];
  const one: Leaf = { ...leaf, schema: inner, type: typeOf(inner), sense: senseOf(leaf.path.at(-1) ?? '', inner) };
  const found = candidatesFor(one, options);
  const [best] = found.toSorted((a, b) => b.fit - a.fit);
  if (!best) return [];
  const joined = found.filter((other) => other === best || inner.enum || isJoined(other.mentions[0], best.mentions[0]));
  const sorted = joined.toSorted((a, b) => (a.tokens[0] ?? 0) - (b.tokens[0] ?? 0));
  const value = [...new Set(sorted.map((candidate) => candidate.value))].slice(0, maxItems);
  if (!accepts(leaf.schema, value, leaf.root)) return [];
  return [
    { leaf, value, fit: best.fit, tokens: sorted.flatMap(({ tokens }) => tokens), mentions: sorted.flatMap(({ mentions }) => mentions) },
  ];
}

function isJoined(one: Mention | undefined, other: Mention | undefined): boolean {
  return one !== undefined && one.kind === other?.kind && one.group === other.group && one.group !== -1;
}

const LEAST_REQUIRED = 0.4;
const LEAST_SOUGHT = 0.65;
const LEAST_OPTIONAL = 1.2;
const MOST_VARIANTS = 5;

/** Fills a tool's arguments from the user's words, then from the schema, then from what results hold. */
export function fillArguments(schema: Schema, options: FillingOptions): Filling {
  const leaves = leavesOf(schema).map((leaf): Leaf => (options.searches && leaf.sense === 'body' ? { ...leaf, sense: 'query' } : leaf));
  const chosen = assigned(leaves.flatMap((leaf) => candidatesFor(leaf, options).filter((candidate) => suffices(candidate, options))));
  const open = leaves.filter((leaf) => leaf.required && !chosen.some((candidate) => candidate.leaf === leaf));
  const extra = open.map((leaf) => ({ leaf, ...valuesFor(leaf, leaves, options) }));
  const several = severalOf(chosen, options) ?? extra.find(({ values }) => values.length > 1);
  const entries = [...chosen, ...extra.flatMap(({ leaf, values }) => values.slice(0, 1).map((value) => ({ leaf, value })))];
  const sorted = entries.toSorted((one, other) => leaves.indexOf(one.leaf) - leaves.indexOf(other.leaf));
  const lists = (several?.values.slice(0, MOST_VARIANTS) ?? [undefined]).map((value) =>
    sorted.map((entry) => (value !== undefined && entry.leaf === several?.leaf ? { leaf: entry.leaf, value } : entry)),
  );
  const variants = lists.map((list) => assembled(list, schema)).filter((args) => accepts(schema, args, schema));
  const missing = missingIn(extra, variants).concat(options.changes ? idle(leaves, entries) : []);
  const fits = chosen.filter(({ leaf }) => leaf.required).map(({ fit }) => Math.min(fit / 2, 1));
  const values = options.question.mentions.filter(isValue);
  const tokens = new Set(chosen.flatMap((candidate) => candidate.tokens));
  const covered = values.filter(({ first, last }) => range(first, last).some((token) => tokens.has(token)));
  return {
    variants: missing.length > 0 ? [] : variants,
    missing,
    used: chosen.flatMap(({ leaf, mentions }) => (leaf === several?.leaf && 'mentions' in several ? several.mentions : mentions)),
    quality: fits.length === 0 ? 0.5 : fits.reduce((sum, fit) => sum + fit, 0) / fits.length,
    usedShare: covered.length / Math.max(values.length, 1),
  };
}

/** What is optional needs a better reason; a search without it would find everything. */
function suffices({ leaf, fit, mentions }: Candidate, { searches }: FillingOptions): boolean {
  const isSought = mentions.some(({ kind }) => kind === 'name' || kind === 'quoted' || kind === 'object' || kind === 'phrase');
  const seeks = searches && (leaf.sense === 'query' || leaf.sense === 'name') && isSought;
  return fit >= (leaf.required ? LEAST_REQUIRED : seeks ? LEAST_SOUGHT : LEAST_OPTIONAL);
}

/** Gives each argument its best value and each value to one argument, the surest pairs first. */
function assigned(candidates: readonly Candidate[]): Candidate[] {
  const chosen: Candidate[] = [];
  const surest = candidates.toSorted((one, other) => other.fit - one.fit || Number(other.leaf.required) - Number(one.leaf.required));
  for (const candidate of surest) {
    const isTaken = chosen.some(({ leaf, tokens }) => leaf === candidate.leaf || tokens.some((token) => candidate.tokens.includes(token)));
    if (!isTaken) chosen.push(candidate);
  }
  return chosen;
}

/** When the user joined several names and one is used, the others are wanted the same way. */
function severalOf(
  chosen: readonly Candidate[],
  options: FillingOptions,
): { leaf: Leaf; values: JsonValue[]; mentions: Mention[] } | undefined {
  const used = new Set(chosen.flatMap(({ mentions }) => mentions));
  for (const {
    leaf,
    mentions: [own],
    value,
  } of chosen) {
    const isOther = ({ mentions: [other] }: Candidate): boolean => other !== undefined && !used.has(other) && isJoined(own, other);
    const others = leaf.type !== 'array' && own && names(own) ? candidatesFor(leaf, options).filter(isOther) : [];
    const values = [...new Set([value, ...others.map((other) => other.value)])];
    if (own && values.length > 1) return { leaf, values, mentions: [own, ...others.flatMap(({ mentions }) => mentions)] };
  }
  return undefined;
}

/** What a required argument gets that the user's words do not fill: the schema's own value, one from the results, the words themselves. */
function valuesFor(leaf: Leaf, leaves: readonly Leaf[], options: FillingOptions): Found {
  const { schema, root, type, sense } = leaf;
  const given: unknown[] = [
    schema.const,
    schema.default,
    schema.enum?.length === 1 ? schema.enum[0] : undefined,
    type === 'object' ? {} : undefined,
  ];
  const fixed = given.filter(isJson).find((value) => accepts(schema, value, root));
  if (fixed !== undefined) return { values: [fixed], choices: [] };
  const found = options.lookup(leaf);
  if (found.values.length > 0 || found.choices.length > 0) return found;
  const isWord = (stems: readonly string[]): boolean => stems.length > 0 && !stems.every((one) => options.vocabulary.has(one));
  const left = options.question.tokens.filter(({ kind, stems }) => kind === 'word' && isWord(stems)).map(({ value }) => value);
  const takesWords =
    left.length > 0 && (sense === 'query' || (sense === 'body' && leaves.length === 1)) && accepts(schema, left.join(' '), root);
  return { values: takesWords ? [left.join(' ')] : [], choices: [] };
}

/** Builds the arguments; a nested object that would be incomplete is left out unless it is required. */
function assembled(entries: readonly { readonly leaf: Leaf; readonly value: JsonValue }[], schema: Schema): JsonObject {
  const args = new Map<string, JsonValue>();
  for (const { leaf, value } of entries) {
    const [name = '', key] = leaf.path;
    const outer = args.get(name);
    args.set(name, key === undefined ? value : Object.fromEntries([...Object.entries(isJsonObject(outer) ? outer : {}), [key, value]]));
  }
  const isKept = ([name, value]: [string, JsonValue]): boolean =>
    (schema.required ?? []).includes(name) || accepts(schema.properties?.[name], value, schema);
  return Object.fromEntries([...args].filter(isKept));
}

function missingIn(extra: readonly ({ readonly leaf: Leaf } & Found)[], variants: readonly JsonObject[]): Missing[] {
  const unfilled = extra.filter(({ values }) => values.length === 0);
  if (unfilled.length === 0 && variants.length === 0) return [{ name: 'arguments', description: '', choices: [], findable: false }];
  return unfilled.map(({ leaf: { path, schema, sense }, choices }) => {
    const allowed = (schema.enum ?? []).slice(0, 8).map(String);
    const description = allowed.length > 0 ? `one of ${allowed.join(', ')}` : (schema.description ?? '');
    return { name: path.join('.'), description, choices, findable: sense === 'id' || sense === 'email' };
  });
}

/** An update of nothing but an id would do nothing. */
function idle(leaves: readonly Leaf[], entries: readonly { readonly leaf: Leaf }[]): Missing[] {
  const others = leaves.filter(({ sense }) => sense !== 'id');
  const isIdle = others.length > 0 && entries.every(({ leaf }) => leaf.sense === 'id') && others.every(({ required }) => !required);
  return isIdle ? [{ name: others.map(({ path }) => path.join('.')).join(' or '), description: '', choices: [], findable: false }] : [];
}
