import { re2 } from '../findings/late-packages.js';

/** A pattern on the way to its use. */
export interface BoundedPattern {
  readonly matches: (text: string) => boolean;
  /** The reason why its time is not bounded, and what to write instead; absent where it is. */
  readonly problem?: PatternProblem;
}

interface PatternProblem {
  readonly problem: string;
  readonly remedy: string;
}

/** The longest text that a pattern is expected to be run on where nothing bounds it: more than all arguments of a call may have, unless an application raises that limit. */
const LONGEST_TEXT = 50_000;
/** The steps that backtracking may take, a few milliseconds. */
const MOST_STEPS = 1_000_000;
/** The most code units that one character has where characters are counted: a pair of surrogates and a variation selector. */
const UNITS_OF_A_CHARACTER = 3;

/** Makes the expression of a pattern in a schema, which has no flags: it has `u` only where it means something else, or nothing, without. @throws SyntaxError for a pattern that is none */
export function expressionOf(pattern: string): RegExp {
  return new RegExp(pattern, needsUnicode(pattern) ? 'u' : '');
}

/** Tells whether a pattern has another meaning, or none, without the flag `u`. */
export function needsUnicode(pattern: string): boolean {
  return /\\[pP]\{|\\u\{/.test(pattern);
}

/**
 * Makes the matcher of a pattern of the application, which means what it means in JavaScript. It runs by backtracking where that is proven to be short, else by RE2's algorithm in linear time.
 * Where neither is possible it runs by backtracking all the same, and has a problem.
 */
export function boundedPattern(expression: RegExp, maxLength?: number): BoundedPattern {
  if (expression instanceof BoundedExpression) return expression;
  const { source } = expression;
  const plain = new RegExp(source, expression.flags.replaceAll(/[dgy]/g, '')); // which keeps no position between two texts
  const longest = maxLength === undefined ? LONGEST_TEXT : maxLength * UNITS_OF_A_CHARACTER;
  const backtracking = (text: string): boolean => plain.test(text);
  if (isShort(plain, longest)) return { matches: backtracking };
  const linear = linearMatcher(plain, MOST_OF_OWN);
  return linear ? { matches: linear } : { matches: backtracking, problem: problemOf(plain) };
}

/** A pattern of the application that another library runs: it looks like the one that it replaces, and is bounded. */
class BoundedExpression extends RegExp implements BoundedPattern {
  constructor(
    expression: RegExp,
    readonly matches: BoundedPattern['matches'],
  ) {
    super(expression.source, expression.flags);
  }

  override [Symbol.match](text: string): RegExpMatchArray | null {
    return this.matches(text) ? [text] : null;
  }
}

/** Returns an expression of the same meaning that class-validator can run in linear time, or the same where it is short anyway, or cannot be bounded. */
export function boundedExpression(expression: RegExp): RegExp {
  if (expression.sticky || expression instanceof BoundedExpression || isShort(expression, LONGEST_TEXT)) return expression;
  const linear = linearMatcher(expression, MOST_OF_OWN);
  return linear ? new BoundedExpression(expression, linear) : expression;
}

/** Makes the matcher of a pattern that the application did not write: in linear time, and undefined where there is none, or where it would be large. @throws SyntaxError for a pattern that is none */
export function foreignMatcher(pattern: string): ((text: string) => boolean) | undefined {
  const expression = expressionOf(pattern);
  const matches = pattern.length > LONGEST_FOREIGN_PATTERN ? undefined : linearMatcher(expression, MOST_OF_FOREIGN);
  return matches && ((text) => text.length > LONGEST_TEXT || matches(text));
}

const LONGEST_FOREIGN_PATTERN = 1_000;

/** The largest programs of RE2 that are run, in instructions. */
const MOST_OF_FOREIGN = 500;
const MOST_OF_OWN = 5_000;

function problemOf(expression: RegExp): PatternProblem {
  const problem = `has the pattern ${String(expression)}, which can block the process: no engine without backtracking runs it`;
  const length = [1_000, 200, 100, 50, 20].find((one) => isShort(expression, one * UNITS_OF_A_CHARACTER));
  const bound = length === undefined ? '' : `, or bound the text: @MaxLength(${length})`;
  const { source, ignoreCase, multiline, unicode } = expression;
  const remedies = [
    ...(/\((?:\?<?[=!])|\\[1-9k]/.test(source) ? ['Write it without look-around and back references'] : []),
    ...(ignoreCase && !unicode && OUTSIDE_ASCII.test(source) ? ['Give it the flag u'] : []),
    ...(multiline ? ['Write it without the flag m'] : []),
  ];
  return { problem, remedy: `${remedies.length > 0 ? remedies.join('. ') : 'Write it shorter and simpler'}${bound}.` };
}

/** The parts of a pattern: escapes, classes, the beginnings of groups, quantifiers, and single characters. */
const TOKEN = /\\(?:k<[^>]*>|[^])|\[(?:[^\]\\]|\\[^])*\]|\((?:\?(?:<?[=!]|<[^>]*>|[\w-]*:))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/g;

const tokensOf = (source: string): readonly string[] => source.match(TOKEN) ?? [];

/** The cost of backtracking for a part of a pattern: the ways in which it matches from one place, at most, and the steps of trying all of them. */
interface Effort {
  readonly ways: number;
  readonly steps: number;
}

const NOTHING: Effort = { ways: 1, steps: 0 };
const ONE_CHARACTER: Effort = { ways: 1, steps: 1 };

const inTurn = (one: Effort, next: Effort): Effort => ({ ways: one.ways * next.ways, steps: one.steps + one.ways * next.steps });
const eitherOf = (one: Effort, other: Effort): Effort => ({ ways: one.ways + other.ways, steps: one.steps + other.steps + 1 });

function repeated({ ways, steps }: Effort, least: number, most: number): Effort {
  const paths = ways <= 1 ? 1 : ways ** most;
  const times = most - least + 1;
  return { ways: times * paths, steps: most * paths * steps + times };
}

/** A group that is being read. */
interface Group {
  readonly isLook: boolean;
  /** The alternatives before the last `|`. */
  alternatives: Effort | undefined;
  /** The last alternative, without its last part, which a quantifier may follow. */
  sequence: Effort;
  last: Effort;
}

/** Tells whether backtracking takes few steps for any text up to a length. It never says so of a pattern for which it takes more; of some it does not know. */
function isShort({ source, flags }: RegExp, longest: number): boolean {
  if (flags.includes('v')) return false; // its classes may hold classes
  const tokens = tokensOf(source);
  const places = isAnchored(tokens) && !flags.includes('m') ? 1 : longest + 1;
  return effortOf(tokens, longest).steps * places <= MOST_STEPS;
}

function effortOf(tokens: readonly string[], longest: number): Effort {
  const groups: Group[] = [];
  let group = groupOf('(');
  for (const token of tokens) {
    const quantity = quantityIn(token, longest);
    if (quantity) group.last = repeated(group.last, ...quantity);
    else if (token === '|') endAlternative(group);
    else if (token === ')') {
      const inner = effortOfGroup(group);
      group = groups.pop() ?? group;
      add(group, inner);
    } else if (token.startsWith('(')) {
      groups.push(group);
      group = groupOf(token);
    } else add(group, /^\\[1-9k]/.test(token) ? { ways: 1, steps: longest } : ONE_CHARACTER);
  }
  return effortOfGroup(group);
}

function groupOf(token: string): Group {
  return { isLook: /[=!]$/.test(token), alternatives: undefined, sequence: NOTHING, last: NOTHING };
}

function add(group: Group, part: Effort): void {
  group.sequence = inTurn(group.sequence, group.last);
  group.last = part;
}

function endAlternative(group: Group): void {
  const whole = inTurn(group.sequence, group.last);
  group.alternatives = group.alternatives ? eitherOf(group.alternatives, whole) : whole;
  group.sequence = NOTHING;
  group.last = NOTHING;
}

/** Nothing goes back into a look-around once it has held. */
function effortOfGroup(group: Group): Effort {
  endAlternative(group);
  const { alternatives = NOTHING, isLook } = group;
  return isLook ? { ways: 1, steps: alternatives.steps } : alternatives;
}

/** Reads a quantifier: the least and the most times; undefined for any other token. */
function quantityIn(token: string, longest: number): [least: number, most: number] | undefined {
  const [, sign, from, comma, to] = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})\??$/.exec(token) ?? [];
  if (sign !== undefined) return [sign === '+' ? 1 : 0, sign === '?' ? 1 : longest];
  if (from === undefined) return undefined;
  const least = Number(from);
  const most = comma === '' ? least : to === '' ? longest : Number(to);
  return [least, Math.max(least, Math.min(most, longest))];
}

/** Tells whether every alternative begins at the beginning of the text. */
function isAnchored(tokens: readonly string[]): boolean {
  let depth = 0;
  let isBeginning = true;
  for (const token of tokens) {
    if (isBeginning && token !== '^') return false;
    isBeginning = depth === 0 && token === '|';
    if (token.startsWith('(')) depth += 1;
    if (token === ')') depth -= 1;
  }
  return !isBeginning;
}

/**
 * Makes a matcher that takes time in proportion to the text, by RE2's algorithm. It means exactly what the expression means in
 * JavaScript; undefined where that is impossible, and for one that becomes too large.
 */
function linearMatcher(expression: RegExp, largest: number): ((text: string) => boolean) | undefined {
  const pattern = linearPattern(expression);
  if (pattern === undefined) return undefined;
  try {
    const compiled = re2().RE2JS.compile(pattern);
    const prepared = preparation(expression);
    return compiled.programSize() > largest ? undefined : (text) => compiled.test(prepared(text));
  } catch {
    return undefined; // a back reference, or a repetition that is too long
  }
}

/** Syntax that means something else in RE2 than in JavaScript: escapes of letters that JavaScript takes for the letters, and classes in classes. */
const AMBIGUOUS = /\\[^\W\dbBdDfnpPrsStuvwWx_]|\\[pP][^{]|\\x\{|\[\[:/;
const OUTSIDE_ASCII = /[^\0-\u007F]|\\[ux]/;
const NO_PLAIN_CHARACTER = /[^ -~]|\\[\dfnrtuvx]/;
const SURROGATE_OR_ABOVE = /[\uD800-\uFFFF]|\\u(?:[dD][89a-fA-F]|[eEfF])/;

/** Translates an expression for RE2; undefined for one that RE2 would understand otherwise, or not at all. */
function linearPattern(expression: RegExp): string | undefined {
  const { source, ignoreCase, multiline, dotAll, unicode } = expression;
  if (isAmbiguous(expression)) return undefined;
  const translate = ignoreCase && unicode ? foldedToken : linearToken;
  const tokens = tokensOf(source).map((token) => (token === '.' ? (dotAll ? '[^]' : LINE) : translate(token)));
  if (tokens.includes(undefined)) return undefined;
  return `${ignoreCase ? '(?i)' : ''}${multiline ? '(?m)' : ''}${re2().RE2JS.translateRegExp(tokens.join(''))}`;
}

function isAmbiguous({ source, flags, ignoreCase, multiline, unicode }: RegExp): boolean {
  if (flags.includes('v') || AMBIGUOUS.test(source)) return true;
  if (multiline && NO_PLAIN_CHARACTER.test(source)) return true; // it may tell one end of a line from another
  if (unicode) return false;
  return needsUnicode(source) || SURROGATE_OR_ABOVE.test(source) || (ignoreCase && OUTSIDE_ASCII.test(source)); // where it pairs letters otherwise
}

const LINE = String.raw`[^\n\r\u2028\u2029]`;
/** The space of JavaScript, inside a class. */
const SPACE = String.raw`\t-\r \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF`;

function linearToken(token: string): string | undefined {
  if (/^\(\?(?:<?[=!]|[\w-]+:)/.test(token)) return undefined;
  if (token === String.raw`\s`) return `[${SPACE}]`;
  if (token === String.raw`\S`) return `[^${SPACE}]`;
  return token.startsWith('[') ? linearClass(token) : token;
}

/** Tells a set of characters in a class: a `-` beside one is no range. */
const isSet = (part: string | undefined): boolean => /^\\[dDswW]$/.test(part ?? '');

/** Translates a class. One with all that is no space in it can be said only where it has all spaces, too. */
function linearClass(token: string): string | undefined {
  const parts: readonly string[] = token.match(/\\?[^]/g) ?? [];
  if (parts.includes(String.raw`\S`)) return parts.includes(String.raw`\s`) && parts[1] !== '^' ? '[^]' : undefined;
  const translated = parts.map((part, index) => {
    if (part === '-' && (isSet(parts[index - 1]) || isSet(parts[index + 1]))) return String.raw`\-`;
    return part === String.raw`\s` ? SPACE : part;
  });
  return translated.join('');
}

/** Translates a token beside the flags `iu`, with which `\w` has two letters outside ASCII, and what is defined by it is another matter. */
function foldedToken(token: string): string | undefined {
  if (/\\[WbBP]/.test(token)) return undefined;
  return linearToken(
    token.startsWith('[') ? token.replaceAll(String.raw`\w`, FOLDED_WORD) : token === String.raw`\w` ? `[${FOLDED_WORD}]` : token,
  );
}

const FOLDED_WORD = String.raw`\w\u017F\u212A`;

/** A character that no translated pattern names: those that stand for others are as different from all that it names. */
const OTHER = '\uFFFF';

/**
 * Prepares texts, where RE2 reads them otherwise. Without the flag `u` the halves of a pair of surrogates are characters of their own, and the two letters outside
 * ASCII whose other case is inside are not the same as those. Line ends other than `\n` are told from it by no pattern that has the flag `m` here.
 */
function preparation({ ignoreCase, multiline, unicode }: RegExp): (text: string) => string {
  const others = ignoreCase ? /[\u017F\u212A\uD800-\uDFFF]/g : /[\uD800-\uDFFF]/g;
  const known = unicode ? (text: string) => text : (text: string) => text.replaceAll(others, OTHER);
  return multiline ? (text) => known(text).replaceAll(/[\r\u2028\u2029]/g, '\n') : known;
}
