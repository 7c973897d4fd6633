import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { titlesOf } from '../architecture/titles.js';

const PAGE = 'docs/mcp-security.md';
const NUMBERS = [
  ...Array.from({ length: 20 }, (_, index) => `S${index + 1}`),
  ...Array.from({ length: 14 }, (_, index) => `C${index + 1}`),
];
const WITHOUT_SPEC = /^(?:`npm run conformance`|Does not apply): \w/;

/** The specs that hold a row, as its cell names them: those whose title begins with its number. */
function specsOf(number: string): string {
  const holding = titlesOf('libs/mcp/test').flatMap(({ title, file }) => {
    const [, numbers = '', rest = ''] = /^((?:[SC]\d+(?:, )?)+): (.*)$/.exec(title) ?? [];
    return numbers.split(', ').includes(number)
      ? [{ file: relative('libs/mcp/test', file), rest }]
      : [];
  });
  const files = [...new Set(holding.map(({ file }) => file))].toSorted();
  const linked = (file: string): string => {
    const titles = holding.filter((one) => one.file === file).map(({ rest }) => rest);
    return `[${file.replace(/^.*\/|(?:\.long)?\.spec\.ts$/g, '')}](../libs/mcp/test/${file}): ${titles.join(' · ')}`;
  };
  return files.map(linked).join('<br>');
}

describe('the page of security requirements of MCP', () => {
  const cells = new Map(
    [...readFileSync(PAGE, 'utf8').matchAll(/^\| ([SC]\d+) \| .+? \| (.+) \|$/gm)].map(
      ([, number = '', cell = '']) => [number, cell],
    ),
  );

  it('has every row', () => {
    expect([...cells.keys()]).toEqual(NUMBERS);
  });

  it.each(NUMBERS)('names the specs that hold %s, or says why there is none', (number) => {
    const cell = cells.get(number) ?? '';
    expect(WITHOUT_SPEC.test(cell) ? '' : cell).toBe(specsOf(number));
  });
});
