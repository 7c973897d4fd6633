import { isLimit, type Leaf, type Sense } from './argument.leaves.js';
import type { Mention, MentionKind, Question } from './question.reader.js';
import type { Token } from './question.tokens.js';
import { knows, stem, stemsOf } from './words.js';

type Fits = Partial<Record<Sense, number>> & { readonly otherwise: number };

/** How well each kind of mention suits each sense of a property; 0 is never. */
const BASE_FITS: Readonly<Record<MentionKind, Fits>> = {
  quoted: { id: 0.8, day: 0.2, otherwise: 1.5 },
  name: { id: 0, name: 1.3, place: 1.2, query: 0.9, body: 0.3, email: 0, url: 0, day: 0.1, time: 0, otherwise: 0.6 },
  phrase: { id: 0, name: 0.95, place: 0.9, query: 0.8, body: 0.5, email: 0, url: 0, day: 0.1, time: 0, otherwise: 0.5 },
  object: { id: 0, name: 0.7, place: 0.7, query: 0.7, body: 0.6, email: 0, url: 0, day: 0, time: 0, otherwise: 0.45 },
  id: { id: 1.5, query: 0.6, name: 0.5, body: 0.2, email: 0, url: 0.5, day: 0, time: 0, otherwise: 0.4 },
  email: { email: 2, query: 0.6, name: 0.5, id: 0.2, day: 0, time: 0, otherwise: 0.4 },
  url: { url: 2, email: 0, day: 0, time: 0, otherwise: 0.4 },
  'date-time': { day: 2, time: 1.5, email: 0, otherwise: 0.2 },
  date: { day: 2, time: 1, email: 0, otherwise: 0.2 },
  time: { time: 2, day: 0.1, email: 0, otherwise: 0.2 },
  day: { day: 1.2, time: 1, email: 0, otherwise: 0.2 },
  number: { number: 0.8, id: 0.7, email: 0, url: 0, day: 0.1, time: 0.1, otherwise: 0.15 },
  rest: { body: 1.2, name: 0.1, query: 0.3, id: 0, email: 0, url: 0, day: 0, time: 0, place: 0, otherwise: 0.1 },
};

/** Which properties the words that open the rest of a sentence can mean. */
const REST_TARGETS: ReadonlyMap<string, readonly string[]> = new Map([
  ['because', ['reason', 'cause', 'why', 'note', 'comment'].map(stem)],
  ['to', ['text', 'task', 'todo', 'note', 'reminder', 'message', 'description', 'title', 'content'].map(stem)],
]);

const TOLD = 1.1;

/** How well a mention suits an argument by itself. */
export function baseFit(leaf: Leaf, mention: Mention, question: Question): number {
  const targets = mention.kind === 'rest' ? REST_TARGETS.get(question.tokens[mention.first - 1]?.lower ?? '') : undefined;
  if (targets) return targets.some((target) => leaf.stems.has(target)) ? TOLD : 0;
  const fit = kindFit(leaf, mention, question);
  const patterned = leaf.schema.pattern === undefined ? fit : Math.max(fit, 0.5) + 1;
  return patterned + letterFit(leaf, mention);
}

function kindFit({ sense, stems }: Leaf, mention: Mention, question: Question): number {
  const { kind, value } = mention;
  const fits = BASE_FITS[kind];
  const fit = fits[sense] ?? fits.otherwise;
  if (kind === 'quoted') return quotedFit(sense, fit, mention, question);
  return kind === 'name' ? fit + personFit(sense, stems, value) : fit;
}

/** An id has no spaces, so a quoted sentence is none; and what somebody shall be told is nothing to look for. */
function quotedFit(sense: Sense, fit: number, mention: Mention, question: Question): number {
  if (sense === 'id') return mention.value.includes(' ') ? 0 : fit;
  if (!isTold(mention, question)) return fit;
  return sense === 'body' ? fit + 0.5 : 0.3;
}

const TELLING = new Set(['saying', 'says', 'say', 'reading', ':']);

/** Whether a quotation is a message: somebody is named, and "saying" stands before it. */
function isTold({ first }: Mention, { tokens, mentions }: Question): boolean {
  const isAddressed = mentions.some(({ kind }) => kind === 'name' || kind === 'email' || kind === 'id');
  return isAddressed && TELLING.has(tokens[first - 1]?.lower ?? '');
}

/** Two capitalised words are a person's name sooner than a title or a place. */
function personFit(sense: Sense, stems: ReadonlySet<string>, name: string): number {
  if (!name.includes(' ')) return 0;
  if (sense === 'place') return -0.4;
  if (sense !== 'name') return 0;
  if (NAME_PARTS.some((part) => stems.has(part))) return 0.3;
  return TITLES.some((title) => stems.has(title)) ? -0.2 : 0;
}

const NAME_PARTS = ['first', 'last', 'surname', 'family', 'full'].map(stem);
const TITLES = ['title', 'label'].map(stem);

/** "p-7" is more likely a product than a cart. */
function letterFit({ sense, stems }: Leaf, { kind, value }: Mention): number {
  const [letters = ''] = /^\p{L}+/u.exec(value.toLowerCase()) ?? [];
  const begins = letters !== '' && [...stems].some((word) => word !== 'id' && word.startsWith(letters));
  return sense === 'id' && kind === 'id' && begins ? 0.7 : 0;
}

/** What speaks against lower-case words that are the tool's own subject, not a value. */
export function echo({ kind, value }: Mention, toolStems: ReadonlySet<string>): number {
  const stems = kind === 'phrase' || kind === 'object' ? stemsOf(value) : [];
  return stems.length > 0 && stems.every((one) => toolStems.has(one)) ? 0.5 : 0;
}

const CONNECTORS = new Set('is are of = : number no # the a an named called titled id to as with exactly'.split(' '));
const MOST_CONNECTORS = 4;
const PLURAL = /[^s]s$/;

interface Word {
  readonly lower: string;
  readonly stems: readonly string[];
}

const NOTHING: Word = { lower: '', stems: [] };

/** The words around a value. */
interface Surroundings {
  /** The nearest word before it that is no mere connector. */
  readonly before: Word;
  readonly after: Word;
  /** The two words right before it, whatever they are. */
  readonly cues: readonly Word[];
}

function surroundings(leaf: Leaf, first: number, last: number, { tokens }: Question): Surroundings {
  const skips = (index: number): boolean => {
    const word = tokens[index] ?? NOTHING;
    return CONNECTORS.has(word.lower) && first - index <= MOST_CONNECTORS && !meets(word, leaf.stems);
  };
  let index = first - 1;
  while (skips(index)) index -= 1;
  return {
    before: tokens[index] ?? NOTHING,
    after: tokens[last + 1] ?? NOTHING,
    cues: [tokens[first - 1] ?? NOTHING, tokens[first - 2] ?? NOTHING],
  };
}

function meets({ stems }: Word, known: ReadonlySet<string>): boolean {
  return stems.some((one) => known.has(one));
}

/** What is said about an argument besides its own schema. */
export interface FitContext {
  readonly question: Question;
  /** Stems of the tool's name and description: its subject, not its values. */
  readonly toolStems: ReadonlySet<string>;
  /** Stems of all tools' ids and properties: they name kinds of things. */
  readonly vocabulary: ReadonlySet<string>;
}

/** What the words around a value say for an argument: its own name before it, its unit behind it, a small word that announces it. */
export function contextFit(leaf: Leaf, tokens: readonly number[], { question, toolStems, vocabulary }: FitContext): number {
  const [first = -1] = tokens;
  const token = question.tokens[first];
  if (!token) return 0;
  const around = surroundings(leaf, first, tokens.at(-1) ?? first, question);
  const fits = [
    nameFit(leaf, around),
    otherKindFit(leaf, token, around.before, vocabulary),
    priceFit(leaf, token, around.after),
    targetFit(leaf, first, tokens, question),
    token.kind === 'number' ? countingFit(leaf, counted(question, first), toolStems) : 0,
    around.cues.some(({ lower }) => leaf.cues.has(lower)) ? 1.2 : 0,
  ];
  return fits.reduce((sum, fit) => sum + fit, 0);
}

const TARGETING = new Set(['to', 'as', 'at', 'by', '=']);

/** "Set the stock of p-1 to 12": the argument is named somewhere, the value stands behind "to". */
function targetFit(leaf: Leaf, first: number, tokens: readonly number[], question: Question): number {
  const isTarget = TARGETING.has(question.tokens[first - 1]?.lower ?? '');
  return isTarget && question.tokens.some((word, index) => !tokens.includes(index) && meets(word, leaf.stems)) ? 1.2 : 0;
}

/** The argument's name or description next to the value. */
function nameFit(leaf: Leaf, { before, after }: Surroundings): number {
  const named = meets(before, leaf.stems) ? 2 : 0;
  const unit = meets(after, leaf.stems) ? (isNumeric(leaf) ? 1.5 : 0.5) : 0;
  return named + unit + (meets(before, leaf.descriptionStems) || meets(after, leaf.descriptionStems) ? 0.6 : 0);
}

/** The "7" of "order 7" is no customer's id. */
function otherKindFit({ sense, stems }: Leaf, { kind }: Token, before: Word, vocabulary: ReadonlySet<string>): number {
  const isOther = sense === 'id' && stems.size > 1 && (kind === 'id' || kind === 'number');
  return isOther && !meets(before, stems) && meets(before, vocabulary) ? -1 : 0;
}

function isNumeric({ type }: Leaf): boolean {
  return type === 'number' || type === 'integer';
}

const AMOUNT: Word = { lower: '', stems: ['amount', 'price', 'cost', 'sum', 'total', 'budget', 'pay', 'money', 'value', 'fee'].map(stem) };

/** A number with a currency is an amount of money. */
function priceFit(leaf: Leaf, { text }: Token, after: Word): number {
  const isPrice = /[$€£¥]/.test(text) || /^(?:eur|usd|gbp|chf|jpy|euros?|dollars?|pounds?|[$€£¥])$/.test(after.lower);
  return isPrice && isNumeric(leaf) && meets(AMOUNT, leaf.stems) ? 1 : 0;
}

const COUNTED_WITHIN = 3;

/** What a number counts: the next plural, else the next word. */
function counted({ tokens }: Question, first: number): Word {
  const next = tokens.slice(first + 1, first + 1 + COUNTED_WITHIN);
  const end = next.findIndex(({ kind, stems }) => kind !== 'word' || stems.length === 0);
  const reached = end < 0 ? next : next.slice(0, end);
  return reached.find(({ lower }) => PLURAL.test(lower)) ?? next[0] ?? NOTHING;
}

/** "5 orders" is no id, and it limits a tool that speaks of orders, no other. */
function countingFit(leaf: Leaf, what: Word, toolStems: ReadonlySet<string>): number {
  if (leaf.sense === 'id') return PLURAL.test(what.lower) ? -1 : 0;
  if (leaf.required || !isLimit(leaf) || what.stems.length === 0 || meets(what, leaf.stems)) return 0;
  return what.stems.some((one) => knows(toolStems, one) > 0) ? 0.5 : -2;
}
