import type { Shape } from './shape.js';

/** Names on the main entry of a package, and everything that `shapeOf` measures. */
export type Measures = Shape & { readonly namesOnMainEntry: number };

/**
 * `[limit, target]`. The limit is what the sources measure today and is only ever tightened; the target is what it is to become, and is left out
 * where the limit is the aim already. The spec fails where a figure is worse than its limit, and prints the limits that can be tightened.
 *
 * Ratios (lines per import, files with one importer, circles, largest file and function, moves, docstrings) hold for ever. Files, lines,
 * injectables and names may be raised by a line in docs/decisions.
 */
export type Limit = readonly [limit: number, target?: number];

export type Limits = Readonly<Partial<Record<keyof Measures, Limit>>>;

/** The figures that are better when they are larger; all others are better when they are smaller. */
export const LARGER_IS_BETTER: ReadonlySet<string> = new Set<keyof Measures>(['linesPerImport']);

/** What holds in every library, also where a row does not name it. A row may name a weaker limit until its sources are mended. */
export const RULES: Limits = {
  longestFile: [400],
  longestFunction: [60],
  functionParameters: [5],
  constructorParameters: [8],
  largestTypeCircle: [3],
  largestValueCircle: [0],
};

export const LIMITS: Readonly<Record<string, Limits>> = {
  protocol: {
    linesPerImport: [20],
    oneImporterPercent: [15],
    ellipticDocstringPercent: [40, 5],
    throwsWithoutTag: [0],
    withoutExample: [9, 0],
    riddles: [20, 0],
    oddFileNames: [0],
  },
  core: {
    files: [153, 140],
    largestFolder: [31, 27],
    lines: [26664, 22000],
    linesPerImport: [20],
    oneImporterPercent: [10],
    largestTypeCircle: [3],
    injectables: [66, 30],
    moduleProviders: [75, 30],
    namesOnMainEntry: [90],
    ellipticDocstringPercent: [31.2, 5],
    throwsWithoutTag: [11, 0],
    withoutExample: [41, 0],
    riddles: [235, 0],
    oddFileNames: [4, 0],
  },
  durable: {
    linesPerImport: [18],
    oneImporterPercent: [30.3, 15],
    ellipticDocstringPercent: [22.6, 5],
    throwsWithoutTag: [6, 0],
    withoutExample: [8, 0],
    riddles: [87, 0],
    oddFileNames: [5, 0],
  },
  openai: {
    linesPerImport: [35, 18],
    oneImporterPercent: [15.4, 15],
    ellipticDocstringPercent: [22.7, 5],
    throwsWithoutTag: [0],
    withoutExample: [0],
    riddles: [3, 0],
    oddFileNames: [0, 0],
  },
  anthropic: {
    linesPerImport: [18],
    oneImporterPercent: [12.5, 15],
    ellipticDocstringPercent: [27.2, 5],
    throwsWithoutTag: [0],
    withoutExample: [0],
    riddles: [9, 0],
    oddFileNames: [0, 0],
  },
  testing: {
    linesPerImport: [18],
    oneImporterPercent: [6.7, 15],
    ellipticDocstringPercent: [1.1, 5],
    throwsWithoutTag: [4, 0],
    withoutExample: [0],
    riddles: [9, 0],
    oddFileNames: [0, 0],
  },
  wire: {
    linesPerImport: [29.9],
    oneImporterPercent: [37.5],
    ellipticDocstringPercent: [24.4, 5],
    throwsWithoutTag: [2, 0],
    withoutExample: [1, 0],
    riddles: [6, 0],
    oddFileNames: [0, 0],
  },
  offline: {
    lines: [3951, 1500],
    linesPerImport: [18],
    oneImporterPercent: [32.5],
    ellipticDocstringPercent: [30.9, 5],
    throwsWithoutTag: [0],
    withoutExample: [0],
    riddles: [7, 0],
    oddFileNames: [28, 0],
  },
  toolbox: {
    linesPerImport: [18],
    oneImporterPercent: [36.7],
    ellipticDocstringPercent: [0, 5],
    throwsWithoutTag: [2, 0],
    withoutExample: [3, 0],
    riddles: [1, 0],
    oddFileNames: [0, 0],
  },
  'ui-stream': {
    linesPerImport: [15],
    oneImporterPercent: [0],
    ellipticDocstringPercent: [5],
    throwsWithoutTag: [0],
    withoutExample: [0],
    riddles: [0],
    oddFileNames: [0],
  },
  demo: {
    files: [53, 50],
    linesPerImport: [6.3],
    oneImporterPercent: [25.5],
    largestTypeCircle: [0, 0],
    largestValueCircle: [0, 0],
    ellipticDocstringPercent: [0.6, 5],
    throwsWithoutTag: [0],
    withoutExample: [0],
    riddles: [4, 0],
    oddFileNames: [1, 0],
  },
};

/** One run with one read tool: the files of core that `ToolRunner.exec` enters, and how often execution moves to another file there. */
export const READ_CALL = {
  filesInExec: [36, 20],
  movesInExec: [92, 45],
  filesInRun: [131],
  movesInRun: [464],
} as const satisfies Readonly<Record<string, Limit>>;
