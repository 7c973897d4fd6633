import { describe, expect, it } from '@jest/globals';
import { fencesOf, typeErrorsIn } from '../../../../test/docs/fences.js';

describe('the README', () => {
  it('shows models around models that compile', () => {
    const fence = fencesOf('libs/core/README.md', 'ts').find((code) => code.includes('rateLimited'));
    expect(typeErrorsIn(fence ?? 'nothing')).toEqual([]);
  }, 60_000);
});
