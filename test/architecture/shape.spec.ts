import { beforeAll, describe, expect, it } from '@jest/globals';
import { routeIn, sectionOf } from './document.js';
import { entriesOf, listFileOf, namesListed, namesOf } from './entries.js';
import { RULES, type Measure } from './shape-rules.js';
import { shapeOf, sourcesOf, type Shape } from './shape.js';
import { filesEntered, reportOf, traceReadCall, type CallTrace } from './trace/call-trace.js';
import { LIBRARIES } from './layers.js';

const libraries = LIBRARIES;
const entries = new Map(libraries.map((library) => [library, entriesOf(`libs/${library}`)]));
/**
 * The names of each entry as the lists have them, which spares a program of the compiler; while
 * these are written anew, as the sources have them.
 */
const names =
  process.env['UPDATE_EXPORTS'] === '1'
    ? namesOf([...entries.values()].flat().map(({ file }) => file))
    : undefined;

function shapeOfLibrary(library: string): Shape {
  const exported = (entries.get(library) ?? []).map(
    (entry) =>
      names?.get(entry.file)?.map(({ name }) => name) ??
      namesListed(listFileOf(`libs/${library}`, entry)),
  );
  const folder = library === 'demo' ? 'src' : `libs/${library}/src`;
  return shapeOf(sourcesOf(folder), new Set(exported.flat()));
}

/** The figures that break their rule, in words. */
function brokenRules(shape: Shape): readonly string[] {
  const rules = Object.entries(RULES) as [Measure, number][];
  return rules
    .filter(([measure, most]) => shape[measure] > most)
    .map(([measure, most]) => `${measure} is ${shape[measure]}, and may be ${most}`);
}

describe.each([...libraries, 'demo'])('the shape of %s', (library) => {
  it('keeps every rule', () => {
    const shape = shapeOfLibrary(library);
    expect(shape.files).toBeGreaterThan(0);
    expect(brokenRules(shape)).toEqual([]);
  });
});

describe('one read call', () => {
  let trace: CallTrace;
  let entered: readonly string[] = [];

  beforeAll(() => {
    trace = traceReadCall();
    entered = filesEntered(trace.run);
    process.stdout.write(`${reportOf('exec', trace.exec)}\n${reportOf('the run', trace.run)}\n`);
  });

  it('is traced through the whole run', () => {
    expect(filesEntered(trace.exec).length).toBeGreaterThan(5);
    expect(entered.length).toBeGreaterThan(filesEntered(trace.exec).length);
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
    [
      'lib/folder/odd.name.ts',
      `import { Two } from '../two.js';\nimport { One } from '../one.js';\nexport const a: [One?, Two?] = [];\n`,
    ],
    [
      'lib/folder/x.module.ts',
      `export const OWN: Provider[] = [...OTHERS, One];\n@Module({ providers: [...OWN, Two] })\nexport class XModule {}\n`,
    ],
  ]);
  const shape = shapeOf(sources, new Set(['Two']));

  it('counts files and the lines of functions', () => {
    expect(shape).toMatchObject({ files: 5, longestFunction: 3 });
  });

  it('finds a circle of types that is none of values', () => {
    expect([shape.largestTypeCircle, shape.largestValueCircle]).toEqual([2, 0]);
  });

  it('counts parameters and odd file names', () => {
    expect(shape).toMatchObject({
      constructorParameters: 2,
      functionParameters: 0,
      oddFileNames: 1,
    });
  });

  it('counts docstrings without a subject, undocumented throws and riddles', () => {
    expect(shape).toMatchObject({
      ellipticDocstrings: 1,
      throwsWithoutTag: 1,
      withoutExample: 0,
      riddles: 1,
    });
  });
});
