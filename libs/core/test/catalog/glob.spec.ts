import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { cpuSecondsOf } from '../fixtures/time.js';
import { cases } from '../../../../test/cases.js';
import { isGlob, matchesGlob } from '../../src/catalog/glob.js';

const text = fc.string({ unit: fc.constantFrom('a', 'b', '_'), maxLength: 10 });

/** The plain meaning, by backtracking: fit for short texts only. */
function means(pattern: string, given: string): boolean {
  if (pattern === '') return given === '';
  if (pattern.startsWith('*'))
    return means(pattern.slice(1), given) || (given !== '' && means(pattern, given.slice(1)));
  return given.startsWith(pattern.slice(0, 1)) && means(pattern.slice(1), given.slice(1));
}

describe('matchesGlob', () => {
  it.each([
    ['*', ''],
    ['*', 'crm__search'],
    ['crm__*', 'crm__search'],
    ['crm__*', 'crm__'],
    ['*__search', 'crm__search'],
    ['*search*', 'crm__searchAll'],
    ['customer_*_*', 'customer_*_getSpend'],
    ['customer_*_getSpend', 'customer_*_getSpend'],
    ['**', 'anything'],
    ['crm__search', 'crm__search'],
  ])('matches, by the pattern %j, %j', (pattern, id) => {
    expect(matchesGlob(pattern, id)).toBe(true);
  });

  it.each([
    ['crm__*', 'CRM__search'],
    ['crm__*', 'my_crm__search'],
    ['*__search', 'crm__searchAll'],
    ['a*a', 'a'],
    ['ab*ba', 'aba'],
    ['crm__search', 'crm__searchAll'],
    ['', 'crm__search'],
    ['crm.*', 'crm__search'],
    ['cr?__*', 'crm__search'],
  ])('%j does not name %j', (pattern, id) => {
    expect(matchesGlob(pattern, id)).toBe(false);
  });

  it('means that a star stands for any characters, none included', () => {
    const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '_', '*'), maxLength: 8 });
    fc.assert(
      fc.property(pattern, text, (glob, given) => matchesGlob(glob, given) === means(glob, given)),
      { numRuns: cases(2000) },
    );
  });

  it('takes no longer for a hostile pattern than for its length', () => {
    const pattern = `${'a*'.repeat(20_000)}b`;
    const given = 'a'.repeat(40_000);
    const seconds = cpuSecondsOf(() => {
      expect(matchesGlob(pattern, given)).toBe(false);
      expect(matchesGlob(`${'a*'.repeat(20_000)}c*b`, `${given}b`)).toBe(false);
    });
    expect(seconds).toBeLessThan(5); // one that tries every way to divide the text never ends
  });
});

describe('isGlob', () => {
  it('tells a pattern from an id', () => {
    expect([isGlob('crm__*'), isGlob('crm__search')]).toEqual([true, false]);
  });
});
