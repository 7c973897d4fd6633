import type { ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7Definition } from 'json-schema';
import type { Tool } from '../../contracts/tool.js';

/**
 * An index of tools by the words of their ids, descriptions and parameters. Scores are computed
 * beforehand, and the index never changes.
 */
export class ToolIndex {
  private readonly postings: ReadonlyMap<string, Postings>;

  constructor(private readonly tools: readonly Tool[]) {
    this.postings = postingsOf(tools.map(({ spec }) => weightsOf(spec)));
  }

  /**
   * Finds tools, best first, and equal ones in the order of the tools; those without any word of
   * the text are left out.
   */
  search(
    text: string,
    most: number,
    isWanted: (tool: Tool) => boolean = () => true,
  ): readonly Tool[] {
    const scores = this.scoresFor(text);
    const best: Ranked[] = [];
    for (const [index, tool] of this.tools.entries()) {
      const score = scores[index] ?? 0;
      const least = best.length < most ? 0 : (best.at(-1)?.score ?? Number.POSITIVE_INFINITY);
      if (score > least && isWanted(tool)) insert(best, { tool, score }, most);
    }
    return best.map(({ tool }) => tool);
  }

  private scoresFor(text: string): Float32Array {
    const scores = new Float32Array(this.tools.length);
    for (const word of [...new Set(searchWords(text.slice(0, MOST_CHARACTERS)))].slice(
      0,
      MOST_WORDS,
    )) {
      const found = this.postings.get(word);
      if (found) add(scores, found);
    }
    return scores;
  }
}

/**
 * The parameters of Okapi BM25: the saturation of repeated words, and the penalty of longer texts.
 */
const SATURATION = 1.2;

const LENGTH_NORM = 0.75;

/** The weight of a word in the id, which describes a tool better than one in its texts. */
const ID_WEIGHT = 3;

/** The most characters of one text; descriptions from outside have any length. */
const MOST_CHARACTERS = 4_000;

const MOST_LEVELS = 6;

/** The most words of one query. */
const MOST_WORDS = 32;

/** The scores that one word adds to the tools that have it. */
interface Postings {
  readonly tools: Uint32Array;
  readonly scores: Float32Array;
}

interface Ranked {
  readonly tool: Tool;
  readonly score: number;
}

function add(scores: Float32Array, postings: Postings): void {
  for (const [place, tool] of postings.tools.entries())
    scores[tool] = (scores[tool] ?? 0) + (postings.scores[place] ?? 0);
}

function insert(best: Ranked[], ranked: Ranked, most: number): void {
  const place = best.findIndex(({ score }) => score < ranked.score);
  best.splice(place < 0 ? best.length : place, 0, ranked);
  if (best.length > most) best.pop();
}

/** Computes the weight of each word of a tool. */
function weightsOf({
  declaredId,
  description,
  inputSchema,
}: ToolSpec): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  const count = (text: string, weight: number): void => {
    for (const word of searchWords(text.slice(0, MOST_CHARACTERS)))
      weights.set(word, (weights.get(word) ?? 0) + weight);
  };
  count(declaredId, ID_WEIGHT);
  count(description, 1);
  for (const text of textsOf(inputSchema, 0)) count(text, 1);
  return weights;
}

/** Yields the names and descriptions of parameters, also nested ones. */
function* textsOf(schema: JSONSchema7Definition | undefined, level: number): Generator<string> {
  if (typeof schema !== 'object' || level > MOST_LEVELS) return;
  if (level > 0 && schema.description !== undefined) yield schema.description;
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    yield name;
    yield* textsOf(property, level + 1);
  }
  for (const item of [schema.items ?? []].flat()) yield* textsOf(item, level + 1);
}

function postingsOf(
  documents: readonly ReadonlyMap<string, number>[],
): ReadonlyMap<string, Postings> {
  const lengths = documents.map((weights) => sum([...weights.values()]));
  const average = sum(lengths) / Math.max(1, documents.length);
  const having = new Map<string, number[]>();
  for (const [tool, weights] of documents.entries())
    for (const word of weights.keys()) {
      const tools = having.get(word);
      if (tools) tools.push(tool);
      else having.set(word, [tool]);
    }
  const scoreOf = (word: string, tool: number): number => {
    const weight = documents[tool]?.get(word) ?? 0;
    const norm = 1 - LENGTH_NORM + (LENGTH_NORM * (lengths[tool] ?? 0)) / average;
    return (weight * (SATURATION + 1)) / (weight + SATURATION * norm);
  };
  return new Map(
    [...having].map(([word, tools]): [string, Postings] => {
      const rarity = Math.log(1 + (documents.length - tools.length + 0.5) / (tools.length + 0.5));
      return [
        word,
        {
          tools: Uint32Array.from(tools),
          scores: Float32Array.from(tools, (tool) => rarity * scoreOf(word, tool)),
        },
      ];
    }),
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const MARKS = /\p{M}/gu;
/**
 * The borders of words in `recentOrders` and `HTTPServer`: between a small letter or a digit and a
 * capital, and before the last capital of a row.
 */
const CASE_CHANGE = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const WORD = /[\p{L}\p{N}]+/gu;
/**
 * The words without meaning for a search, since a small catalog does not show it by their
 * frequency.
 */
const EMPTY_WORDS = new Set(
  'a an and any are as at be by can do does for from has have how i in is it its me my of on or our that the their there these this to was what when which who with you your'.split(
    ' ',
  ),
);

/**
 * Splits an id or a text into comparable words: `getRecentOrders`, `recent_orders` and
 * `Recent orders` share two.
 */
export function searchWords(text: string): string[] {
  const plain = text.normalize('NFKD').replaceAll(MARKS, '').replaceAll(CASE_CHANGE, ' ');
  const words = plain.toLowerCase().match(WORD) ?? [];
  return words.filter((word) => !EMPTY_WORDS.has(word)).map(singular);
}

/**
 * Removes English plurals, roughly: both sides are treated alike, so the outcome need not be a
 * word.
 */
function singular(word: string): string {
  if (word.length < 4 || !word.endsWith('s') || /(?:ss|us|is)$/.test(word)) return word;
  if (word.endsWith('ies')) return `${word.slice(0, -3)}y`;
  return /(?:s|x|z|ch|sh)es$/.test(word) ? word.slice(0, -2) : word.slice(0, -1);
}
