import type { JsonObject, JsonValue } from '@toolloop/core';
import { isIdKey, labelOf, type Entity } from './conversation.js';
import { accepts, isJson, resolved, typeOf, type Schema } from './json-schema.js';
import { dateOfWord, isValue, names, range, type Mention, type Question } from './question.js';
import { areAllMeant, chooseInstances, MOST_INSTANCES, type Instance, type Situation } from './situation.js';
import type { ToolProfile } from './tools.js';
import { knows, list, NEGATIONS, pairs, stem, wordsOf } from './words.js';

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
  'other | ingredient | with',
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

const OWN_SENSES = pairs('email:email url:url date:day day:day time:time id:id number:number');
const TEXT_FITS = pairs('quoted:1.5 name:1.3 phrase:0.95 object:0.7 id:0.5 email:0.5 day:0.4');

/** How well a mention suits an argument by their kinds; what is quoted behind "saying" is told to somebody, not looked for. */
function fitOf({ sense, schema, cues }: Leaf, { kind, value, first }: Mention, { tokens, mentions }: Question): number {
  const patterned = schema.pattern === undefined ? 0 : 1;
  if (kind === 'rest') return sense !== 'body' || (tokens[first - 1]?.lower === 'because' && !cues.includes('because')) ? 0 : 1.2;
  if (OWN_SENSES.get(kind) === sense) return (kind === 'number' ? 0.8 : 1.5) + patterned;
  if (sense === 'id') return patterned || (kind === 'number' ? 0.7 : kind === 'quoted' && !value.includes(' ') ? 0.8 : 0);
  if (['email', 'url', 'day', 'time', 'number'].includes(sense)) return kind === 'id' && sense === 'number' ? 0.3 : 0;
  const rest = mentions.find((other) => other.kind === 'rest' && other.first <= first);
  const isTold = kind === 'quoted' && rest !== undefined && mentions.some((other) => names(other) && other.first < rest.first);
  const isWeak = (sense === 'body' && kind !== 'quoted') || sense === 'other';
  return (isTold ? (sense === 'body' ? 2 : 0) : Number(TEXT_FITS.get(kind) ?? 0.15) * (isWeak && kind !== 'object' ? 0.5 : 1)) + patterned;
}

/** What a mention can stand for. */
function formsOf({ type, schema }: Leaf, { kind, value }: Mention, today: string | undefined): JsonValue[] {
  if (type === 'object' || type === 'array') return [];
  if (type === 'number' || type === 'integer') return kind === 'number' || kind === 'id' ? [Number(value)].filter(Number.isFinite) : [];
  const date = (kind === 'day' && today !== undefined ? dateOfWord(value, today) : undefined) ?? value;
  return [date, `${date}T00:00:00Z`, `${value}:00Z`]
    .slice(0, schema.format ? 3 : 1)
    .concat(value, schema.pattern ? value.toUpperCase() : value);
}

const CONNECTORS = new Set(list('is are of = : number no # the a an named called titled id to as with exactly'));

/** What the words around a value say for an argument: its own name beside it, a small word that announces it, what it counts. */
function contextFit({ stems, sense, required, type, cues }: Leaf, at: readonly number[], { situation, profile }: Scope): number {
  const { tokens } = situation.question;
  const [first = -1, last = first] = [at[0], at.at(-1)];
  const lower = (index: number): string => tokens[index]?.lower ?? '';
  const meets = (index: number): boolean => tokens[index]?.stems.some((one) => stems.includes(one)) ?? false;
  let index = first - 1;
  while (CONNECTORS.has(lower(index)) && !meets(index)) index -= 1;
  const isTarget = ['to', 'as', '='].includes(lower(first - 1)) && tokens.some((_, where) => !at.includes(where) && meets(where));
  const isOtherKind =
    sense === 'id' && stems.length > 1 && !meets(index) && tokens[index]?.stems.some((one) => situation.vocabulary.has(one));
  const counted =
    tokens[first]?.kind === 'number' ? tokens.slice(last + 1, last + 4).find((token) => /[^s]s$/.test(token.lower)) : undefined;
  const isOtherCount = !required && counted && cues.includes('limit') && !counted.stems.some((one) => knows(profile.stems.all, one) > 0);
  const fits = [
    meets(index) ? 2 : 0,
    cues.includes(lower(first - 1)) || cues.includes(lower(first - 2)) ? 1.2 : 0,
    isTarget ? 1.2 : 0,
    meets(last + 1) ? (EXACT.has(type ?? '') ? 1.5 : 0.5) : 0,
    isOtherKind || (counted && sense === 'id') ? -1 : 0,
    isOtherCount ? -2 : 0,
  ];
  return fits.reduce((sum, fit) => sum + fit, 0);
}

/** The values that a schema names itself, where the user says them: an enum's, or a boolean's by its name, by "on" or by "off". */
function literalCandidates(leaf: Leaf, scope: Scope): Candidate[] {
  const { schema, root, required, stems } = leaf;
  const { tokens, mentions } = scope.situation.question;
  const spoken = tokens.flatMap(({ value }, token) => wordsOf(value).map((word) => ({ stem: stem(word), token })));
  const said = (text: string, value: JsonValue, least = 1.5): Candidate[] => {
    const wanted = wordsOf(text).map(stem);
    const fit = least + wanted.length / 10;
    const start =
      wanted.length === 0 ? -1 : spoken.findIndex((_, from) => wanted.every((word, offset) => spoken[from + offset]?.stem === word));
    if (start < 0 || !accepts(schema, value, root)) return [];
    const at = range(spoken[start]?.token ?? 0, spoken[start + wanted.length - 1]?.token ?? 0);
    const isTarget = !required && ['as', 'to'].includes(tokens[(at[0] ?? 0) - 1]?.lower ?? '');
    const used = mentions.filter((mention) => names(mention) && at.includes(mention.first));
    return [{ leaf, value, tokens: at, mentions: used, fit: fit + contextFit(leaf, at, scope) - (isTarget ? 1 : 0) }];
  };
  if (schema.enum) return schema.enum.filter(isJson).flatMap((value) => said(String(value), value));
  if (stems.includes('on') || stems.includes('enabl')) return [...said('off', false), ...said('on', true, 1)];
  const isDenied = ({ tokens: [first = 0] }: Candidate): boolean =>
    tokens.slice(Math.max(0, first - 2), first).some(({ lower }) => NEGATIONS.has(lower));
  const named = said(leaf.name.replace(/^(?:is|in|has|only|include)(?=[A-Z])/, ''), true);
  return named.map((candidate) => ({ ...candidate, value: !isDenied(candidate) }));
}

function isJoined(one: Mention | undefined, other: Mention | undefined): boolean {
  return one !== undefined && one.kind === other?.kind && one.group === other.group && one.group !== -1;
}

/** Fills a tool's arguments from the user's words, then from the schema, then from what results hold. */
export function fillArguments(profile: ToolProfile, { id, entity }: Instance, situation: Situation): Filling {
  const root = profile.spec.inputSchema;
  const scope: Scope = {
    profile,
    situation,
    instanceNames: profile.instanceId === undefined ? [] : [id.toLowerCase(), ...(entity?.texts ?? [])],
  };
  const searches = profile.isReadOnly && profile.isSearch;
  const leaves = Object.entries(root.properties ?? {}).flatMap(([name, node]): Leaf[] => {
    const schema = resolved(node, root);
    const leaf = typeof schema === 'boolean' ? undefined : leafOf(name, schema, root);
    return leaf ? [searches && leaf.sense === 'body' ? { ...leaf, sense: 'query' } : leaf] : [];
  });
  const chosen = assigned(leaves.flatMap((leaf) => candidatesFor(leaf, scope)).filter((one) => one.fit >= leastFit(one, searches)));
  const open = leaves.filter((leaf) => leaf.required && !chosen.some((one) => one.leaf === leaf));
  const extra = open.map((leaf) => ({ leaf, mentions: [], ...valuesFor(leaf, scope) }));
  const several = severalOf(chosen, scope) ?? extra.find(({ values }) => values.length > 1);
  const valueOf = (leaf: Leaf): JsonValue | undefined =>
    chosen.find((one) => one.leaf === leaf)?.value ?? extra.find((one) => one.leaf === leaf)?.values[0];
  const variants = (several?.values.slice(0, MOST_INSTANCES) ?? [undefined]).map((value): JsonObject => {
    const entries = leaves.map((leaf) => [leaf.name, leaf === several?.leaf ? value : valueOf(leaf)] as const);
    return Object.fromEntries(entries.flatMap(([name, one]) => (one === undefined ? [] : [[name, one]])));
  });
  const valid = variants.filter((args) => accepts(root, args, root));
  const missing = extra.filter(({ values }) => values.length === 0).map(missingOf);
  if (missing.length === 0 && valid.length === 0) missing.push({ name: 'arguments', description: '', choices: [], findable: false });
  const fits = chosen.filter(({ leaf }) => leaf.required).map(({ fit }) => Math.min(fit / 2, 1));
  const values = situation.question.mentions.filter(isValue);
  return {
    variants: missing.length > 0 ? [] : valid,
    missing,
    used: [...chosen.flatMap(({ mentions }) => mentions), ...(several?.mentions ?? [])],
    usedShare: values.filter(({ first }) => chosen.some(({ tokens }) => tokens.includes(first))).length / Math.max(values.length, 1),
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

/** Values for an argument from elsewhere, or the things among which nothing decides. */
interface Found extends Pick<Missing, 'choices'> {
  readonly values: readonly JsonValue[];
}

/** What a required argument gets that the user's words do not fill: the schema's own value, else one from the results. */
function valuesFor(leaf: Leaf, scope: Scope): Found {
  const { schema, root } = leaf;
  const given: unknown[] = [schema.const, schema.default, schema.enum?.length === 1 ? schema.enum[0] : undefined];
  const fixed = given.filter(isJson).find((value) => accepts(schema, value, root));
  return fixed === undefined ? lookUp(leaf, scope) : { values: [fixed], choices: [] };
}

interface FoundValue extends Instance {
  readonly entity: Entity;
  readonly field: Entity['fields'][number];
}

/**
 * Fills an argument from the objects in results. A result never chooses a tool; here it gives ids of what the user means, and other fields only to
 * tools that read and carry nothing out.
 */
function lookUp({ sense, stems, schema, root }: Leaf, { profile, situation }: Scope): Found {
  const { entities, profiles, question } = situation;
  const isHarmless = profile.isReadOnly && !profile.spec.labels.egress;
  const kind = stems.filter((word) => !isIdKey(word));
  const fits = ({ field, entity }: FoundValue): boolean => {
    const isField = stems.every((word) => field.stems.includes(word));
    if (sense !== 'id') return isField && isHarmless;
    const known = new Set([...(profiles.get(entity.call.name)?.stems.all ?? []), ...field.stems]);
    const isOfKind = field.stems.length > 1 ? isField : kind.every((word) => knows(known, word) > 0);
    return isIdKey(field.key) && (kind.length > 0 ? isOfKind : entity.call === entities.at(-1)?.call);
  };
  const all = entities.flatMap((entity) => entity.fields.map((field): FoundValue => ({ entity, field, id: String(field.value) })));
  const accepted = all.filter((found) => accepts(schema, found.field.value, root) && fits(found));
  const plainFirst = accepted.toSorted((one, other) => Number(other.field.key === 'id') - Number(one.field.key === 'id'));
  const distinct = plainFirst.filter(({ id }, index) => plainFirst.findIndex((one) => one.id === id) === index);
  const picked = chooseInstances(distinct, situation);
  if (picked.length > 1 && !isHarmless && !areAllMeant(picked, question)) return { values: [], choices: picked.map(choiceName) };
  return { values: picked.map(({ field }) => field.value), choices: [] };
}

/** An instance as a person can tell it from others. */
export function choiceName({ id, entity }: Instance): string {
  const label = entity ? labelOf(entity.data) : undefined;
  return label === undefined || label === id ? id : `${label} (${id})`;
}

function missingOf({ leaf, choices }: { readonly leaf: Leaf } & Found): Missing {
  const { name, schema, sense } = leaf;
  const description = schema.enum ? `one of ${schema.enum.map(String).join(', ')}` : (schema.description ?? '');
  return { name, description, choices, findable: sense === 'id' || sense === 'email' };
}
