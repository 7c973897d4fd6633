import { describe, expect, it } from '@jest/globals';
import { pagesOfRepository } from '../architecture/pages.js';
import { codeFilesOf, typeErrorsIn } from './fences.js';

describe('the TypeScript of all pages', () => {
  it('compiles', () => {
    const fences = pagesOfRepository().flatMap(codeFilesOf);
    expect(fences.length).toBeGreaterThan(10);
    expect(typeErrorsIn(fences)).toEqual([]);
  });

  it('is shown with its errors where it does not', () => {
    expect(typeErrorsIn(['export const one: string = 1;\n'])).toEqual([expect.stringContaining('TS2322')]);
  });
});
