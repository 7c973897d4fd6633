import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { boundedExpression, boundedPattern } from '../../src/schema/patterns.js';
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
const sequence = fc.array(quantified, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(''));
const group = fc.tuple(
  fc.constantFrom('(?:', '('),
  fc.array(sequence, { minLength: 1, maxLength: 2 }),
  fc.constantFrom('*', '+', '?', '{0,2}'),
);
const pattern = fc
  .tuple(fc.constantFrom('', '^'), group, fc.oneof(sequence, fc.constantFrom(...UNICODE_ATOMS)), fc.constantFrom('', '$'))
  .map(([begin, [open, alternatives, times], rest, end]) => `${begin}${open}${alternatives.join('|')})${times}${rest}${end}`);
const flags = fc.subarray(['i', 'm', 's', 'u']).map((letters) => letters.join(''));
const text = fc.array(fc.constantFrom(...CHARACTERS), { maxLength: 6 }).map((characters) => characters.join(''));

/** Some patterns are none with the flag u. */
function expressionOf(source: string, letters: string): RegExp | undefined {
  try {
    return new RegExp(source, letters);
  } catch {
    return undefined;
  }
}

describe('boundedPattern', () => {
  it('takes the texts that JavaScript takes, whatever the pattern and its flags', () => {
    let linear = 0;
    fc.assert(
      fc.property(pattern, flags, fc.array(text, { minLength: 4, maxLength: 8 }), (source, letters, texts) => {
        const expression = expressionOf(source, letters);
        if (!expression) return;
        const { matches, problem } = boundedPattern(expression);
        if (!problem) linear += 1;
        expect(texts.map((one) => [one, matches(one)])).toEqual(texts.map((one) => [one, expression.test(one)]));
      }),
      { numRuns: 3_000 },
    );
    expect(linear).toBeGreaterThan(500);
  });

  it('takes few steps for any text, unless it has a problem', () => {
    const hostile = ['a', 'ab', 'aab', ' ', 'k1'].flatMap((part) => [part.repeat(20_000), `${part.repeat(20_000)}!`]);
    fc.assert(
      fc.property(pattern, flags, (source, letters) => {
        const expression = expressionOf(source, letters);
        if (!expression) return;
        const { matches, problem } = boundedPattern(expression);
        if (problem) return;
        for (const one of hostile) expect(cpuSecondsOf(() => matches(one))).toBeLessThan(2);
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    [String.raw`\x{41}x*x*x*`, 'x'.repeat(41)],
    [String.raw`\u{3}u*u*u*`, 'uuu'],
    [String.raw`\p{L}}*}*}*`, 'p{L}'],
    [String.raw`(?<word>a+)\k<word>b*c`, 'aac'],
    [String.raw`\cJ+\cJ+!`, '\n\n!'],
    [String.raw`[\c_]+b+c+`, '\u001Fbc'],
    [String.raw`(?:a+)+[+-\s]`, 'a-'],
    [String.raw`(?:a+)+[\0-\s]`, 'a\u0003'],
  ])('understands %s as JavaScript does', (source, taken) => {
    const expression = new RegExp(source);
    const { matches } = boundedPattern(expression);
    expect(matches(taken)).toBe(expression.test(taken));
    expect(matches('a?')).toBe(expression.test('a?'));
  });

  it('forgets the position of an expression that keeps one', () => {
    const { matches } = boundedPattern(/a/g);
    expect([matches('a'), matches('a'), matches('b')]).toEqual([true, true, false]);
  });
});

describe('boundedExpression', () => {
  it('looks like the expression that it replaces', () => {
    const expression = /^(a+)+$/i;
    const bounded = boundedExpression(expression);
    expect(bounded).not.toBe(expression);
    expect(String(bounded)).toBe(String(expression));
    expect(Object.prototype.toString.call(bounded)).toBe('[object RegExp]');
    expect(['AAA', 'AB'].map((one) => one.match(bounded) !== null)).toEqual([true, false]);
    expect(boundedExpression(bounded)).toBe(bounded);
  });

  it('is the expression itself where that is short, sticky, or cannot be bounded', () => {
    for (const expression of [/^[a-z]+$/, /(?:a+)+$/y, /^(?=a)(?:a+)+$/]) expect(boundedExpression(expression)).toBe(expression);
  });
});
