import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { brokenLinksOf, linkedFrom, missingPathsOf, pagesOfRepository } from './pages.js';
import { SITE } from '../docs/site.js';
import { riddlesIn } from './words.js';
import { LIBRARIES } from './layers.js';

const MAP = 'docs/README.md';
const pages = pagesOfRepository();
const folder = mkdtempSync(join(tmpdir(), 'toolloop-pages-'));

afterAll(() => rmSync(folder, { recursive: true }));

describe('the reader of pages', () => {
  const page = join(folder, 'page.md');
  writeFileSync(
    page,
    '# A heading: one\n\n[a](#a-heading-one) [b](#two) [c](gone.md) [d](https://x.y)\n\n```md\n[e](e.md)\n```\n',
  );

  it('finds the links that lead nowhere, to a file or to a heading', () => {
    expect(brokenLinksOf(page)).toEqual(['#two', 'gone.md']);
  });

  it('finds the paths of the repository that do not exist', () => {
    const other = join(folder, 'other.md');
    writeFileSync(other, '`libs/core/src` `libs/gone.ts` `crm/gone` `libs/*/test`\n');
    expect(missingPathsOf(other)).toEqual(['libs/gone.ts']);
  });
});

describe.each(pages)('%s', (page) => {
  it('links only to files and headings that exist', () => {
    expect(brokenLinksOf(page)).toEqual([]);
  });

  it('says who does what, without riddles', () => {
    expect(riddlesIn(readFileSync(page, 'utf8'))).toEqual([]);
  });

  it('names only files that exist', () => {
    expect(missingPathsOf(page)).toEqual([]);
  });
});

describe('the map of the documentation', () => {
  it('links to every page of the repository that the site does not have', () => {
    const linked = new Set(linkedFrom(MAP));
    expect(pages.length).toBeGreaterThan(15);
    expect(pages.filter((page) => page !== MAP && !SITE.test(page) && !linked.has(page))).toEqual(
      [],
    );
  });

  it('finds the decisions by topic, and none by date', () => {
    expect(pages.filter((page) => /^docs\/decisions\/\d/.test(page))).toEqual([]);
  });

  it('is linked from the README', () => {
    expect(linkedFrom('README.md')).toContain(MAP);
  });
});

describe('the changelog', () => {
  it('has one unreleased section, and kinds of changes that Keep a Changelog knows', () => {
    const headings = readFileSync('CHANGELOG.md', 'utf8').match(/^#{2,3} .+$/gm) ?? [];
    expect(headings.filter((heading) => heading === '## [Unreleased]')).toHaveLength(1);
    const kinds = headings
      .filter((heading) => heading.startsWith('### '))
      .map((heading) => heading.slice(4));
    expect(kinds).not.toEqual([]);
    expect(
      kinds.filter(
        (kind) =>
          !['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'].includes(kind),
      ),
    ).toEqual([]);
  });
});

describe.each(LIBRARIES)('the package %s', (library) => {
  const manifest = JSON.parse(readFileSync(`libs/${library}/package.json`, 'utf8')) as Record<
    string,
    unknown
  >;

  it('is published with the licence of the repository', () => {
    expect(readFileSync(`libs/${library}/LICENSE`, 'utf8')).toBe(readFileSync('LICENSE', 'utf8'));
    expect([manifest['license'], manifest['files']]).toEqual([
      'MIT',
      expect.arrayContaining(['LICENSE']),
    ]);
  });

  it('is a workspace, is built, and has a row in the README', () => {
    const { workspaces } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      readonly workspaces: readonly string[];
    };
    expect(workspaces).toContain(`libs/${library}`);
    expect(readFileSync('tsconfig.build.json', 'utf8')).toContain(
      `"libs/${library}/tsconfig.build.json"`,
    );
    expect(linkedFrom('README.md')).toContain(`libs/${library}/README.md`);
  });

  it('has a README that begins with its name', () => {
    expect(readFileSync(`libs/${library}/README.md`, 'utf8')).toMatch(
      new RegExp(`^# ${String(manifest['name'])}\n`),
    );
  });
});
