import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { run } from '../src/program.js';

/**
 * What it writes to the standard error; its exit code is that of a command that could not be
 * carried out.
 */
async function refusal(): Promise<string> {
  const told: string[] = [];
  const spy = jest
    .spyOn(process.stderr, 'write')
    .mockImplementation((text) => told.push(String(text)) > 0);
  expect(await run(['init'])).toBe(2);
  spy.mockRestore();
  return told.join('');
}

describe('toolloop init', () => {
  const before = process.cwd();
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'toolloop-init-'));
    process.chdir(folder);
  });
  afterEach(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
  });

  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  it('asks for the command line of Nest where the folder has none', async () => {
    expect(await refusal()).toContain('There is no @nestjs/cli in');
  });

  it('says which Nest is needed before npm refuses the packages without a reason', async () => {
    write('node_modules/@nestjs/cli/bin/nest.js', 'process.exitCode = 1;');
    expect(await refusal()).toContain('install the packages of the project first');
    write(
      'node_modules/@nestjs/core/package.json',
      JSON.stringify({ name: '@nestjs/core', version: '11.2.10' }, null, 2),
    );
    expect(await refusal()).toContain(
      'Toolloop needs NestJS 12 or newer, and this project has 11.2.10.',
    );
    write(
      'node_modules/@nestjs/core/package.json',
      JSON.stringify({ name: '@nestjs/core', version: '12.5.1' }),
    );
    expect(await refusal()).toContain('"nest add @toolloop/core" has failed.');
  });
});
