import { describe, expect, it } from '@jest/globals';
import { fileOf, toolloop } from './command.js';

const DEMO = fileOf('src/app.module.ts');

describe('toolloop resources rls', () => {
  it('prints the migration that protects the tables of the demo, and nothing else', async () => {
    const { code, stdout } = await toolloop(['resources', 'rls', '--app', DEMO]);
    expect(code).toBe(0);
    expect(stdout).toContain('alter table "desk"."orders" force row level security;');
    for (const line of stdout.trimEnd().split('\n')) expect(line).toMatch(/;$/);
  });

  it('prints it for programs, too', async () => {
    const { code, stdout } = await toolloop(['resources', 'rls', '--app', DEMO, '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      { migration: expect.stringContaining('create policy') },
    ]);
  });

  it('says that an application has no resources', async () => {
    const { code, stderr } = await toolloop([
      'resources',
      'rls',
      '--app',
      fileOf('libs/cli/test/notes-app.module.ts'),
    ]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('it imports no ResourceToolsModule.'),
    ]);
  });
});
