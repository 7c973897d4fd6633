import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const run = promisify(execFile);
const BUILDS = 6;

describe('the pages that the package of core brings', () => {
  const checkout = mkdtempSync(join(tmpdir(), 'toolloop-docs-'));
  const core = join(checkout, 'libs/core');
  const copy = (): Promise<unknown> =>
    run(process.execPath, [join(checkout, 'docs/into-package.mjs')]);
  beforeAll(async () => {
    cpSync('docs', join(checkout, 'docs'), {
      recursive: true,
      filter: (path) => !path.includes('node_modules'),
    });
    await mkdir(core, { recursive: true });
  });
  afterAll(() => rmSync(checkout, { recursive: true }));

  it('are whole after several builds of one checkout at once, and nothing else is left', async () => {
    await copy();
    const pages = readdirSync(join(core, 'docs'), { recursive: true, encoding: 'utf8' }).toSorted();
    await Promise.all(Array.from({ length: BUILDS }, copy));
    expect(
      readdirSync(join(core, 'docs'), { recursive: true, encoding: 'utf8' }).toSorted(),
    ).toEqual(pages);
    expect(readFileSync(join(core, 'docs/llms.txt'), 'utf8')).toContain('](start/');
    expect(readdirSync(core)).toEqual(['docs']);
  });
});
