import type { JsonObject, JsonValue } from '@toolloop/core';
import { candidatesFor, type Candidate, type FillingOptions } from './argument.candidates.js';
import { leavesOf, type Leaf } from './argument.leaves.js';
import { assembled, fixedValue, type Entry } from './argument.assembly.js';
import type { Schema } from './json.js';
import { isVocabulary } from './names.js';
import { isValue, names, range, type Mention, type MentionKind } from './question.reader.js';
import { accepts } from './schema.check.js';

/** What a tool's arguments came to. */
export interface Filling {
  /** Argument objects ready to be sent; several when the user named several values; none when something is missing. */
  readonly variants: readonly JsonObject[];
  readonly missing: readonly Missing[];
  /** What the user wrote that the arguments use. */
  readonly used: readonly Mention[];
  /** From 0 to 1, how sure the values are. */
  readonly quality: number;
  /** Share of the values in the user's words that the arguments use, from 0 to 1. */
  readonly usedShare: number;
}

/** A required argument without a value, and the things among which the user has to decide. */
export interface Missing {
  readonly name: string;
  readonly description: string;
  readonly choices: readonly string[];
  /** Whether a search could bring it to light, as it could an id. */
  readonly findable: boolean;
}

/** Values for an argument from elsewhere, or the things among which nothing decides. */
export interface Found {
  readonly values: readonly JsonValue[];
  readonly choices: readonly string[];
}

export interface FillerOptions extends FillingOptions {
  /** Looks up an argument that the user's words do not fill. */
  readonly lookup: (leaf: Leaf) => Found;
  /** The tool changes what it is given, so that it needs something to change. */
  readonly changes: boolean;
  /** A search takes a text as what to look for. */
  readonly searches: boolean;
}

const LEAST_REQUIRED = 0.4;
const LEAST_SOUGHT = 0.65;
const LEAST_OPTIONAL = 1.2;
const SOUGHT: ReadonlySet<MentionKind> = new Set(['name', 'quoted', 'object']);
const MOST_VARIANTS = 5;

/** Fills a tool's arguments from the user's words, then from what results hold, then from the schema. */
export function fillArguments(schema: Schema, options: FillerOptions): Filling {
  const leaves = leavesOf(schema).map((leaf) => (options.searches && leaf.sense === 'body' ? searched(leaf) : leaf));
  const chosen = assign(leaves.flatMap((leaf) => candidatesFor(leaf, options).filter((candidate) => suffices(candidate, options))));
  const open = leaves.filter((leaf) => leaf.required && !chosen.some((candidate) => candidate.leaf === leaf));
  const extra = open.map((leaf): Extra => ({ leaf, found: valuesFor(leaf, leaves, options) }));
  const several = severalOf(chosen, extra, options);
  const entries = entriesOf(leaves, chosen, extra);
  const lists = several ? several.values.map((value) => withValue(entries, several.leaf, value)) : [entries];
  const variants = lists.map((list) => assembled(list, schema)).filter((args) => accepts(schema, args, schema));
  const missing = missingOf(extra, variants).concat(options.changes ? idle(leaves, entries) : []);
  return {
    variants: missing.length > 0 ? [] : variants,
    missing,
    used: [...chosen.flatMap(({ mentions }) => mentions), ...(several?.mentions ?? [])],
    quality: qualityOf(chosen),
    usedShare: usedShareOf(chosen, options),
  };
}

function searched(leaf: Leaf): Leaf {
  return { ...leaf, sense: 'query' };
}

/** What is optional needs a better reason; a search without it would find everything. */
function suffices({ leaf, fit, mentions }: Candidate, { searches }: FillerOptions): boolean {
  const seeks = searches && (leaf.sense === 'query' || leaf.sense === 'name') && mentions.some(({ kind }) => SOUGHT.has(kind));
  return fit >= (leaf.required ? LEAST_REQUIRED : seeks ? LEAST_SOUGHT : LEAST_OPTIONAL);
}

/** Gives each argument its best value and each value to one argument, the surest pairs first. */
function assign(candidates: readonly Candidate[]): Candidate[] {
  const chosen: Candidate[] = [];
  const taken = new Set<number>();
  const surestFirst = candidates.toSorted((one, other) => other.fit - one.fit || Number(other.leaf.required) - Number(one.leaf.required));
  for (const candidate of surestFirst) {
    const free = !chosen.some(({ leaf }) => leaf === candidate.leaf) && !candidate.tokens.some((token) => taken.has(token));
    if (free) {
      chosen.push(candidate);
      for (const token of candidate.tokens) taken.add(token);
    }
  }
  return chosen;
}

interface Extra {
  readonly leaf: Leaf;
  readonly found: Found;
}

/** What a required argument gets that the user's words do not fill: the schema's own value, one from the results, the words themselves. */
function valuesFor(leaf: Leaf, leaves: readonly Leaf[], options: FillerOptions): Found {
  const fixed = fixedValue(leaf);
  if (fixed !== undefined) return { values: [fixed], choices: [] };
  const found = options.lookup(leaf);
  if (found.values.length > 0 || found.choices.length > 0) return found;
  const takesWords = leaf.sense === 'query' || (leaf.sense === 'body' && leaves.length === 1);
  const words = takesWords ? leftoverWords(options) : '';
  const value = words === '' ? null : words;
  return { values: accepts(leaf.schema, value, leaf.root) ? [value] : [], choices: [] };
}

/** What a search for "anything" should search: the user's words without those that chose the tool. */
function leftoverWords({ question, vocabulary }: FillerOptions): string {
  return question.tokens
    .filter((token) => token.kind === 'word' && token.stems.length > 0 && !isVocabulary(token, vocabulary))
    .map(({ value }) => value)
    .join(' ');
}

function entriesOf(leaves: readonly Leaf[], chosen: readonly Candidate[], extra: readonly Extra[]): Entry[] {
  const said = chosen.map(({ leaf, value }): Entry => [leaf, value]);
  const found = extra.flatMap(({ leaf, found: { values } }): Entry[] => values.slice(0, 1).map((value) => [leaf, value]));
  return [...said, ...found].toSorted(([one], [other]) => leaves.indexOf(one) - leaves.indexOf(other));
}

function withValue(entries: readonly Entry[], leaf: Leaf, value: JsonValue): Entry[] {
  return entries.map(([one, before]): Entry => [one, one === leaf ? value : before]);
}

interface Several {
  readonly leaf: Leaf;
  readonly values: readonly JsonValue[];
  readonly mentions: readonly Mention[];
}

/** When the user joined several names and one is used, the others are wanted the same way. */
function severalOf(chosen: readonly Candidate[], extra: readonly Extra[], options: FillingOptions): Several | undefined {
  const used = new Set(chosen.flatMap(({ mentions }) => mentions));
  for (const { leaf, mentions, value } of chosen) {
    const others = leaf.type === 'array' ? [] : candidatesFor(leaf, options).filter((other) => joins(mentions[0], other.mentions[0], used));
    const values = [...new Set([value, ...others.map((other) => other.value)])].slice(0, MOST_VARIANTS);
    if (values.length > 1) return { leaf, values, mentions: others.flatMap((other) => other.mentions) };
  }
  const looked = extra.find(({ found }) => found.values.length > 1);
  return looked ? { leaf: looked.leaf, values: looked.found.values.slice(0, MOST_VARIANTS), mentions: [] } : undefined;
}

function joins(one: Mention | undefined, other: Mention | undefined, used: ReadonlySet<Mention>): boolean {
  if (!one || !other || !names(one) || used.has(other)) return false;
  return one.kind === other.kind && one.group === other.group && one.group !== -1;
}

function missingOf(extra: readonly Extra[], variants: readonly JsonObject[]): Missing[] {
  const unfilled = extra.filter(({ found }) => found.values.length === 0);
  if (unfilled.length === 0 && variants.length === 0) return [{ name: 'arguments', description: '', choices: [], findable: false }];
  return unfilled.map(({ leaf, found }) => ({
    name: leaf.path.join('.'),
    description: describedAs(leaf),
    choices: found.choices,
    findable: leaf.sense === 'id' || leaf.sense === 'email',
  }));
}

/** An update of nothing but an id would do nothing. */
function idle(leaves: readonly Leaf[], entries: readonly Entry[]): Missing[] {
  const others = leaves.filter(({ sense }) => sense !== 'id');
  const isIdle = others.length > 0 && entries.every(([{ sense }]) => sense === 'id') && others.every(({ required }) => !required);
  return isIdle ? [{ name: others.map(({ path }) => path.join('.')).join(' or '), description: '', choices: [], findable: false }] : [];
}

function describedAs({ schema }: Leaf): string {
  const values = (schema.enum ?? []).slice(0, 8).map(String);
  return values.length > 0 ? `one of ${values.join(', ')}` : (schema.description ?? '');
}

function qualityOf(chosen: readonly Candidate[]): number {
  const fits = chosen.filter(({ leaf }) => leaf.required).map(({ fit }) => Math.min(fit / 2, 1));
  return fits.length === 0 ? 0.5 : fits.reduce((sum, fit) => sum + fit, 0) / fits.length;
}

function usedShareOf(chosen: readonly Candidate[], { question }: FillingOptions): number {
  const values = question.mentions.filter(isValue);
  const used = new Set(chosen.flatMap(({ tokens }) => tokens));
  const covered = values.filter(({ first, last }) => range(first, last).some((token) => used.has(token)));
  return values.length === 0 ? 0 : covered.length / values.length;
}
