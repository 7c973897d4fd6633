import { readdirSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { isWholeSentence, titlesIn, titlesOf, type Title } from './titles.js';
import { riddlesIn } from './words.js';

/** `[limit, target]`: titles that are no whole sentences today, and riddles in the titles of groups. Only ever tightened. */
const TITLES = [712, 0];
const GROUPS = [16, 0];

const folders = ['test', ...readdirSync('libs').flatMap((library) => [`libs/${library}/src`, `libs/${library}/test`])];

describe('the titles of the tests', () => {
  const titles = folders.flatMap(titlesOf);

  it('are whole sentences, but for as many as the limit says', () => {
    // A title that is all placeholder stands in the rows of its table.
    const tests = titles.filter(({ of, title }) => of === 'test' && /\w{2}/.test(title.replaceAll('%s', '')));
    expect(tests.length).toBeGreaterThan(1000);
    expectAtMost(
      tests.filter(({ title }) => !isWholeSentence(title)),
      TITLES,
    );
  });

  it('have no riddles in their groups, but for as many as the limit says', () => {
    const groups = titles.filter(({ of }) => of === 'group');
    expect(groups.length).toBeGreaterThan(100);
    expectAtMost(
      groups.filter(({ title }) => riddlesIn(title).length > 0),
      GROUPS,
    );
  });
});

/** Shows the titles themselves where they are too many: the newest is among them. */
function expectAtMost(found: readonly Title[], [limit = 0, target = 0]: readonly number[]): void {
  expect(found.length > limit ? found.map(({ file, title }) => `${file}: ${title}`) : []).toEqual([]);
  if (found.length < limit)
    process.stdout.write(`A limit of titles.spec.ts can be tightened: [${found.length}, ${target}] instead of ${limit}\n`);
}

describe('a title', () => {
  it.each([
    'ends with its budget',
    'names service and entity tools',
    'are listed to their owner',
    'never ends twice',
    'boots',
    'invariant 13: claims its key once',
    'a run ends with its budget',
    '%s ends the run',
    'two runs of one tenant wait for each other',
    'when its budget is used up, the run ends',
  ])('is a whole sentence: %p', (title) => {
    expect(isWholeSentence(title)).toBe(true);
  });

  it.each([
    'of two tenants sees each run for itself',
    'that hangs does not keep an aborted run',
    'and is gone: the call is answered',
    'with %s',
    'made of a function receives its DTO',
    'before the start is read with the prompt',
    'is told to whoever asks',
    'goes on where it waited',
    'nobody is asked',
    'tells what a call came to',
  ])('is none: %p', (title) => {
    expect(isWholeSentence(title)).toBe(false);
  });

  it('is found in every form of a test', () => {
    const text =
      "it('a', f); it.skip('b', f); it.each([1])('c %s', f); it.each`x`(`d ${1} e`, f); test('f', f); describe('g', f); it(name, f);";
    expect(titlesIn(text).map(({ of, title }) => `${of} ${title}`)).toEqual([
      'test a',
      'test b',
      'test c %s',
      'test d %s e',
      'test f',
      'group g',
    ]);
  });
});
