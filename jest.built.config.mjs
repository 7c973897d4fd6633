import { common } from './jest.config.mjs';

/** Runs the same specs on what tsc emitted into .build: its decorator metadata differs from SWC's. */
export default {
  ...common,
  rootDir: '.build',
  transform: {},
  testMatch: ['<rootDir>/test/**/*.spec.js', '<rootDir>/test/**/*.e2e-spec.js', '<rootDir>/libs/*/test/**/*.spec.js'],
  moduleNameMapper: {
    '^@toolloop/protocol/egress$': '<rootDir>/libs/protocol/src/egress-guard.js',
    '^@toolloop/resources/mikro-orm$': '<rootDir>/libs/resources/src/mikro-orm/index.js',
    '^@toolloop/core/stores$': '<rootDir>/libs/core/src/memory/index.js',
    '^@toolloop/core/([a-z-]+)$': '<rootDir>/libs/core/src/$1/index.js',
    '^@toolloop/(protocol|core|wire|openai|anthropic|offline|toolbox|durable|mcp|resources|ui-stream|testing)$':
      '<rootDir>/libs/$1/src/index.js',
  },
  coverageDirectory: '<rootDir>/../coverage',
  collectCoverageFrom: ['src/**/*.js', 'libs/*/src/**/*.js'],
};
