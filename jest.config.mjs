import { readFileSync } from 'node:fs';

const swc = JSON.parse(readFileSync(new URL('.swcrc', import.meta.url), 'utf8'));

/** Runs the specs on the TypeScript sources: nothing has to be built first. */
export default {
  testMatch: ['<rootDir>/test/**/*.spec.ts', '<rootDir>/test/**/*.e2e-spec.ts', '<rootDir>/libs/*/test/**/*.spec.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { ...swc, swcrc: false }] },
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  testEnvironmentOptions: { customExportConditions: ['@toolloop/source', 'node', 'node-addons'] },
  modulePathIgnorePatterns: ['<rootDir>/(dist|.build)/', '<rootDir>/libs/[^/]+/dist/'],
  coverageProvider: 'v8',
  collectCoverageFrom: ['src/**/*.ts', 'libs/*/src/**/*.ts', '!src/main.ts'],
  testTimeout: 30_000, // databases and whole applications start in them, on machines that may be busy
  maxWorkers: '100%', // a suite waits for databases and processes more than it computes
  workerIdleMemoryLimit: '512MB',
};
