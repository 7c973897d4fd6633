import { re2 } from '../findings/late-packages.js';

/** Tells whether a text matches. */
export type Matcher = (text: string) => boolean;

/** The reason why the linear engine cannot run a pattern, and what to write instead. */
interface PatternProblem {
  readonly problem: string;
  readonly remedy: string;
}

/**
 * The longest text that a pattern of others is run on: more than all arguments of a call may have,
 * unless an application raises that limit.
 */
const LONGEST_TEXT = 50_000;
const LONGEST_FOREIGN_PATTERN = 1_000;

/** The largest programs of RE2 that are run, in instructions. */
const MOST_OF_FOREIGN = 500;
const MOST_OF_OWN = 5_000;

/**
 * Makes the expression of a pattern in a schema, which has no flags: it has `u` only where it means
 * something else, or nothing, without. @throws SyntaxError for a pattern that is none
 */
export function expressionOf(pattern: string): RegExp {
  return new RegExp(pattern, needsUnicode(pattern) ? 'u' : '');
}

/** Tells whether a pattern has another meaning, or none, without the flag `u`. */
export function needsUnicode(pattern: string): boolean {
  return /\\[pP]\{|\\u\{/.test(pattern);
}

/**
 * The matchers of the application's patterns that were made last: each takes longer to make than to
 * use.
 */
const lastMatchers = new Map<string, Matcher | undefined>();
const MAX_MATCHERS = 1_000;

/**
 * Makes the matcher of a pattern of the application, which means what it means in JavaScript;
 * undefined if the linear engine cannot run it.
 */
export function linearMatcher(expression: RegExp): Matcher | undefined {
  const key = String(expression);
  if (lastMatchers.has(key)) return lastMatchers.get(key);
  const matcher = compileLinear(expression, MOST_OF_OWN);
  const [oldest] = lastMatchers.keys();
  if (lastMatchers.size >= MAX_MATCHERS && oldest !== undefined) lastMatchers.delete(oldest);
  lastMatchers.set(key, matcher);
  return matcher;
}

/**
 * An expression that another library runs: it looks like the one that it replaces, and takes time
 * in proportion to the text.
 */
class LinearExpression extends RegExp {
  constructor(
    expression: RegExp,
    private readonly matches: Matcher,
  ) {
    super(expression.source, expression.flags);
  }

  override [Symbol.match](text: string): RegExpMatchArray | null {
    return this.matches(text) ? [text] : null;
  }
}

/**
 * Returns an expression of the same meaning that class-validator runs in linear time, or the same
 * if that is impossible.
 */
export function linearExpression(expression: RegExp): RegExp {
  if (expression instanceof LinearExpression) return expression;
  const matches = linearMatcher(expression);
  return matches ? new LinearExpression(expression, matches) : expression;
}

/**
 * Makes the matcher of a pattern that the application did not write: in linear time, and undefined
 * if that is impossible, or its program would be large. @throws SyntaxError for a pattern that is
 * none
 */
export function foreignMatcher(pattern: string): Matcher | undefined {
  const expression = expressionOf(pattern);
  const matches =
    pattern.length > LONGEST_FOREIGN_PATTERN
      ? undefined
      : compileLinear(expression, MOST_OF_FOREIGN);
  return matches && ((text) => text.length > LONGEST_TEXT || matches(text));
}

/** Finds why a pattern of the application cannot run in linear time; undefined if it can. */
export function patternProblem(expression: RegExp): PatternProblem | undefined {
  if (linearMatcher(expression)) return undefined;
  return {
    problem: `has the pattern ${String(expression)}, which the linear engine cannot run, so it could block the process`,
    remedy: rewriting(expression),
  };
}

/** Says how to write a pattern so that the linear engine runs it. */
function rewriting({ source, flags, ignoreCase, multiline, unicode }: RegExp): string {
  const needsFlag =
    !unicode && (SURROGATE_OR_ABOVE.test(source) || (ignoreCase && OUTSIDE_ASCII.test(source)));
  const ways = [
    ...(/\(\?<?[=!]|\\[1-9k]/.test(source)
      ? ['Write it without look-around and back references']
      : []),
    ...(flags.includes('v') ? ['Give it the flag u in the place of v'] : []),
    ...(needsFlag ? ['Give it the flag u'] : []),
    ...(multiline ? ['Write it without the flag m'] : []),
  ];
  return ways.length > 0 ? ways.join('. ') : 'Write it shorter and simpler';
}

/**
 * The parts of a pattern: escapes, classes, the beginnings of groups, quantifiers, and single
 * characters.
 */
const TOKEN =
  /\\(?:k<[^>]*>|[^])|\[(?:[^\]\\]|\\[^])*\]|\((?:\?(?:<?[=!]|<[^>]*>|[\w-]*:))?|[*+?]\??|\{\d+(?:,\d*)?\}\??|[^]/g;

const tokensOf = (source: string): readonly string[] => source.match(TOKEN) ?? [];

/**
 * Makes a matcher that takes time in proportion to the text, by RE2's algorithm. It means exactly
 * what the expression means in JavaScript; undefined where that is impossible, and for one that
 * becomes too large.
 */
function compileLinear(expression: RegExp, largest: number): Matcher | undefined {
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

/**
 * Syntax that means something else in RE2 than in JavaScript: escapes of letters that JavaScript
 * takes for the letters, and classes in classes.
 */
const AMBIGUOUS = /\\[^\W\dbBdDfnpPrsStuvwWx_]|\\[pP][^{]|\\x\{|\[\[:/;
const OUTSIDE_ASCII = /[^\0-\u007F]|\\[ux]/;
const NO_PLAIN_CHARACTER = /[^ -~]|\\[\dfnrtuvx]/;
const SURROGATE_OR_ABOVE = /[\uD800-\uFFFF]|\\u(?:[dD][89a-fA-F]|[eEfF])/;

/** A script of Unicode, which RE2 names without the word. */
const SCRIPT = /\\([pP])\{(?:Script|sc)=(\w+)\}/g;

/**
 * Translates an expression for RE2; undefined for one that RE2 would understand otherwise, or not
 * at all.
 */
function linearPattern(expression: RegExp): string | undefined {
  const { source, ignoreCase, multiline, dotAll, unicode, sticky } = expression;
  if (isAmbiguous(expression)) return undefined;
  const translate = ignoreCase && unicode ? foldedToken : linearToken;
  const tokens = tokensOf(source.replaceAll(SCRIPT, String.raw`\$1{$2}`)).map((token) =>
    token === '.' ? (dotAll ? '[^]' : LINE) : translate(token),
  );
  if (tokens.includes(undefined)) return undefined;
  const whole = re2().RE2JS.translateRegExp(tokens.join(''));
  return `${ignoreCase ? '(?i)' : ''}${multiline ? '(?m)' : ''}${sticky ? String.raw`\A(?:${whole})` : whole}`;
}

function isAmbiguous({ source, flags, ignoreCase, multiline, unicode }: RegExp): boolean {
  if (flags.includes('v') || AMBIGUOUS.test(source)) return true;
  // it may tell one end of a line from another
  if (multiline && NO_PLAIN_CHARACTER.test(source)) return true;
  if (unicode) return false;
  // where it pairs letters otherwise
  return (
    needsUnicode(source) ||
    SURROGATE_OR_ABOVE.test(source) ||
    (ignoreCase && OUTSIDE_ASCII.test(source))
  );
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

/**
 * Translates a class. One with all that is no space in it can be said only where it has all spaces,
 * too.
 */
function linearClass(token: string): string | undefined {
  const parts: readonly string[] = token.match(/\\?[^]/g) ?? [];
  if (parts.includes(String.raw`\S`))
    return parts.includes(String.raw`\s`) && parts[1] !== '^' ? '[^]' : undefined;
  const translated = parts.map((part, index) => {
    if (part === '-' && (isSet(parts[index - 1]) || isSet(parts[index + 1]))) return String.raw`\-`;
    return part === String.raw`\s` ? SPACE : part;
  });
  return translated.join('');
}

/**
 * Translates a token beside the flags `iu`, with which `\w` has two letters outside ASCII, and what
 * is defined by it is another matter.
 */
function foldedToken(token: string): string | undefined {
  if (/\\[WbBP]/.test(token)) return undefined;
  return linearToken(
    token.startsWith('[')
      ? token.replaceAll(String.raw`\w`, FOLDED_WORD)
      : token === String.raw`\w`
        ? `[${FOLDED_WORD}]`
        : token,
  );
}

const FOLDED_WORD = String.raw`\w\u017F\u212A`;

/**
 * A character that no translated pattern names: those that stand for others are as different from
 * all that it names.
 */
const OTHER = '\uFFFF';

/**
 * Prepares texts, where RE2 reads them otherwise. Without the flag `u` the halves of a pair of
 * surrogates are characters of their own, and the two letters outside ASCII whose other case is
 * inside are not the same as those. Line ends other than `\n` are told from it by no pattern that
 * has the flag `m` here.
 */
function preparation({ ignoreCase, multiline, unicode }: RegExp): (text: string) => string {
  const others = ignoreCase ? /[\u017F\u212A\uD800-\uDFFF]/g : /[\uD800-\uDFFF]/g;
  const known = unicode ? (text: string) => text : (text: string) => text.replaceAll(others, OTHER);
  return multiline ? (text) => known(text).replaceAll(/[\r\u2028\u2029]/g, '\n') : known;
}
