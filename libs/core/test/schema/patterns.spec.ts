import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { linearExpression, linearMatcher, patternProblem } from '../../src/schema/patterns.js';
import { cpuSecondsOf } from '../fixtures/time.js';

/** Characters that JavaScript and RE2 read differently, or that flags pair, among ordinary ones. */
const LETTERS = ['a', 'b', 'k', 'K', 's', 'S', 'ä', 'Ä', 'µ', 'ß', '\u1E9E', '\u017F', '\u212A'];
const CHARACTERS = [
  ...LETTERS,
  '_',
  '-',
  '1',
  '.',
  '!',
  ' ',
  '\n',
  '\r',
  '\t',
  '\v',
  '\u00A0',
  '\u2028',
  '\uFEFF',
  '😀',
  '\uD83D',
  '\uFFFF',
];
const SINGLES = [
  'a',
  'b',
  'k',
  'S',
  '_',
  '.',
  '\\.',
  '\\w',
  '\\W',
  '\\d',
  '\\D',
  '\\s',
  '\\S',
  '\\b',
  '\\B',
  '\\n',
  '\\t',
  '\\v',
  'ä',
  '\\u00e4',
  '\\xe4',
];
const CLASSES = [
  '[a-c]',
  '[^a]',
  '[a-kS_]',
  '[^\\w-]',
  '[\\w-.]',
  '[-\\s]',
  '[\\s-]',
  '[\\s\\S]',
  '[^\\s]',
  '[^\\S]',
  '[a\\S]',
  '[^]',
  '[\\n.]',
  '[à-ü]',
];
const ATOMS = [...SINGLES, ...CLASSES, '[\\u0080-\\uffff]', '$', '(?=a)', '(?!b)'];
const UNICODE_ATOMS = ['\\p{L}', '\\P{Lu}', '\\u{1F600}', '😀', '[😀-😂]'];

const quantified = fc
  .tuple(fc.constantFrom(...ATOMS), fc.constantFrom('', '', '*', '+?', '{1,2}', '?'))
  .map(([atom, times]) => (/^(?:\\b|\\B|\$|\(\?[=!])/.test(atom) ? atom : atom + times));
const sequence = fc
  .array(quantified, { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join(''));
const group = fc.tuple(
  fc.constantFrom('(?:', '('),
  fc.array(sequence, { minLength: 1, maxLength: 2 }),
  fc.constantFrom('*', '+', '?', '{0,2}'),
);
const pattern = fc
  .tuple(
    fc.constantFrom('', '^'),
    group,
    fc.oneof(sequence, fc.constantFrom(...UNICODE_ATOMS)),
    fc.constantFrom('', '$'),
  )
  .map(
    ([begin, [open, alternatives, times], rest, end]) =>
      `${begin}${open}${alternatives.join('|')})${times}${rest}${end}`,
  );
const flags = fc.subarray(['i', 'm', 's', 'u']).map((letters) => letters.join(''));
const text = fc
  .array(fc.constantFrom(...CHARACTERS), { maxLength: 6 })
  .map((characters) => characters.join(''));

/** Some patterns are none with the flag u. */
function expressionOf(source: string, letters: string): RegExp | undefined {
  try {
    return new RegExp(source, letters);
  } catch {
    return undefined;
  }
}

describe('linearMatcher', () => {
  it('takes the texts that JavaScript takes, whatever the pattern and its flags', () => {
    let linear = 0;
    fc.assert(
      fc.property(
        pattern,
        flags,
        fc.array(text, { minLength: 4, maxLength: 8 }),
        (source, letters, texts) => {
          const expression = expressionOf(source, letters);
          const matches = expression && linearMatcher(expression);
          if (!matches) return;
          linear += 1;
          expect(texts.map((one) => [one, matches(one)])).toEqual(
            texts.map((one) => [one, new RegExp(source, letters).test(one)]),
          );
        },
      ),
      { numRuns: 3_000 },
    );
    expect(linear).toBeGreaterThan(500);
  });

  it('takes few steps for any text', () => {
    const hostile = ['a', 'ab', 'aab', ' ', 'k1'].flatMap((part) => [
      part.repeat(20_000),
      `${part.repeat(20_000)}!`,
    ]);
    fc.assert(
      fc.property(pattern, flags, (source, letters) => {
        const expression = expressionOf(source, letters);
        const matches = expression && linearMatcher(expression);
        for (const one of matches ? hostile : [])
          expect(cpuSecondsOf(() => matches?.(one))).toBeLessThan(2);
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    ['a choice', /^(?:open|paid)$/, ['open', 'paid'], ['opened']],
    ['a counted repetition', /^[A-Z]{2}\d{4,12}$/, ['DE1234'], ['DE1']],
    ['a lazy repetition', /^<.+?>$/, ['<a>'], ['<>']],
    ['a named group', /^(?<year>\d{4})-(?<month>\d\d)$/, ['2026-01'], ['26-01']],
    ['a group in a group', /^((?:a|b)*c?)*$/, ['abcab'], ['abd']],
    ['the ends of words', /\bcat\b/, ['a cat!'], ['cats']],
    ['all characters', /^[\s\S]+$/, ['a\n'], ['']],
    ['no character of a class', /^[^\s"]+$/, ['a,b'], ['a b']],
    ['an escaped sign', /^a\/b\.c-d$/, ['a/b.c-d'], ['a/bxc-d']],
    ['a code point', /^\u0041\x42$/, ['AB'], ['ab']],
    ['a property of Unicode', /^\p{Lu}\P{Lu}+$/u, ['Älter'], ['älter']],
    ['a script of Unicode', /^\p{Script=Greek}+$/u, ['αβγ'], ['abc']],
    ['an astral character with the flag u', /^[😀-😂]$/u, ['😁'], ['😃']],
    ['the flag i', /^(a+)+$/i, ['aAa'], ['ab']],
    ['the flags i and u', /^Ä+$/iu, ['äÄ'], ['a']],
    ['the flag s', /^a.b$/s, ['a\nb'], ['ab']],
    ['a dot without the flag s', /^a.b$/, ['axb'], ['a\nb', 'a\u2028b']],
    ['the flag m', /^b$/m, ['a\nb\nc', 'a\r\nb'], ['ab']],
    ['the flag y, which holds the beginning', /a+/y, ['aab'], ['baa']],
    ['the flags y and m', /b/my, ['bc'], ['a\nb']],
    ['the flag y before a choice', /a|b/y, ['b'], ['cb']],
    ['the flag g', /a/g, ['ba'], ['b']],
    ['a nested repetition', /^(a+)+$/, ['aaa'], [`${'a'.repeat(40)}!`]],
    ['a repeated choice of the same', /^(a|aa)+$/, ['aaa'], [`${'a'.repeat(40)}!`]],
    ['repetitions in a row', /^a*a*a*a*$/, ['aaa'], [`${'a'.repeat(1_200)}!`]],
  ])('runs %s: %s', (_, expression, taken, refused) => {
    const matches = linearMatcher(expression);
    expect(taken.map((one) => matches?.(one))).toEqual(taken.map(() => true));
    expect(refused.map((one) => matches?.(one))).toEqual(refused.map(() => false));
    // it keeps no position
    expect(taken.map((one) => matches?.(one))).toEqual(taken.map(() => true));
    expect(patternProblem(expression)).toBeUndefined();
  });

  it.each([
    ['look ahead', '^(?=.*\\d).{8,}$', '', /without look-around/],
    ['look ahead that must fail', '^(?!-)[a-z-]+$', 'i', /without look-around/],
    ['look behind', '(?<=a)b', '', /without look-around/],
    ['look behind that must fail', '(?<!a)b', '', /without look-around/],
    ['a back reference', '^(\\w+) \\1$', '', /back references/],
    ['a reference to a named group', '(?<word>a+)\\k<word>b*c', '', /back references/],
    ['a flag v', '^[a--b]$', 'v', /flag u in the place of v/],
    ['letters outside ASCII beside the flag i', '^(?:Ä+)+$', 'i', /^Give it the flag u$/],
    ['half a character', '^[😀]$', '', /^Give it the flag u$/],
    ['ends of lines beside the flag m', '^a\\r$', 'm', /without the flag m/],
    ['more repetitions than are run', '^a{2000}$', '', /shorter and simpler/],
    ['a program that is too large', '(?:[ab]{0,90}){90}', '', /shorter and simpler/],
    ['an escape that RE2 reads otherwise', '\\Qa+\\E', '', /shorter and simpler/],
    ['a control character', '\\cJ+\\cJ+!', '', /shorter and simpler/],
    ['a class of everything but spaces and letters', '[a\\S]', '', /shorter and simpler/],
  ])('does not run %s: %s', (_, source, letters, remedy) => {
    const expression = new RegExp(source, letters);
    expect(linearMatcher(expression)).toBeUndefined();
    expect(patternProblem(expression)).toMatchObject({
      problem: `has the pattern ${String(expression)}, which the linear engine cannot run, so it could block the process`,
      remedy: expect.stringMatching(remedy),
    });
  });

  it.each([
    [String.raw`\x{41}x*x*x*`, 'x'.repeat(41)],
    [String.raw`\u{3}u*u*u*`, 'uuu'],
    [String.raw`\p{L}}*}*}*`, 'p{L}'],
    [String.raw`[\c_]+b+c+`, '\u001Fbc'],
    [String.raw`(?:a+)+[+-\s]`, 'a-'],
    [String.raw`(?:a+)+[\0-\s]`, 'a\u0003'],
  ])('understands %s as JavaScript does, or not at all', (source, taken) => {
    const expression = new RegExp(source);
    const matches = linearMatcher(expression);
    if (!matches) return;
    expect(matches(taken)).toBe(expression.test(taken));
    expect(matches('a?')).toBe(expression.test('a?'));
  });
});

describe('linearExpression', () => {
  it('looks like the expression that it replaces', () => {
    const expression = /^(a+)+$/i;
    const linear = linearExpression(expression);
    expect(linear).not.toBe(expression);
    expect(String(linear)).toBe(String(expression));
    expect(Object.prototype.toString.call(linear)).toBe('[object RegExp]');
    expect(['AAA', 'AB'].map((one) => one.match(linear) !== null)).toEqual([true, false]);
    expect(linearExpression(linear)).toBe(linear);
  });

  it('is the expression itself if the linear engine cannot run it', () => {
    const expression = /^(?=a)(?:a+)+$/;
    expect(linearExpression(expression)).toBe(expression);
  });
});
