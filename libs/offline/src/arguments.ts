import type { JsonObject, JsonValue } from '@toolloop/core';
import { isIdKey, labelOf, type Entity } from './conversation.js';
import { accepts, isJson, isJsonObject, resolved, typeOf, type Schema } from './json-schema.js';
import { dateOfWord, isValue, names, range, type Mention, type Question } from './question.js';
import { areAllMeant, chooseInstances, MOST_INSTANCES, namedFit, usedMentions, type Instance, type Situation } from './situation.js';
import type { ToolProfile } from './tools.js';
import { isPlainEnglish, isStopWord, knows, list, NEGATIONS, stem, wordsOf } from './words.js';

type Sense = 'id' | 'name' | 'place' | 'query' | 'body' | 'email' | 'url' | 'day' | 'time' | 'number' | 'other';

/** One argument that takes a value: a property, or a property of a property. */
interface Leaf {
  readonly path: readonly string[];
  readonly schema: Schema;
  readonly root: Schema;
  readonly required: boolean;
  readonly type: string | undefined;
  readonly sense: Sense;
  readonly stems: ReadonlySet<string>;
}

/** A required argument without a value, and the things among which the user has to decide. */
export interface Missing {
  readonly name: string;
  readonly description: string;
  readonly choices: readonly string[];
  /** Whether a search could bring it to light, as it could an id. */
  readonly findable: boolean;
}

/** What a tool's arguments came to. */
export interface Filling {
  /** Argument objects ready to be sent; several when the user named several values; none when something is missing. */
  readonly variants: readonly JsonObject[];
  readonly missing: readonly Missing[];
  /** What the user wrote that the arguments use, and its share of all values the user wrote. */
  readonly used: readonly Mention[];
  readonly usedShare: number;
  /** From 0 to 1, how sure the values are. */
  readonly quality: number;
}

/** Words of a property's name, the sense they give it, and the small words that announce its value; the name's last known word decides. */
const SENSES = (
  [
    ['email', 'email mail', ''],
    ['url', 'url uri link website', ''],
    ['day', 'date day birthday deadline due when', 'on for'],
    ['time', 'time', 'at'],
    ['query', 'query q search term keyword phrase question prompt topic word', 'about'],
    ['body', 'message body text content comment note reason description summary detail task todo', ''],
    ['place', 'from origin source departure start', 'from between since'],
    ['place', 'to destination target arrival end until', 'to into until and'],
    ['place', 'city location place country address town region room area airport zone timezone', 'in at near'],
    ['name', 'name title label person user owner author contact company brand team customer recipient employee member guest', ''],
    ['other', 'ingredient', 'with'],
    ['number', 'min minimum', 'over above least minimum'],
    ['number', 'max maximum', 'under below most maximum'],
    ['number', 'limit count top size', 'top first last latest recent limit'],
    ['number', 'quantity amount unit', 'add order buy put reorder'],
  ] as const
).map(([sense, about, cues]) => ({ sense, about: new Set(list(about).map(stem)), cues: list(cues) }));
const FORMAT_SENSES: Readonly<Record<string, Sense>> = {
  email: 'email',
  uri: 'url',
  date: 'day',
  'date-time': 'day',
  time: 'time',
  uuid: 'id',
};

function senseOf(name: string, schema: Schema): Sense {
  const byFormat = FORMAT_SENSES[schema.format ?? ''];
  if (byFormat || isIdKey(name)) return byFormat ?? 'id';
  if (typeOf(schema) === 'number' || typeOf(schema) === 'integer') return 'number';
  const words = wordsOf(name).toReversed().map(stem);
  return words.flatMap((word) => SENSES.find(({ about }) => about.has(word))?.sense ?? [])[0] ?? 'other';
}

/** The arguments of a tool, one level of nested objects opened. */
function leavesOf(root: Schema, schema = root, outer: readonly string[] = [], isRequired = true): Leaf[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, node]): Leaf[] => {
    const found = resolved(node, root);
    if (typeof found === 'boolean') return [];
    const path = [...outer, name];
    const required = isRequired && (schema.required ?? []).includes(name);
    if (outer.length === 0 && typeOf(found) === 'object' && found.properties) return leavesOf(root, found, path, required);
    const stems = new Set(wordsOf(path.join(' ')).map(stem));
    return [{ path, schema: found, root, required, type: typeOf(found), sense: senseOf(name, found), stems }];
  });
}

/** A tool, what is known, and the thing it is bound to. */
interface Scope {
  readonly profile: ToolProfile;
  readonly situation: Situation;
  /** Texts, in lower case, that only say which instance is meant. */
  readonly instanceNames: ReadonlySet<string>;
  /** What earlier calls used already. */
  readonly spent: readonly Mention[];
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
function candidatesFor(leaf: Leaf, scope: Scope): Candidate[] {
  if (leaf.type === 'array') return listCandidates(leaf, scope);
  if (leaf.schema.enum || leaf.type === 'boolean') return literalCandidates(leaf, scope);
  return mentionsFor(leaf, scope).flatMap((mention): Candidate[] => {
    const base = baseFit(leaf, mention, scope.situation.question);
    const value = base > 0 && isFree(mention, leaf, scope) ? formOf(leaf, mention, scope.situation.today) : undefined;
    const tokens = range(mention.first, mention.last);
    return value === undefined ? [] : [{ leaf, value, tokens, mentions: [mention], fit: base + contextFit(leaf, tokens, scope) }];
  });
}

/** With a pattern any word may be a value. */
function mentionsFor({ schema }: Leaf, { situation: { question }, profile: { stems: own } }: Scope): readonly Mention[] {
  if (schema.pattern === undefined) return question.mentions;
  const words = question.tokens.flatMap(({ kind, lower, value, stems }, index): Mention[] => {
    const isPlain = kind !== 'word' || isPlainEnglish(lower) || stems.some((one) => own.method.has(one) || own.description.has(one));
    return isPlain ? [] : [{ kind: 'object', value, first: index, last: index, group: -1 }];
  });
  return [...question.mentions, ...words];
}

/** A name that led to the instance is no argument, and what was searched for is no optional text. */
function isFree(mention: Mention, { sense, required }: Leaf, { instanceNames, spent }: Scope): boolean {
  if (isValue(mention) && !names(mention)) return true;
  const isText = sense === 'body' || sense === 'query' || sense === 'other';
  return !instanceNames.has(mention.value.toLowerCase()) && !(isText && !required && spent.includes(mention));
}

const NO_TEXT = { id: 0, email: 0, url: 0, day: 0, time: 0 } as const;
/** How well each kind of mention suits each sense; 0 is never. */
const FITS: Readonly<Record<Mention['kind'], Partial<Record<Sense, number>> & { readonly otherwise: number }>> = {
  quoted: { id: 0.8, day: 0.2, otherwise: 1.5 },
  name: { ...NO_TEXT, name: 1.3, place: 1.2, query: 0.9, body: 0.3, day: 0.1, otherwise: 0.6 },
  phrase: { ...NO_TEXT, name: 0.95, place: 0.9, query: 0.8, day: 0.1, otherwise: 0.5 },
  object: { ...NO_TEXT, name: 0.7, place: 0.7, query: 0.7, body: 0.6, otherwise: 0.45 },
  id: { ...NO_TEXT, id: 1.5, query: 0.6, name: 0.5, body: 0.2, url: 0.5, otherwise: 0.4 },
  email: { ...NO_TEXT, email: 2, query: 0.6, name: 0.5, otherwise: 0.4 },
  url: { ...NO_TEXT, url: 2, otherwise: 0.4 },
  date: { ...NO_TEXT, day: 2, time: 1, otherwise: 0.2 },
  time: { ...NO_TEXT, time: 2, otherwise: 0.2 },
  day: { ...NO_TEXT, day: 1.2, time: 1, otherwise: 0.2 },
  number: { ...NO_TEXT, number: 0.8, id: 0.7, otherwise: 0.15 },
  rest: { ...NO_TEXT, body: 1.2, query: 0.3, place: 0, otherwise: 0.1 },
};

/** What is quoted behind "saying" is told to somebody, not looked for; what follows "because" is a reason. */
function baseFit({ sense, stems, schema }: Leaf, { kind, value, first }: Mention, { tokens, mentions }: Question): number {
  const fit = FITS[kind][sense] ?? FITS[kind].otherwise;
  if (kind === 'rest' && tokens[first - 1]?.lower === 'because') return stems.has('reason') || stems.has('note') ? fit : 0;
  const isTold = mentions.some(
    (rest) => rest.kind === 'rest' && rest.first <= first && mentions.some((one) => names(one) && one.first < rest.first),
  );
  if (kind === 'quoted' && (isTold || (sense === 'id' && value.includes(' ')))) return sense === 'body' ? fit + 0.5 : 0;
  return schema.pattern === undefined ? fit : Math.max(fit, 0.5) + 1;
}

/** The likeliest form of a mention that an argument's schema accepts. */
function formOf({ schema, type, root }: Leaf, { kind, value }: Mention, today: string | undefined): JsonValue | undefined {
  const date = (kind === 'day' && today !== undefined ? dateOfWord(value, today) : undefined) ?? value;
  const cased = schema.pattern === undefined ? [] : [value.toUpperCase(), value.toLowerCase()];
  const isNumber = type === 'number' || type === 'integer';
  const forms: readonly JsonValue[] = isNumber
    ? kind === 'number' || kind === 'id'
      ? [Number(value)]
      : []
    : [date, `${date}T00:00:00Z`, `${value}:00Z`, value, ...cased];
  return forms.find((form) => isJson(form) && type !== 'object' && accepts(schema, form, root));
}

const CONNECTORS = new Set(list('is are of = : number no # the a an named called titled id to as with exactly'));
const LIMITS = ['limit', 'top', 'count', 'size'];

/** What the words around a value say for an argument: its own name beside it, a small word that announces it, what it counts. */
function contextFit({ stems, sense, required, type }: Leaf, at: readonly number[], { situation, profile }: Scope): number {
  const {
    question: { tokens },
    vocabulary,
  } = situation;
  const [first = -1, last = first] = [at[0], at.at(-1)];
  if (!tokens[first]) return 0;
  const meets = (index: number): boolean => tokens[index]?.stems.some((one) => stems.has(one)) ?? false;
  let index = first - 1;
  while (CONNECTORS.has(tokens[index]?.lower ?? '') && !meets(index)) index -= 1;
  const cues = SENSES.filter(({ about }) => [...stems].some((one) => about.has(one))).flatMap((row) => row.cues);
  const isTarget =
    ['to', 'as', 'at', '='].includes(tokens[first - 1]?.lower ?? '') && tokens.some((_, where) => !at.includes(where) && meets(where));
  const isOtherKind = sense === 'id' && stems.size > 1 && !meets(index) && tokens[index]?.stems.some((one) => vocabulary.has(one)) === true;
  const counted =
    tokens[first].kind === 'number' ? tokens.slice(first + 1, first + 4).find(({ lower }) => /[^s]s$/.test(lower)) : undefined;
  const isOtherCount =
    counted !== undefined &&
    !required &&
    LIMITS.some((word) => stems.has(word)) &&
    !counted.stems.some((one) => knows(profile.stems.all, one) > 0);
  const before =
    (meets(index) ? 2 : 0) +
    ([first - 1, first - 2].some((near) => cues.includes(tokens[near]?.lower ?? '')) ? 1.2 : 0) +
    (isTarget ? 1.2 : 0);
  const after = meets(last + 1) ? (type === 'number' || type === 'integer' ? 1.5 : 0.5) : 0;
  return before + after - (isOtherKind || (counted && sense === 'id') ? 1 : 0) - (isOtherCount ? 2 : 0);
}

/** The values that a schema names itself, where the user says them: an enum's, or a boolean's by its name, by "on" or by "off". */
function literalCandidates(leaf: Leaf, scope: Scope): Candidate[] {
  const { schema, root, required, stems } = leaf;
  const { tokens, mentions } = scope.situation.question;
  const spoken = tokens.flatMap(({ kind, value }, token) =>
    kind === 'sign' ? [] : wordsOf(value).map((word) => ({ stem: stem(word), token })),
  );
  const said = (words: readonly string[], value: JsonValue, fit: number): Candidate[] => {
    const start = spoken.findIndex((_, from) => words.every((word, offset) => spoken[from + offset]?.stem === stem(word)));
    const at = start < 0 || words.length === 0 ? [] : range(spoken[start]?.token ?? 0, spoken[start + words.length - 1]?.token ?? 0);
    const isTarget = !required && ['as', 'to'].includes(tokens[(at[0] ?? 0) - 1]?.lower ?? '');
    const used = mentions.filter((mention) => names(mention) && at.includes(mention.first));
    return at.length === 0
      ? []
      : [{ leaf, value, tokens: at, mentions: used, fit: fit + contextFit(leaf, at, scope) - (isTarget ? 1 : 0) }];
  };
  if (schema.enum) {
    const values = schema.enum.filter(isJson).filter((value) => value !== null && accepts(schema, value, root));
    return values.flatMap((value) => said(wordsOf(String(value)), value, wordsOf(String(value)).every(isStopWord) ? 0.8 : 1.5));
  }
  if (['on', 'enabl', 'activ'].some((one) => stems.has(one))) return [...said(['off'], false, 1.5), ...said(['on'], true, 1)];
  const candidates = said(
    wordsOf(leaf.path.at(-1) ?? '').filter((word) => word !== 'is' && word !== 'in' && word !== 'has'),
    true,
    1.5,
  );
  const isDenied = ({ tokens: [first = 0] }: Candidate): boolean =>
    [first - 1, first - 2].some((near) => NEGATIONS.has(tokens[near]?.lower ?? ''));
  return candidates.map((candidate) => (isDenied(candidate) ? { ...candidate, value: false } : candidate));
}

/** A list takes the best value and everything joined to it by commas or "and". */
function listCandidates(leaf: Leaf, scope: Scope): Candidate[] {
  const { items, maxItems = Infinity } = leaf.schema;
  const inner = Array.isArray(items) ? false : resolved(items, leaf.root);
  if (typeof inner === 'boolean' || ['array', 'object'].includes(typeOf(inner) ?? '')) return [];
  const found = candidatesFor({ ...leaf, schema: inner, type: typeOf(inner), sense: senseOf(leaf.path.at(-1) ?? '', inner) }, scope);
  const [best] = found.toSorted((one, other) => other.fit - one.fit);
  const taken = found.filter((one) => one === best || inner.enum || isJoined(one.mentions[0], best?.mentions[0]));
  const value = [...new Set(taken.map((one) => one.value))].slice(0, maxItems);
  if (!best || !accepts(leaf.schema, value, leaf.root)) return [];
  return [
    { leaf, value, fit: best.fit, tokens: taken.flatMap(({ tokens }) => tokens), mentions: taken.flatMap(({ mentions }) => mentions) },
  ];
}

function isJoined(one: Mention | undefined, other: Mention | undefined): boolean {
  return one !== undefined && one.kind === other?.kind && one.group === other.group && one.group !== -1;
}

/** Fills a tool's arguments from the user's words, then from the schema, then from what results hold. */
export function fillArguments(profile: ToolProfile, instance: Instance, situation: Situation): Filling {
  const { question, conversation } = situation;
  const schema = profile.spec.inputSchema;
  const instanceNames = new Set(profile.instanceId === undefined ? [] : [instance.id.toLowerCase(), ...(instance.entity?.texts ?? [])]);
  const scope: Scope = { profile, situation, instanceNames, spent: usedMentions(question.mentions, conversation.calls) };
  const searches = profile.isReadOnly && profile.isSearch;
  const leaves = leavesOf(schema).map((leaf): Leaf => (searches && leaf.sense === 'body' ? { ...leaf, sense: 'query' } : leaf));
  const chosen = assigned(
    leaves.flatMap((leaf) => candidatesFor(leaf, scope).filter((candidate) => candidate.fit >= leastFit(candidate, searches))),
  );
  const open = leaves.filter((leaf) => leaf.required && !chosen.some((candidate) => candidate.leaf === leaf));
  const extra = open.map((leaf) => ({ leaf, ...valuesFor(leaf, scope) }));
  const several = severalOf(chosen, scope) ?? extra.find(({ values }) => values.length > 1);
  const entries = [...chosen, ...extra.flatMap(({ leaf, values }) => values.slice(0, 1).map((value) => ({ leaf, value })))];
  const sorted = entries.toSorted((one, other) => leaves.indexOf(one.leaf) - leaves.indexOf(other.leaf));
  const swapped = (value: JsonValue): Entry[] =>
    sorted.map((entry) => (entry.leaf === several?.leaf ? { leaf: entry.leaf, value } : entry));
  const lists = several?.values.slice(0, MOST_INSTANCES).map(swapped) ?? [sorted];
  const variants = lists.map((entry) => assembled(entry, schema)).filter((args) => accepts(schema, args, schema));
  const missing = extra.filter(({ values }) => values.length === 0).map(missingOf);
  if (missing.length === 0 && variants.length === 0) missing.push({ name: 'arguments', description: '', choices: [], findable: false });
  const fits = chosen.filter(({ leaf }) => leaf.required).map(({ fit }) => Math.min(fit / 2, 1));
  const values = question.mentions.filter(isValue);
  const covered = values.filter(({ first }) => chosen.some(({ tokens }) => tokens.includes(first)));
  return {
    variants: missing.length > 0 ? [] : variants,
    missing,
    used: [...chosen.flatMap(({ mentions }) => mentions), ...(several && 'mentions' in several ? several.mentions : [])],
    usedShare: covered.length / Math.max(values.length, 1),
    quality: fits.length === 0 ? 0.5 : fits.reduce((sum, fit) => sum + fit, 0) / fits.length,
  };
}

/** What is optional needs a better reason; a search without it would find everything. */
function leastFit({ leaf, mentions }: Candidate, searches: boolean): number {
  if (leaf.required) return 0.4;
  const isSought = mentions.some(({ kind }) => ['name', 'quoted', 'object', 'phrase'].includes(kind));
  return searches && isSought && (leaf.sense === 'query' || leaf.sense === 'name') ? 0.65 : 1.2;
}

/** Gives each argument its best value and each value to one argument, the surest pairs first. */
function assigned(candidates: readonly Candidate[]): Candidate[] {
  const chosen: Candidate[] = [];
  for (const candidate of candidates.toSorted(
    (one, other) => other.fit - one.fit || Number(other.leaf.required) - Number(one.leaf.required),
  )) {
    const isTaken = chosen.some(({ leaf, tokens }) => leaf === candidate.leaf || tokens.some((token) => candidate.tokens.includes(token)));
    if (!isTaken) chosen.push(candidate);
  }
  return chosen;
}

/** When the user joined several names and one is used, the others are wanted the same way. */
function severalOf(chosen: readonly Candidate[], scope: Scope): { leaf: Leaf; values: JsonValue[]; mentions: Mention[] } | undefined {
  const used = new Set(chosen.flatMap(({ mentions }) => mentions));
  return chosen.flatMap(({ leaf, mentions: [own], value }) => {
    const others = leaf.type !== 'array' && own && names(own) ? candidatesFor(leaf, scope) : [];
    const joined = others.filter(({ mentions: [other] }) => other !== undefined && !used.has(other) && isJoined(own, other));
    const values = [...new Set([value, ...joined.map((other) => other.value)])];
    return values.length > 1 ? [{ leaf, values, mentions: joined.flatMap(({ mentions }) => mentions) }] : [];
  })[0];
}

/** Values for an argument from elsewhere, or the things among which nothing decides. */
interface Found extends Pick<Missing, 'choices'> {
  readonly values: readonly JsonValue[];
}

/** What a required argument gets that the user's words do not fill: the schema's own value, one from the results, for a search the words themselves. */
function valuesFor(leaf: Leaf, scope: Scope): Found {
  const { schema, root, type, sense } = leaf;
  const given: unknown[] = [
    schema.const,
    schema.default,
    schema.enum?.length === 1 ? schema.enum[0] : undefined,
    type === 'object' ? {} : undefined,
  ];
  const fixed = given.filter(isJson).find((value) => accepts(schema, value, root));
  if (fixed !== undefined) return { values: [fixed], choices: [] };
  const found = lookUp(leaf, scope);
  const { question, vocabulary } = scope.situation;
  const isWord = (stems: readonly string[]): boolean => stems.length > 0 && !stems.every((one) => vocabulary.has(one));
  const left = question.tokens
    .filter(({ kind, stems }) => kind === 'word' && isWord(stems))
    .map(({ value }) => value)
    .join(' ');
  const takesWords = sense === 'query' && found.values.length + found.choices.length === 0 && left !== '' && accepts(schema, left, root);
  return takesWords ? { values: [left], choices: [] } : found;
}

interface FoundValue extends Instance {
  readonly entity: Entity;
  readonly field: Entity['fields'][number];
}

/**
 * Fills an argument from the objects in results. A result never chooses a tool; here it gives ids of what the user means, and other fields only to
 * tools that read and carry nothing out, or the address of somebody the user named.
 */
function lookUp({ sense, stems, schema, root, type }: Leaf, { profile, situation }: Scope): Found {
  if (type === 'array' || type === 'object' || type === 'boolean') return { values: [], choices: [] };
  const isHarmless = profile.isReadOnly && !profile.spec.labels.egress;
  const all = situation.entities.flatMap((entity) =>
    entity.fields.map((field): FoundValue => ({ entity, field, id: String(field.value) })),
  );
  const kind = [...stems].filter((word) => !isIdKey(word));
  const fits = (found: FoundValue): boolean => {
    const { field, entity } = found;
    if (sense === 'id')
      return isIdKey(field.key) && (kind.length > 0 ? isOfKind(kind, found, situation) : entity.call === situation.entities.at(-1)?.call);
    const isField = [...stems].every((word) => field.stems.includes(word)) || (sense === 'email' && field.stems.includes('email'));
    return isField && (isHarmless || (sense === 'email' && namedFit(entity, situation) >= 0.8));
  };
  const accepted = all.filter((found) => accepts(schema, found.field.value, root) && fits(found));
  const plainFirst = accepted.toSorted((one, other) => Number(other.field.key === 'id') - Number(one.field.key === 'id'));
  const picked = chooseInstances(
    plainFirst.filter(({ id }, index) => plainFirst.findIndex((one) => one.id === id) === index),
    situation,
  );
  if (picked.length > 1 && !isHarmless && !areAllMeant(picked, situation.question)) return { values: [], choices: picked.map(choiceName) };
  return { values: picked.slice(0, MOST_INSTANCES).map(({ field }) => field.value), choices: [] };
}

/** Whether an id is of the kind its argument's name asks for: by its own key, or by the tool whose result held it. */
function isOfKind(kind: readonly string[], { field, entity }: FoundValue, { profiles }: Situation): boolean {
  const known = new Set([...(profiles.get(entity.call.name)?.stems.all ?? []), ...field.stems]);
  return kind.every((word) => (field.stems.length > 1 ? field.stems.includes(word) : knows(known, word) > 0));
}

/** An instance as a person can tell it from others. */
export function choiceName({ id, entity }: Instance): string {
  const label = entity ? labelOf(entity.data) : undefined;
  return label === undefined || label === id ? id : `${label} (${id})`;
}

type Entry = Pick<Candidate, 'leaf' | 'value'>;

/** Builds the arguments; a nested object that would be incomplete is left out unless it is required. */
function assembled(entries: readonly Entry[], schema: Schema): JsonObject {
  const args: Record<string, JsonValue> = {};
  for (const {
    leaf: {
      path: [name = '', key],
    },
    value,
  } of entries) {
    const outer = args[name];
    args[name] = key === undefined ? value : { ...(isJsonObject(outer) ? outer : {}), [key]: value };
  }
  const isKept = ([name, value]: [string, JsonValue]): boolean =>
    (schema.required ?? []).includes(name) || accepts(schema.properties?.[name], value, schema);
  return Object.fromEntries(Object.entries(args).filter(isKept));
}

function missingOf({ leaf: { path, schema, sense }, choices }: { readonly leaf: Leaf } & Found): Missing {
  const allowed = (schema.enum ?? []).slice(0, 8).map(String).join(', ');
  return {
    name: path.join('.'),
    description: allowed ? `one of ${allowed}` : (schema.description ?? ''),
    choices,
    findable: sense === 'id' || sense === 'email',
  };
}
