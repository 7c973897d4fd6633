import { describe, expect, it } from '@jest/globals';
import { fileOf, toolloop } from './command.js';

const DEMO = fileOf('src/app.module.ts');

describe('toolloop resources rls', () => {
  it('prints the migration that protects the tables of the demo, and nothing else', async () => {
    const { code, stdout } = await toolloop(['resources', 'rls', '--app', DEMO]);
    expect(code).toBe(0);
    expect(stdout).toContain('alter table "orders" force row level security;');
    for (const line of stdout.trimEnd().split('\n')) expect(line).toMatch(/;$/);
  });

  it('applies nothing: the database need not be there', async () => {
    const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };
    const { code, stdout } = await toolloop(['resources', 'rls', '--app', DEMO, '--json'], { env });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ migration: expect.stringContaining('create policy') });
  });

  it('says that an application has no resources', async () => {
    const { code, stderr } = await toolloop(['resources', 'rls', '--app', fileOf('libs/cli/test/notes-app.module.ts')]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('it imports no ResourceToolsModule.')]);
  });
});
