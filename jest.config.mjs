import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

const swc = JSON.parse(readFileSync(new URL('.swcrc', import.meta.url), 'utf8'));
const pathOf = (file) => fileURLToPath(new URL(file, import.meta.url));

// The processes that specs start load the same modules again and again: compiled once, they start
// in less of the processor's time.
process.env.NODE_COMPILE_CACHE ??= pathOf('node_modules/.cache/toolloop-compiled');

/** What holds for the sources and for what is built of them. */
export const common = {
  testPathIgnorePatterns: [
    '/node_modules/',
    // Processes, and databases on a disk: with TOOLLOOP_FULL=1, as in `.ci/run`.
    ...(process.env.TOOLLOOP_FULL === '1' ? [] : ['\\.long\\.spec\\.[jt]s$']),
    // What takes most of a minute: with TOOLLOOP_RELEASE=1, as in `npm run check:release`.
    ...(process.env.TOOLLOOP_RELEASE === '1' ? [] : ['\\.release\\.spec\\.[jt]s$']),
  ],
  testEnvironment: pathOf('test/jest/shared.environment.mjs'),
  runtime: pathOf('test/jest/shared.runtime.mjs'),
  testSequencer: pathOf('test/jest/longest-first.mjs'),
  coverageProvider: 'v8',
  // a limit for hanging alone: under load, the first test of a file may load its modules for a
  // minute
  testTimeout: 300_000,
  // a suite waits for databases and processes: two of them leave two processors idle
  maxWorkers: Math.max(3, availableParallelism()),
  workerIdleMemoryLimit: '1GB', // a worker that is replaced loads everything anew
};

/** Runs the specs on the TypeScript sources: nothing has to be built first. */
export default {
  ...common,
  testMatch: [
    '<rootDir>/test/**/*.spec.ts',
    '<rootDir>/test/**/*.e2e-spec.ts',
    '<rootDir>/libs/*/test/**/*.spec.ts',
  ],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { ...swc, swcrc: false }] },
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  testEnvironmentOptions: { customExportConditions: ['@toolloop/source', 'node', 'node-addons'] },
  modulePathIgnorePatterns: ['<rootDir>/(dist|.build)/', '<rootDir>/libs/[^/]+/dist/'],
  collectCoverageFrom: ['src/**/*.ts', 'libs/*/src/**/*.ts', '!src/main.ts'],
};
