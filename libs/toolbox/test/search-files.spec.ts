import { symlink } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import { ToolError } from '@toolloop/core';
import { SearchFiles, type SearchFilesOptions } from '@toolloop/toolbox';
import type { SearchFilesInput } from '../src/files/search-files.js';
import { TemporaryDirectory } from './temporary-directory.js';

function search(
  directory: TemporaryDirectory,
  input: SearchFilesInput,
  options: Partial<SearchFilesOptions> = {},
) {
  return new SearchFiles({ root: directory.path, ...options }).call(input);
}

function library(): Promise<TemporaryDirectory> {
  return TemporaryDirectory.with({
    'readme.md': 'Hello\nworld',
    'src/main.ts': 'const greeting = "Hello";\nprint(greeting);\n',
    'src/deep/other.ts': 'hello again',
    'src/image.png': Buffer.from('Hello\0'),
    'node_modules/x/index.js': 'Hello',
    '.env': 'Hello=secret',
    '.git/config': 'Hello',
  });
}

describe('files__search', () => {
  it('lists files by name', async () => {
    await using directory = await library();
    const { matches, ...rest } = await search(directory, {});
    expect(matches).toEqual([
      { path: 'readme.md' },
      { path: 'src/image.png' },
      { path: 'src/main.ts' },
      { path: 'src/deep/other.ts' },
    ]);
    expect(rest).toEqual({ skippedFiles: 0 });
    expect((await search(directory, { glob: '*.ts' })).matches).toEqual([
      { path: 'src/main.ts' },
      { path: 'src/deep/other.ts' },
    ]);
  });

  it('finds lines by text', async () => {
    await using directory = await library();
    expect(await search(directory, { text: 'Hello' })).toEqual({
      matches: [
        { path: 'readme.md', line: 1, text: 'Hello' },
        { path: 'src/main.ts', line: 1, text: 'const greeting = "Hello";' },
      ],
      skippedFiles: 1,
    });
    const { matches } = await search(directory, {
      text: 'HELLO',
      ignoreCase: true,
      glob: 'src/**',
    });
    expect(matches.map(({ path }) => path)).toEqual(['src/main.ts', 'src/deep/other.ts']);
  });

  it('takes the text word for word', async () => {
    await using directory = await TemporaryDirectory.with({ 'a.txt': '(a+)+$ .*' });
    expect((await search(directory, { text: '(a+)+$' })).matches).toHaveLength(1);
    expect((await search(directory, { text: '.+' })).matches).toEqual([]);
  });

  it('passes hidden and excluded files by, unless told otherwise', async () => {
    await using directory = await library();
    const { matches } = await search(
      directory,
      { text: 'Hello' },
      { hidden: true, exclude: ['*.md'] },
    );
    expect(matches.map(({ path }) => path)).toEqual([
      '.env',
      '.git/config',
      'node_modules/x/index.js',
      'src/main.ts',
    ]);
  });

  it('follows no links', async () => {
    await using outside = await TemporaryDirectory.with({ 'secret.txt': 'Hello' });
    await using directory = await TemporaryDirectory.with({ 'a.txt': 'Hello' });
    await symlink(outside.path, directory.at('directory'));
    await symlink(outside.at('secret.txt'), directory.at('file.txt'));
    await symlink('.', directory.at('loop'));
    expect((await search(directory, {})).matches).toEqual([{ path: 'a.txt' }]);
  });

  it('shows the part of a long line in which the text is', async () => {
    await using directory = await TemporaryDirectory.with({
      'a.txt': `${'x'.repeat(5_000)}needle${'y'.repeat(5_000_000)}`,
    });
    const [match] = (await search(directory, { text: 'needle' })).matches;
    expect(match?.text).toMatch(/^…x+needley+…$/);
    expect(match?.text?.length).toBeLessThan(250);
  });

  it.each<[string, Partial<SearchFilesOptions>]>([
    ['matches', { maxMatches: 3 }],
    ['entries', { maxEntries: 3 }],
    ['bytes', { maxBytes: 30 }],
    ['time', { timeoutMs: 0 }],
  ])('says that it was ended by the limit of %s', async (stoppedBy, options) => {
    await using directory = await TemporaryDirectory.with(
      Object.fromEntries(
        Array.from({ length: 10 }, (_, index) => [`${index}.txt`, 'Hello\nHello']),
      ),
    );
    const found = await search(directory, { text: 'Hello' }, options);
    expect(found.stoppedBy).toBe(stoppedBy);
    expect(found.matches.length).toBeLessThanOrEqual(6);
    expect(found.matches.length).toBe(stoppedBy === 'matches' ? 3 : found.matches.length);
  });

  it('does not say so when the last match is the last there is', async () => {
    await using directory = await TemporaryDirectory.with({ 'a.txt': 'x\nx\nx' });
    expect(await search(directory, { text: 'x' }, { maxMatches: 3 })).toMatchObject({
      stoppedBy: undefined,
    });
  });

  it('leaves out files that are too large', async () => {
    await using directory = await TemporaryDirectory.with({
      'large.txt': 'Hello'.repeat(1_000),
      'small.txt': 'Hello',
    });
    const found = await search(directory, { text: 'Hello' }, { maxFileBytes: 1_000 });
    expect(found).toMatchObject({ matches: [{ path: 'small.txt' }], skippedFiles: 1 });
  });

  it('ends with an abort before another search of the same files, which continues', async () => {
    await using directory = await TemporaryDirectory.with({
      'a.txt': `${'a'.repeat(99)}\n`.repeat(100_000),
    });
    for (let copy = 0; copy < 2; copy += 1)
      await directory.write(`${copy}.txt`, `${'b'.repeat(99)}\n`.repeat(100_000));
    const caller = new AbortController();
    const searched = (signal?: AbortSignal) =>
      new SearchFiles({ root: directory.path }).call(
        { text: 'zzz', ignoreCase: true },
        signal && { signal },
      );
    const aborted = searched(caller.signal).catch((error: unknown) => error);
    const other = searched();
    await new Promise((resolve) => setImmediate(resolve));
    caller.abort(new Error('enough'));
    expect(await Promise.race([aborted, other])).toMatchObject({ message: 'enough' });
    expect(await other).toMatchObject({ matches: [] });
  });

  it('says so when the root is not there', async () => {
    await expect(new SearchFiles({ root: '/nowhere/at/all' }).call({})).rejects.toThrow(ToolError);
  });
});
