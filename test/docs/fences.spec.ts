import { transformSync, type Options } from '@swc/core';
import { describe, expect, it } from '@jest/globals';
import { pagesOfRepository } from '../architecture/pages.js';
import { codeFilesOf, fencesOf, typeErrorsIn } from './fences.js';

describe('the TypeScript of all pages', () => {
  it('compiles', () => {
    const fences = pagesOfRepository().flatMap(codeFilesOf);
    expect(fences.length).toBeGreaterThan(10);
    expect(typeErrorsIn(fences)).toEqual([]);
  });

  it('is shown with its errors where it does not', () => {
    expect(typeErrorsIn(['export const one: string = 1;\n'])).toEqual([
      expect.stringContaining('TS2322'),
    ]);
  });
});

describe('the configuration of Jest on its page', () => {
  it('compiles a provider with its decorators and the types of what is injected', () => {
    const { jest } = JSON.parse(
      fencesOf('docs/guides/jest.md', 'json')[0] ?? '',
    ) as JestConfiguration;
    const [, options] = jest.transform['^.+\\.ts$'] ?? ['', {}];
    const { code } = transformSync(
      `import { Injectable } from '@nestjs/common';
       import { Orders, type Order } from './orders.js';
       @Injectable() export class Desk { constructor(private readonly orders: Orders) {} first(): Order { return this.orders.first(); } }`,
      { ...options, swcrc: false, filename: 'desk.ts' },
    );
    expect(code).toMatch(/"design:paramtypes", \[\s*typeof Orders/);
  });
});

interface JestConfiguration {
  readonly jest: {
    readonly transform: Readonly<Record<string, readonly [name: string, options: Options]>>;
  };
}
