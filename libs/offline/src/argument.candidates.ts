import type { JsonValue } from '@toolloop/core';
import { baseFit, contextFit, echo, type FitContext } from './argument.fit.js';
import { formFor } from './argument.forms.js';
import { senseOf, type Leaf } from './argument.leaves.js';
import { literalCandidates } from './argument.literals.js';
import { COMMON_VERBS } from './english.js';
import { names, type Mention } from './question.reader.js';
import { accepts } from './schema.check.js';
import { isStopWord } from './words.js';

/** A value that could fill an argument, how well it would fit, and where in the user's words it stands. */
export interface Candidate {
  readonly leaf: Leaf;
  readonly value: JsonValue;
  readonly fit: number;
  readonly tokens: readonly number[];
  readonly mentions: readonly Mention[];
}

/** What is known about a tool's arguments besides its schema. */
export interface FillingOptions extends FitContext {
  /** `YYYY-MM-DD`; without it "tomorrow" fills no date. */
  readonly today: string | undefined;
  /** Names, in lower case, that only say which instance is meant. */
  readonly instanceNames: ReadonlySet<string>;
  /** What earlier calls used already. */
  readonly spent: readonly Mention[];
}

/** Everything in the user's words that this argument's schema accepts. */
export function candidatesFor(leaf: Leaf, options: FillingOptions): Candidate[] {
  if (leaf.type === 'array') return listCandidates(leaf, options);
  if (leaf.schema.enum || leaf.type === 'boolean') return literals(leaf, options);
  return mentionsFor(leaf, options)
    .filter((mention) => isFree(mention, leaf, options))
    .flatMap((mention) => mentionCandidate(leaf, mention, options) ?? []);
}

function literals(leaf: Leaf, options: FillingOptions): Candidate[] {
  const { mentions, tokens: words } = options.question;
  return literalCandidates(leaf, options.question).map(({ value, tokens, fit }) => {
    const isTarget = !leaf.required && TARGET_WORDS.has(words[(tokens[0] ?? 0) - 1]?.lower ?? '');
    const used = mentions.filter((mention) => names(mention) && tokens.includes(mention.first));
    return { leaf, value, tokens, mentions: used, fit: fit + contextFit(leaf, tokens, options) - (isTarget ? 1 : 0) };
  });
}

/** "as done" says what a thing shall become, not which things are meant. */
const TARGET_WORDS = new Set(['as', 'to']);

/** With a pattern any word may be a value, but for the words that chose the tool. */
function mentionsFor(leaf: Leaf, { question, toolStems }: FillingOptions): readonly Mention[] {
  if (leaf.schema.pattern === undefined) return question.mentions;
  const words = question.tokens.flatMap(({ kind, lower, value, stems }, index): Mention[] => {
    const isPlain = isStopWord(lower) || COMMON_VERBS.has(lower) || stems.some((stem) => toolStems.has(stem));
    return kind === 'word' && !isPlain ? [{ kind: 'object', value, first: index, last: index, group: -1 }] : [];
  });
  return [...question.mentions, ...words];
}

/** A name that led to the instance is no argument, and what was searched for is no optional text. */
function isFree(mention: Mention, leaf: Leaf, { instanceNames, spent }: FillingOptions): boolean {
  if (!names(mention)) return true;
  const isText = leaf.sense === 'body' || leaf.sense === 'query' || leaf.sense === 'other';
  return !instanceNames.has(mention.value.toLowerCase()) && !(isText && !leaf.required && spent.includes(mention));
}

function mentionCandidate(leaf: Leaf, mention: Mention, options: FillingOptions): Candidate | undefined {
  const base = baseFit(leaf, mention, options.question);
  const form = base > 0 ? formFor(leaf, mention, options.today) : undefined;
  if (!form) return undefined;
  const { value, tokens } = form;
  return { leaf, value, tokens, mentions: [mention], fit: base + contextFit(leaf, tokens, options) - echo(mention, options.toolStems) };
}

const MOST_ITEMS = 50;

/** A list takes the best value and everything joined to it by commas or "and". */
function listCandidates(leaf: Leaf, options: FillingOptions): Candidate[] {
  const { items, maxItems = MOST_ITEMS } = leaf.schema;
  if (items === undefined || typeof items === 'boolean' || Array.isArray(items)) return [];
  const type = [items.type].flat()[0];
  if (type === 'array' || type === 'object') return [];
  const found = candidatesFor({ ...leaf, schema: items, type, sense: senseOf(leaf.path.at(-1) ?? '', items) }, options);
  const [best] = found.toSorted((one, other) => other.fit - one.fit);
  if (!best) return [];
  const joined = found
    .filter((candidate) => isJoined(candidate, best))
    .toSorted((one, other) => (one.tokens[0] ?? 0) - (other.tokens[0] ?? 0));
  const value = [...new Set(joined.map((candidate) => candidate.value))].slice(0, maxItems);
  const tokens = joined.flatMap((candidate) => candidate.tokens);
  const mentions = joined.flatMap((candidate) => candidate.mentions);
  return accepts(leaf.schema, value, leaf.root) ? [{ leaf, value, fit: best.fit, tokens, mentions }] : [];
}

function isJoined(candidate: Candidate, best: Candidate): boolean {
  const [one, other] = [candidate.mentions[0], best.mentions[0]];
  if (candidate === best || candidate.leaf.schema.enum) return true;
  return one !== undefined && other !== undefined && one.group === other.group && one.group !== -1;
}
