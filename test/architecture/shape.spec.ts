import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { routeIn, sectionOf } from './document.js';
import { entriesOf, listFileOf, namesListed, namesOf } from './entries.js';
import { LARGER_IS_BETTER, LIMITS, READ_CALL, RULES, type Limit, type Measures } from './shape-limits.js';
import { shapeOf, sourcesOf } from './shape.js';
import { filesEntered, movesBetweenFiles, traceReadCall } from './trace/call-trace.js';

const libraries = readdirSync('libs');
const entries = new Map(libraries.map((library) => [library, entriesOf(`libs/${library}`)]));
/** The names of each entry as the lists have them, which spares a program of the compiler; while these are written anew, as the sources have them. */
const names = process.env['UPDATE_EXPORTS'] === '1' ? namesOf([...entries.values()].flat().map(({ file }) => file)) : undefined;
const tighter: string[] = [];

function measured(library: string): Measures {
  const exported = (entries.get(library) ?? []).map(
    (entry) => names?.get(entry.file)?.map(({ name }) => name) ?? namesListed(listFileOf(`libs/${library}`, entry)),
  );
  const publicNames = new Set(exported.flat());
  const folder = library === 'demo' ? 'src' : `libs/${library}/src`;
  return { ...shapeOf(sourcesOf(folder), publicNames), namesOnMainEntry: exported[0]?.length ?? 0 };
}

/** The figures that are worse than their limits, in words; notes the limits that are looser than they need to be. */
function worseThan(
  what: string,
  figures: Readonly<Record<string, number>>,
  limits: Readonly<Record<string, Limit | undefined>>,
): readonly string[] {
  return Object.entries(limits).flatMap(([measure, row]) => {
    const figure = figures[measure];
    if (!row || figure === undefined) return [`${what}: ${measure} is not measured`];
    const [limit, target = limit] = row;
    const isWorse = LARGER_IS_BETTER.has(measure) ? figure < limit : figure > limit;
    if (!isWorse && figure !== limit && limit !== target) tighter.push(`${what}: ${measure}: [${figure}, ${target}] instead of ${limit}`);
    return isWorse ? [`${what}: ${measure} is ${figure}, and its limit is ${limit}`] : [];
  });
}

afterAll(() => {
  if (tighter.length > 0) process.stdout.write(`Limits of shape-limits.ts that can be tightened:\n  ${tighter.join('\n  ')}\n`);
});

describe('the limits of the shape', () => {
  it('have a row for every library and for the demo', () => {
    expect(Object.keys(LIMITS).toSorted()).toEqual([...libraries, 'demo'].toSorted());
  });

  it('report a figure that is worse, whichever direction is better', () => {
    expect(worseThan('made', { files: 3, linesPerImport: 9 }, { files: [2], linesPerImport: [10] })).toEqual([
      'made: files is 3, and its limit is 2',
      'made: linesPerImport is 9, and its limit is 10',
    ]);
  });
});

describe.each([...libraries, 'demo'])('the shape of %s', (library) => {
  it('is no worse than its limits', () => {
    const figures = measured(library);
    expect(figures.files).toBeGreaterThan(0);
    expect(worseThan(library, { ...figures }, { ...RULES, ...LIMITS[library] })).toEqual([]);
  });
});

describe('one read call', () => {
  let entered: readonly string[] = [];
  const figures: Record<keyof typeof READ_CALL, number> = { filesInExec: 0, movesInExec: 0, filesInRun: 0, movesInRun: 0 };

  beforeAll(() => {
    const { run, exec } = traceReadCall();
    entered = filesEntered(run);
    figures.filesInExec = filesEntered(exec).length;
    figures.movesInExec = movesBetweenFiles(exec);
    figures.filesInRun = filesEntered(run).length;
    figures.movesInRun = movesBetweenFiles(run);
  }, 120_000);

  it('is traced through the whole run', () => {
    expect(figures.filesInExec).toBeGreaterThan(5);
    expect(figures.filesInRun).toBeGreaterThan(figures.filesInExec);
  });

  it('enters no more files and moves no more often than its limits say', () => {
    expect(worseThan('one read call', figures, READ_CALL)).toEqual([]);
  });

  it('takes the route that the document shows in at most twelve lines', () => {
    const route = routeIn(sectionOf('The route of one call'));
    const shown = route.flat();
    expect(route.length).toBeGreaterThan(5);
    expect(route.length).toBeLessThanOrEqual(12);
    expect(route.filter((files) => files.length === 0)).toEqual([]);
    expect(shown).toEqual(entered.filter((file) => shown.includes(file)));
  });
});

describe('the measurement of a shape', () => {
  const sources = new Map([
    ['lib/index.ts', `export * from './one.js';\n`],
    [
      'lib/one.ts',
      `import type { Two } from './two.js';\nimport { Injectable } from 'x';\n/** What a one is. */\n@Injectable()\nexport class One {\n  constructor(readonly a: Two, readonly b: Two) {}\n}\n`,
    ],
    [
      'lib/two.ts',
      `import { One } from './one.js';\n/** A two, which nobody reads. */\nexport class Two {\n  /** Makes one. */\n  make(): One {\n    throw new Error();\n  }\n}\n`,
    ],
    ['lib/folder/odd.name.ts', `import { Two } from '../two.js';\nimport { One } from '../one.js';\nexport const a: [One?, Two?] = [];\n`],
    [
      'lib/folder/x.module.ts',
      `export const OWN: Provider[] = [...OTHERS, One];\n@Module({ providers: [...OWN, Two] })\nexport class XModule {}\n`,
    ],
  ]);
  const shape = shapeOf(sources, new Set(['Two']));

  it('counts files, lines and the imports between them', () => {
    expect(shape).toMatchObject({ files: 5, lines: 22, largestFolder: 3, longestFile: 8, longestFunction: 3, linesPerImport: 4.4 });
  });

  it('counts the files with one importer, without entries and modules', () => {
    expect(shape.oneImporterPercent).toBe(0);
    expect(shapeOf(new Map([...sources].filter(([file]) => file !== 'lib/folder/odd.name.ts'))).oneImporterPercent).toBe(50);
  });

  it('finds a circle of types that is none of values', () => {
    expect([shape.largestTypeCircle, shape.largestValueCircle]).toEqual([2, 0]);
  });

  it('counts what Nest is given, parameters and odd file names', () => {
    expect(shape).toMatchObject({ injectables: 1, moduleProviders: 2, constructorParameters: 2, functionParameters: 0, oddFileNames: 1 });
  });

  it('counts docstrings without a subject, undocumented throws and riddles', () => {
    expect(shape).toMatchObject({ ellipticDocstringPercent: 33.3, throwsWithoutTag: 1, withoutExample: 0, riddles: 1 });
  });
});
