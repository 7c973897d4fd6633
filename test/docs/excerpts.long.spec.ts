import { describe, expect, it } from '@jest/globals';
import { pagesOfRepository } from '../architecture/pages.js';
import { errorsInExcerpts, excerptsOf } from './excerpts.js';

describe('the excerpts of all pages', () => {
  it('compile, but for what they take from the file around them', async () => {
    const excerpts = pagesOfRepository().flatMap(excerptsOf);
    expect(excerpts.length).toBeGreaterThan(40);
    expect(await errorsInExcerpts(excerpts)).toEqual([]);
  });

  it('are shown with their errors where a name, an option or an argument is not what the packages have', async () => {
    const code = "ToolLoopModule.forRoot({ model, policyy: { allow: ['*'] } });\n";
    const excerpt = { place: 'docs/some.md:3', path: 'excerpts/wrong.ts', code };
    expect(await errorsInExcerpts([excerpt])).toEqual([
      expect.stringMatching(/^docs\/some\.md:3: line 1: error TS2561: .*policyy/),
    ]);
  });
});
