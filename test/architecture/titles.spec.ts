import { describe, expect, it } from '@jest/globals';
import { isWholeSentence, titlesIn, titlesOf, type Title } from './titles.js';
import { riddlesIn } from './words.js';
import { LIBRARIES } from './layers.js';

const folders = [
  'test',
  ...LIBRARIES.flatMap((library) => [`libs/${library}/src`, `libs/${library}/test`]),
];

describe('the titles of the tests', () => {
  const titles = folders.flatMap(titlesOf);

  it('are whole sentences', () => {
    // A title that is all placeholder stands in the rows of its table.
    const tests = titles.filter(
      ({ of, title }) => of === 'test' && /\w{2}/.test(title.replaceAll('%s', '')),
    );
    expect(tests.length).toBeGreaterThan(1000);
    expect(tests.filter(({ title }) => !isWholeSentence(title)).map(inWords)).toEqual([]);
  });

  it('have no riddles in their groups', () => {
    const groups = titles.filter(({ of }) => of === 'group');
    expect(groups.length).toBeGreaterThan(100);
    expect(groups.filter(({ title }) => riddlesIn(title).length > 0).map(inWords)).toEqual([]);
  });
});

function inWords({ file, title }: Title): string {
  return `${file}: ${title}`;
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
