import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';

// Everything is built, and one runner is installed.
jest.setTimeout(600_000);

const folder = mkdtempSync(join(tmpdir(), 'toolloop-runners-'));
const PACKAGES = ['protocol', 'core', 'testing'];

/**
 * An application of the packages as they are published, with what they need from this repository.
 */
function application(name: string, files: Readonly<Record<string, string>>): string {
  const root = join(folder, name);
  mkdirSync(join(root, 'node_modules/@toolloop'), { recursive: true });
  for (const one of readdirSync('node_modules').filter(
    (entry) => !entry.startsWith('.') && entry !== '@toolloop',
  ))
    symlinkSync(resolve('node_modules', one), join(root, 'node_modules', one));
  for (const one of PACKAGES)
    for (const part of ['dist', 'package.json'])
      cpSync(join('libs', one, part), join(root, 'node_modules/@toolloop', one, part), {
        recursive: true,
      });
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
  return root;
}

/**
 * What an application tests with this package: a run, its matchers, and a contract of an adapter of
 * its own.
 */
const SPEC = `
import { Test } from '@nestjs/testing';
import { tool, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { MemoryUsageStore } from '@toolloop/core/stores';
import { blockRealModels, call, calls, collect, ScriptedModel, text, toolLoopMatchers, usageStoreContract } from '@toolloop/testing';

expect.extend(toolLoopMatchers as never);
blockRealModels();

const input = { type: 'object', properties: {} } as const;
const refund = tool({ id: 'orders__refund', description: 'Refunds.', effect: 'read_only', input, reveal: 'all', execute: () => 'refunded' });

it('runs a tool', async () => {
  const model = new ScriptedModel([calls(call('orders__refund'), call('orders__gone')), text('Done.')]);
  const policy = { allow: ['orders__*'], flow: 'off' as const };
  const module = await Test.createTestingModule({ imports: [ToolLoopModule.forRoot({ model, policy, tools: [refund] })] }).compile();
  const app = await module.init();
  const events = await collect(app.get(ToolLoopService).stream({ prompt: 'Refund.', actor: { id: 'ann' }, tenant: 'acme' }));
  (expect(events) as never as { toEndOnce(): void }).toEndOnce();
  expect(events.some((one) => one.type === 'tool-result' && one.record.result === 'refunded')).toBe(true);
  model.assertComplete();
  await app.close();
});

usageStoreContract('in memory', () => Promise.resolve({ store: new MemoryUsageStore() }), { describe, it, beforeAll, afterAll });
`;

beforeAll(() => {
  execFileSync('npm', ['run', '-s', 'build'], { stdio: 'inherit' });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs one program of Node.js, and returns what it wrote. */
function run(
  root: string,
  ...args: readonly string[]
): { readonly status: number | null; readonly told: string } {
  const { NODE_OPTIONS: _options, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: 'utf8',
    env: { ...env, CI: 'true' },
  });
  return { status, told: stdout + stderr };
}

describe('the testing package', () => {
  it('works in Jest with CommonJS, as its README says', () => {
    const swc = {
      jsc: {
        parser: { syntax: 'typescript', decorators: true },
        transform: { legacyDecorator: true, decoratorMetadata: true },
      },
      module: { type: 'commonjs' },
    };
    const config = { testEnvironment: 'node', transform: { '^.+\\.ts$': ['@swc/jest', swc] } };
    const root = application('jest', {
      'package.json': '{ "name": "jest-app", "private": true }',
      'jest.config.json': JSON.stringify(config),
      'run.spec.ts': SPEC,
    });
    const { status, told } = run(
      root,
      '--experimental-vm-modules',
      resolve('node_modules/jest/bin/jest.js'),
      '--no-cache',
    );
    expect([status, told]).toEqual([0, expect.stringMatching(/Tests: +\d\d+ passed/)]);
  });

  it('works in Vitest', () => {
    const tools = join(folder, 'tools');
    mkdirSync(tools);
    execFileSync(
      'npm',
      ['install', '--no-audit', '--no-fund', '--silent', '--prefix', tools, 'vitest@^4'],
      { stdio: 'inherit' },
    );
    const root = application('vitest', {
      'package.json': '{ "name": "vitest-app", "type": "module", "private": true }',
      'vitest.config.mjs': 'export default { test: { globals: true, root: import.meta.dirname } };',
      'run.spec.ts': SPEC,
    });
    const { status, told } = run(root, join(tools, 'node_modules/vitest/vitest.mjs'), 'run');
    expect([status, told]).toEqual([0, expect.stringMatching(/Tests.+\d\d+ passed/)]);
  });
});
