import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { programArguments } from '../program.js';

const run = promisify(execFile);

describe('npm run check:release', () => {
  it('refuses a check that it does not know, instead of passing with none', async () => {
    const args = [
      ...programArguments('tools/scripts/check-release.ts'),
      '--only',
      'packages',
      '--only',
      'benches',
    ];
    await expect(run(process.execPath, args)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('There is no check "benches"'),
    });
  });

  it('lists checks of at most 90 minutes together, each a command that this project has', async () => {
    const { stdout } = await run(process.execPath, [
      ...programArguments('tools/scripts/check-release.ts'),
      '--list',
    ]);
    const lines = stdout.trim().split('\n');
    const minutes = lines.map((line) => Number.parseInt(line, 10));
    const sum = minutes.pop();
    expect(minutes.length).toBeGreaterThan(10);
    expect(sum).toBe(minutes.reduce((total, one) => total + one, 0));
    expect(sum).toBeLessThanOrEqual(90);
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      readonly scripts: Readonly<Record<string, string>>;
    };
    const named = [...stdout.matchAll(/npm run -s ([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});
