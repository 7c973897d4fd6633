import { ToolError } from '@toolloop/core';

/**
 * A path pattern from a model, matched in time that grows with pattern × path. Matchers that
 * compile to a regular expression take seconds for `*a*a*a*a*ab` and a long file name, which a
 * model, or a page it has read, may well produce.
 *
 * `*` and `?` match within one segment, `**` matches any number of segments, `{a,b}` either
 * alternative, and every other character itself. A pattern without a slash matches file names at
 * any depth.
 */
export class Glob {
  private readonly alternatives: readonly (readonly string[])[];

  /** @throws ToolError if the pattern is too long or has more than 64 alternatives */
  constructor(pattern: string) {
    if (pattern.length > MAX_LENGTH)
      throw new ToolError(`The glob is too long. Use at most ${MAX_LENGTH} characters.`);
    const rooted = pattern.includes('/') ? pattern : `**/${pattern}`;
    this.alternatives = expanded(rooted).map((one) =>
      one.split('/').filter((segment) => segment !== '' && segment !== '.'),
    );
  }

  /** Tells whether the pattern matches a path, which is relative, with slashes. */
  matches(path: string): boolean {
    const segments = path.split('/');
    return this.alternatives.some((pattern) =>
      matchesSequence(pattern, segments, { many: '**', one: matchesSegment }),
    );
  }
}

const MAX_LENGTH = 200;
const MAX_ALTERNATIVES = 64;

function matchesSegment(pattern: string, segment: string): boolean {
  return matchesSequence(Array.from(pattern), Array.from(segment), {
    many: '*',
    one: (wanted, found) => wanted === '?' || wanted === found,
  });
}

interface Wildcards {
  /** The wildcard for any number of items. */
  readonly many: string;
  readonly one: (wanted: string, found: string) => boolean;
}

/**
 * Matches items, backtracking to the latest wildcard only: it can take whatever an earlier one
 * could.
 */
function matchesSequence(
  pattern: readonly string[],
  items: readonly string[],
  { many, one }: Wildcards,
): boolean {
  let at = 0;
  let wildcard = -1;
  let resume = 0;
  let index = 0;
  while (index < items.length) {
    if (pattern[at] === many) {
      wildcard = at;
      resume = index;
      at += 1;
    } else if (at < pattern.length && one(pattern[at] ?? '', items[index] ?? '')) {
      at += 1;
      index += 1;
    } else if (wildcard >= 0) {
      resume += 1;
      index = resume;
      at = wildcard + 1;
    } else return false;
  }
  return pattern.slice(at).every((rest) => rest === many);
}

/** Expands `{a,b}`, left to right; an unclosed brace matches itself. */
function expanded(pattern: string): string[] {
  let patterns = [''];
  for (const part of pattern.split(/(\{[^{}]*\})/)) {
    const choices =
      part.startsWith('{') && part.endsWith('}') ? part.slice(1, -1).split(',') : [part];
    if (patterns.length * choices.length > MAX_ALTERNATIVES)
      throw new ToolError(`The glob has more than ${MAX_ALTERNATIVES} alternatives. Use fewer.`);
    patterns = patterns.flatMap((beginning) => choices.map((choice) => beginning + choice));
  }
  return patterns;
}
