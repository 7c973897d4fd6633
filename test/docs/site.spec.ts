import { existsSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { pagesOfRepository } from '../architecture/pages.js';
import { importPage } from './fences.js';
import { pageAt, SIDEBAR, SITE } from './site.js';
import { LIBRARIES } from '../architecture/layers.js';

const pages = pagesOfRepository().filter((page) => SITE.test(page));
const linked = SIDEBAR.flatMap(({ items }) => items.map(({ link }) => pageAt(link)));

describe('the navigation of the site', () => {
  it('leads to pages that exist, and to each once', () => {
    expect(linked.filter((page) => !existsSync(page))).toEqual([]);
    expect(linked).toEqual([...new Set(linked)]);
  });

  it('has every page of the site', () => {
    expect(pages.filter((page) => !linked.includes(page))).toEqual([]);
  });

  it('has the README of every package', () => {
    expect(LIBRARIES.filter((library) => !linked.includes(`libs/${library}/README.md`))).toEqual(
      [],
    );
  });
});

// Each code block is loaded, and the tests that a page shows register themselves: Jest runs them as
// its own.
const modules = new Map<string, Type[]>();
for (const page of pages) {
  const exported = (await importPage(page))
    .map(({ AppModule }) => AppModule)
    .filter((module) => module !== undefined);
  modules.set(page, exported as Type[]);
}

describe('the applications of the site', () => {
  const shown = [...modules].flatMap(([page, all]) =>
    all.map((module, nth) => [page, nth + 1, module] as const),
  );

  it.each(shown)('%s: application %i starts', async (_page, _nth, module) => {
    // without one a page's real model refuses to start
    process.env['OPENAI_API_KEY'] ??= 'a-key-that-is-never-sent';
    const app = await Test.createTestingModule({ imports: [module] }).compile();
    await expect(app.init()).resolves.toBe(app);
    await app.close();
  });
});
