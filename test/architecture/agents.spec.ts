import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { LIMITS, READ_CALL, RULES, type Limit } from './shape-limits.js';

const REFERENCE = 'AGENTS.md';
const reference = readFileSync(REFERENCE, 'utf8');

/** A limit in thousands, so that a change of a few lines leaves the reference as it is. */
function inThousands([limit, target = limit]: Limit = [0]): Limit {
  return [Math.round(limit / 1000), Math.round(target / 1000)];
}

/** The limits that the reference shows: what the sources are held to today, and what they are to become. */
const SHOWN: Readonly<Record<string, Limit | undefined>> = {
  'lines of a file': RULES.longestFile,
  'lines of a function': RULES.longestFunction,
  'parameters of a function': RULES.functionParameters,
  'parameters of a constructor': RULES.constructorParameters,
  'files in a circle of types': RULES.largestTypeCircle,
  'files in a circle of values': RULES.largestValueCircle,
  'files of core': LIMITS['core']?.files,
  'thousands of lines of core': inThousands(LIMITS['core']?.lines),
  'files in a folder of core': LIMITS['core']?.largestFolder,
  'lines of core per import, at least': LIMITS['core']?.linesPerImport,
  "percent of core's files with one importer": LIMITS['core']?.oneImporterPercent,
  'injectables of core': LIMITS['core']?.injectables,
  'names on the main entry of core': LIMITS['core']?.namesOnMainEntry,
  'percent of elliptic docstrings': LIMITS['core']?.ellipticDocstringPercent,
  'files that one read call enters in `exec`': READ_CALL.filesInExec,
  'moves between files in that call': READ_CALL.movesInExec,
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
  const rows = readFileSync('docs/invariants.md', 'utf8').matchAll(/^\| (\d+) \| [^|]+ \| \[`[^`]+`\]\(\.\.\/([^)]+)\) \|$/gm);
  const specs = [...rows].map(([, number = '', spec = '']) => [number, spec] as const);

  it('has each of them, by its number', () => {
    expect(specs.map(([number]) => number)).toEqual(Array.from({ length: 20 }, (_, index) => String(index + 1)));
  });

  it.each(specs)('names for invariant %s a spec whose titles bear the number', (number, spec) => {
    const groups = [...readFileSync(spec, 'utf8').matchAll(/invariants? ((?:\d+(?:, | and )?)+)/g)];
    expect(groups.flatMap(([, numbers = '']) => numbers.split(/\D+/))).toContain(number);
  });
});

describe('the reference of the repository', () => {
  it('has at most 120 lines', () => {
    expect(reference.trimEnd().split('\n').length).toBeLessThanOrEqual(120);
  });

  it('shows the limits of the shape as the test holds them', () => {
    const expected = Object.entries(SHOWN).map(([measure, limit]) => [measure, String(limit?.[0]), String(limit?.at(-1))]);
    expect(tableBelow('The shape')).toEqual(expected);
  });

  it('says of at least ten changes where they go, in files that exist', () => {
    const rows = tableBelow('Where does it go');
    expect(rows.length).toBeGreaterThanOrEqual(10);
    for (const [change, files = ''] of rows) {
      const links = [...files.matchAll(/\]\(([^)]+)\)/g)].map(([, target = '']) => target);
      expect([change, links.length > 0, links.filter((link) => !existsSync(link))]).toEqual([change, true, []]);
    }
  });

  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly scripts: Readonly<Record<string, string>> };
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
