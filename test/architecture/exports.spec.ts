import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { entriesOf, listFileOf, listOf, namesOf } from './entries.js';
import { LIBRARIES } from './layers.js';

const LISTS = 'test/architecture/exports';
const packages = LIBRARIES.map((library) => `libs/${library}`);
const entries = packages.flatMap((folder) =>
  entriesOf(folder).map((entry) => ({ file: entry.file, list: listFileOf(folder, entry) })),
);
const names = namesOf(entries.map(({ file }) => file));

/**
 * `UPDATE_EXPORTS=1 npm test -- test/architecture/exports.spec.ts` writes the lists anew; the
 * difference belongs into the commit.
 */
const isUpdate = process.env['UPDATE_EXPORTS'] === '1';

describe('the exported names of a package', () => {
  it.each(packages)('stand on a main entry of %s', (folder) => {
    expect(entriesOf(folder).map(({ subpath }) => subpath)).toContain('.');
  });

  it.each(entries)('are those of the list $list', ({ file, list }) => {
    const exported = listOf(names.get(file) ?? []);
    if (isUpdate) writeFileSync(list, exported);
    expect(exported).not.toBe('');
    expect(exported.split('\n')).toEqual(
      existsSync(list)
        ? readFileSync(list, 'utf8').split('\n')
        : `no list ${list}: write it with UPDATE_EXPORTS=1`,
    );
  });

  it('have no list without an entry', () => {
    const known = new Set(entries.map(({ list }) => list));
    expect(readdirSync(LISTS).filter((list) => !known.has(`${LISTS}/${list}`))).toEqual([]);
  });

  it('tell values from types', () => {
    const core = names.get('libs/core/src/index.ts') ?? [];
    const kindOf = (wanted: string): string | undefined =>
      core.find(({ name }) => name === wanted)?.kind;
    expect([
      kindOf('ToolLoopService'),
      kindOf('LlmTool'),
      kindOf('LoopEvent'),
      kindOf('LoopRequest'),
    ]).toEqual(['value', 'value', 'type', 'type']);
  });
});
