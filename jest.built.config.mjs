import { cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { common } from './jest.config.mjs';
import { builtSpecs, otherSpecs } from './test/jest/built-specs.mjs';

const specsOf = process.env.TOOLLOOP_BUILT === 'others' ? otherSpecs : builtSpecs;

// What the demo and its tests read beside their code, and tsc does not emit: the server of the
// carrier, the pins of its tools, and the clients of the chat protocols.
for (const path of ['src/mcp.pins.json', 'examples/carrier', 'test/protocols/clients'])
  cpSync(new URL(path, import.meta.url), new URL(`.build/${path}`, import.meta.url), {
    recursive: true,
  });

/**
 * Runs on what tsc emitted into .build, whose decorator metadata differs from SWC's, the specs that
 * may show something else there, and those that `npm test` leaves out or shortens. With
 * TOOLLOOP_BUILT=others it runs all others.
 */
export default {
  ...common,
  rootDir: '.build',
  transform: {},
  testMatch: specsOf(fileURLToPath(new URL('.build', import.meta.url))).map(
    (path) => `<rootDir>/${path}`,
  ),
  moduleNameMapper: {
    '^@toolloop/protocol/egress$': '<rootDir>/libs/protocol/src/egress-guard.js',
    '^@toolloop/protocol/routes$': '<rootDir>/libs/protocol/src/routes/index.js',
    '^@toolloop/resources/(mikro-orm|typeorm)$': '<rootDir>/libs/resources/src/$1/index.js',
    '^@toolloop/testing/resources$': '<rootDir>/libs/testing/src/resources/index.js',
    '^@toolloop/core/stores$': '<rootDir>/libs/core/src/memory/index.js',
    '^@toolloop/core/(audit|directives|history|sources|strategies|usage)$':
      '<rootDir>/libs/core/src/plugins/$1/index.js',
    '^@toolloop/core/([a-z-]+)$': '<rootDir>/libs/core/src/$1/index.js',
    '^@toolloop/(protocol|client|react|console|core|wire|openai|anthropic|offline|toolbox|durable|mcp|http|resources|ui-stream|telemetry|testing|evals)$':
      '<rootDir>/libs/$1/src/index.js',
  },
  coverageDirectory: '<rootDir>/../coverage',
  collectCoverageFrom: ['src/**/*.js', 'libs/*/src/**/*.js'],
};
