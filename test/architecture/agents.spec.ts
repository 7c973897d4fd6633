import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { RULES } from './shape-rules.js';

const REFERENCE = 'AGENTS.md';
const reference = readFileSync(REFERENCE, 'utf8');

/** The rules that the reference shows. */
const SHOWN: Readonly<Record<string, number>> = {
  'lines of a function': RULES.longestFunction,
  'parameters of a function': RULES.functionParameters,
  'parameters of a constructor': RULES.constructorParameters,
  'files in a circle of types': RULES.largestTypeCircle,
  'files in a circle of values': RULES.largestValueCircle,
};

/** The rows of the table below a heading, cell by cell, without its head. */
function tableBelow(heading: string): readonly (readonly string[])[] {
  const section = reference.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

describe('the page of the invariants', () => {
  const rows = readFileSync('docs/invariants.md', 'utf8').matchAll(
    /^\| (\d+) \| [^|]+ \| \[`[^`]+`\]\(\.\.\/([^)]+)\) \|$/gm,
  );
  const specs = [...rows].map(([, number = '', spec = '']) => [number, spec] as const);

  it('has each of them, by its number', () => {
    expect(specs.map(([number]) => number)).toEqual(
      Array.from({ length: 20 }, (_, index) => String(index + 1)),
    );
  });

  it.each(specs)('names for invariant %s a spec whose titles bear the number', (number, spec) => {
    const groups = [...readFileSync(spec, 'utf8').matchAll(/invariants? ((?:\d+(?:, | and )?)+)/g)];
    expect(groups.flatMap(([, numbers = '']) => numbers.split(/\D+/))).toContain(number);
  });
});

describe('the reference of the repository', () => {
  it('shows the rules of the shape as the test holds them', () => {
    const expected = Object.entries(SHOWN).map(([measure, most]) => [measure, String(most)]);
    expect(tableBelow('The shape')).toEqual(expected);
  });

  it('says of at least ten changes where they go, in files that exist', () => {
    const rows = tableBelow('Where does it go');
    expect(rows.length).toBeGreaterThanOrEqual(10);
    for (const [change, files = ''] of rows) {
      const links = [...files.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target);
      expect([change, links.length > 0, links.filter((link) => !existsSync(link))]).toEqual([
        change,
        true,
        [],
      ]);
    }
  });

  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      readonly scripts: Readonly<Record<string, string>>;
    };
    const named = [...reference.matchAll(/npm (?:run (?:-s )?)?([a-z:]+)/g)]
      .map(([, script = '']) => script)
      .filter((one) => !['ci', 'install'].includes(one));
    expect(named).toContain('typecheck');
    expect(named.filter((script) => scripts[script] === undefined)).toEqual([]);
  });

  it('gives each word of the glossary a meaning and the words it replaces, and no word twice', () => {
    const words = tableBelow('Words');
    expect(words.length).toBeGreaterThan(15);
    expect(words.filter((cells) => cells.length !== 3 || cells.includes(''))).toEqual([]);
    const names = words.flatMap(([word = '']) => word.split(/, | · /));
    expect(names).toEqual([...new Set(names)]);
  });
});
