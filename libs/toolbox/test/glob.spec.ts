import { describe, expect, it } from '@jest/globals';
import { ToolError } from '@toolloop/core';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { Glob } from '../src/files/glob.js';

describe('a glob', () => {
  it.each([
    ['**', 'a/b/c.ts', true],
    ['*.ts', 'c.ts', true],
    ['*.ts', 'a/b/c.ts', true],
    ['*.ts', 'a/b/c.tsx', false],
    ['src/*.ts', 'src/c.ts', true],
    ['./src/*.ts', 'src/c.ts', true],
    ['src/*.ts', 'src/a/c.ts', false],
    ['src/**/*.ts', 'src/c.ts', true],
    ['src/**/*.ts', 'src/a/b/c.ts', true],
    ['src/**', 'lib/src/c.ts', false],
    ['**/test/**/*.{spec,test}.ts', 'libs/a/test/b/c.test.ts', true],
    ['{src,lib}/?.ts', 'lib/a.ts', true],
    ['{src,lib}/?.ts', 'lib/ab.ts', false],
    ['app/[id]/page.tsx', 'app/[id]/page.tsx', true],
    ['a{b', 'a{b', true],
    ['(a|b)+.$', '(a|b)+.$', true],
    ['?', '😀', true],
    ['*a*b*a', 'xaxbxba', true],
    ['*a*b*a', 'xaxaxb', false],
  ])('`%s` matches the path %s: %s', (pattern, path, matches) => {
    expect(new Glob(pattern).matches(path)).toBe(matches);
  });

  it('agrees with a regular expression', () => {
    const pattern = fc
      .array(fc.constantFrom('a', 'b', '*', '?', '/', '**/'), { maxLength: 8 })
      .map((parts) => `/${parts.join('')}`);
    const path = fc
      .array(fc.stringMatching(/^[ab]{1,4}$/), { minLength: 1, maxLength: 4 })
      .map((segments) => segments.join('/'));
    fc.assert(
      fc.property(pattern, path, (glob, file) => {
        const segments = glob.split('/').filter((segment) => segment !== '');
        const source = segments.map((segment) =>
          segment === '**'
            ? '(?:/[^/]+)*'
            : `/${segment.replaceAll(/\*+/g, '[^/]*').replaceAll('?', '[^/]')}`,
        );
        expect(new Glob(glob).matches(file)).toBe(
          new RegExp(`^${source.join('')}$`).test(`/${file}`),
        );
      }),
      { numRuns: cases(2_000) },
    );
  });

  it('ends for a pattern that is made to be tried in more ways than anybody can wait for', () => {
    expect(new Glob(`${'*a'.repeat(60)}b`).matches('a'.repeat(250))).toBe(false);
    expect(new Glob(`${'**/a/'.repeat(30)}b`).matches('a/'.repeat(100))).toBe(false);
  });

  it('has bounds', () => {
    expect(() => new Glob('a'.repeat(201))).toThrow(ToolError);
    expect(() => new Glob('{a,b}'.repeat(10))).toThrow(/more than 64 alternatives/);
  });
});
