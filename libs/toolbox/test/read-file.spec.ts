import { execFileSync } from 'node:child_process';
import { rename, rm, symlink } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, ToolError } from '@toolloop/core';
import { ReadFile, type ReadFileOptions } from '@toolloop/toolbox';
import * as fc from 'fast-check';
import { cases } from '../../../test/cases.js';
import { TemporaryDirectory } from './temporary-directory.js';

const SECRET = 'the secret of another directory';

function read(directory: TemporaryDirectory, path: string, options: Partial<ReadFileOptions> = {}) {
  return new ReadFile({ root: directory.at('root'), ...options }).call({ path });
}

function withSecret(): Promise<TemporaryDirectory> {
  return TemporaryDirectory.with({
    'secret.txt': SECRET,
    'root/open.txt': 'fine',
    'root/a/b.txt': 'deep',
    'root/.env': SECRET,
    'root/.git/config': SECRET,
  });
}

/** Makes the directory `a` a link to another one and back, again and again. */
async function swap(directory: TemporaryDirectory, done: AbortSignal): Promise<void> {
  while (!done.aborted) {
    await rename(directory.at('root/a'), directory.at('root/kept'));
    await symlink('../outside', directory.at('root/a'));
    await pause();
    await rm(directory.at('root/a'));
    await rename(directory.at('root/kept'), directory.at('root/a'));
    await pause();
  }
}

/** As fast as the system allows: the directory `a`, a link out of the root, and back. */
const SWAPPING = `
const { renameSync, symlinkSync } = require('node:fs');
const { root } = require('node:worker_threads').workerData;
symlinkSync('../outside', root + '/link');
for (;;) {
  renameSync(root + '/a', root + '/kept');
  renameSync(root + '/link', root + '/a');
  renameSync(root + '/a', root + '/link');
  renameSync(root + '/kept', root + '/a');
}`;

async function pause(): Promise<void> {
  if (Math.random() < 0.5) await setTimeout(Math.random() * 3);
}

describe('files__read', () => {
  it('reads a file below its root', async () => {
    await using directory = await withSecret();
    expect(await read(directory, 'a/b.txt')).toEqual({
      path: 'a/b.txt',
      text: 'deep',
      firstLine: 1,
      lineCount: 1,
      cut: false,
    });
  });

  it('reads a page at a time, all of it together the file', async () => {
    const lines = Array.from({ length: 1_000 }, (_, index) => `line ${index + 1}`);
    await using directory = await TemporaryDirectory.with({
      'root/long.txt': `${lines.join('\r\n')}\r\n`,
    });
    const tool = new ReadFile({ root: directory.at('root') });
    const seen: string[] = [];
    for (let offset: number | undefined = 1; offset !== undefined;) {
      const page: Awaited<ReturnType<ReadFile['call']>> = await tool.call({
        path: 'long.txt',
        offset,
        limit: 300,
      });
      expect(page.firstLine).toBe(offset);
      seen.push(...page.text.split('\n'));
      offset = page.nextOffset;
    }
    expect(seen).toEqual(lines);
    expect(await tool.call({ path: 'long.txt', offset: 5_000 })).toMatchObject({
      text: '',
      lineCount: 0,
    });
  });

  it('cuts a line that is too long for a page', async () => {
    await using directory = await TemporaryDirectory.with({
      'root/one.txt': `${'x'.repeat(3_000_000)}\nnext`,
    });
    const page = await read(directory, 'one.txt', { maxCharacters: 100 });
    expect(page).toMatchObject({ text: 'x'.repeat(100), cut: true, nextOffset: 2 });
  });

  it('keeps a character together that lies on the edge of two reads', async () => {
    await using directory = await TemporaryDirectory.with({
      'root/wide.txt': `${'x'.repeat(65_535)}\u{1F600}`,
    });
    expect((await read(directory, 'wide.txt', { maxCharacters: 70_000 })).text).toMatch(
      /x\u{1F600}$/u,
    );
  });

  it('refuses what is too large or binary, and says so', async () => {
    await using directory = await TemporaryDirectory.with({
      'root/large.txt': 'x'.repeat(2_000),
      'root/image.png': Buffer.from([137, 80, 0, 1]),
    });
    await expect(read(directory, 'large.txt', { maxFileBytes: 1_000 })).rejects.toThrow(
      'The file has 2000 bytes',
    );
    await expect(read(directory, 'image.png')).rejects.toThrow(/binary file/);
  });

  it('does not start without a root', () => {
    expect(() => new ReadFile({ root: ' ' })).toThrow(ConfigurationError);
  });

  it('rejects with the reason of an aborted signal', async () => {
    await using directory = await withSecret();
    const call = new ReadFile({ root: directory.at('root') }).call(
      { path: 'open.txt' },
      { signal: AbortSignal.abort(new Error('enough')) },
    );
    await expect(call).rejects.toThrow('enough');
  });
});

describe('the root of files__read', () => {
  it.each([
    '../secret.txt',
    'a/../../secret.txt',
    'a/../open.txt',
    '..',
    String.raw`..\secret.txt`,
    '/etc/passwd',
    '//etc/passwd',
    String.raw`C:\secret.txt`,
    'C:secret.txt',
    'open.txt\0.png',
    '',
  ])('is not left by %j', async (path) => {
    await using directory = await withSecret();
    await expect(read(directory, path)).rejects.toThrow(/path below the root/);
  });

  it('is not left by an absolute path, even to a file below it', async () => {
    await using directory = await withSecret();
    await expect(read(directory, directory.at('root/open.txt'))).rejects.toThrow(ToolError);
  });

  it('is not left by links to files, to directories, or to links', async () => {
    await using directory = await withSecret();
    await symlink(directory.at('secret.txt'), directory.at('root/file'));
    await symlink('..', directory.at('root/up'));
    await symlink('up', directory.at('root/twice'));
    await symlink('/', directory.at('root/slash'));
    const outside = ['file', 'up/secret.txt', 'twice/secret.txt', 'slash/etc/passwd', 'missing'];
    for (const path of outside)
      await expect(read(directory, path)).rejects.toThrow(
        'There is no such file. Use files__search to find it.',
      );
  });

  it('is found through a link, and links within it are followed', async () => {
    await using directory = await withSecret();
    await symlink(directory.at('root'), directory.at('alias'));
    await symlink('a', directory.at('root/inner'));
    const page = await new ReadFile({ root: directory.at('alias') }).call({ path: 'inner/b.txt' });
    expect(page.text).toBe('deep');
  });

  it('keeps hidden files to itself, by whatever name they are reached', async () => {
    await using directory = await withSecret();
    await symlink('.env', directory.at('root/plain.txt'));
    await symlink('.git', directory.at('root/git'));
    for (const path of ['.env', '.git/config', 'a/../.env', 'plain.txt', 'git/config', './.env'])
      await expect(read(directory, path)).rejects.toThrow(ToolError);
    expect((await read(directory, '.env', { hidden: true })).text).toBe(SECRET);
  });

  it('has files, not directories, and no pipes to wait at', async () => {
    await using directory = await withSecret();
    execFileSync('mkfifo', [directory.at('root/pipe')]);
    await expect(read(directory, 'a')).rejects.toThrow(/That is not a file/);
    await expect(read(directory, 'pipe')).rejects.toThrow(/That is not a file/);
  });

  it('holds while another thread swaps a directory for a link, far more often than a path can be checked', async () => {
    await using directory = await withSecret();
    await directory.write('outside/b.txt', SECRET);
    const swapper = new Worker(SWAPPING, {
      eval: true,
      workerData: { root: directory.at('root') },
    });
    const answers = new Set<string>();
    for (let attempt = 0; attempt < cases(12_000); attempt += 1) {
      const told = await read(directory, 'a/b.txt').then(JSON.stringify, (error: unknown) =>
        error instanceof ToolError ? 'refused' : error,
      );
      answers.add(
        String(told).includes(SECRET)
          ? 'leaked'
          : String(told).includes('deep')
            ? 'read'
            : String(told),
      );
    }
    await swapper.terminate();
    expect([...answers].toSorted()).toEqual(['read', 'refused']);
  });

  it('holds while directories are swapped for links under it', async () => {
    await using directory = await withSecret();
    await directory.write('outside/b.txt', SECRET);
    const done = new AbortController();
    const swaps = swap(directory, done.signal);
    const texts = new Set<string>();
    for (let round = 0; round < 800; round += 1) {
      const text = read(directory, 'a/b.txt').then((page) => page.text);
      texts.add(await text.catch(() => 'refused'));
    }
    done.abort();
    await swaps;
    expect(texts).toContain('deep');
    expect(texts).not.toContain(SECRET);
  });

  it('holds whatever path is made up', async () => {
    await using directory = await withSecret();
    await symlink('..', directory.at('root/up'));
    const piece = fc.oneof(
      fc.constantFrom(
        '..',
        '.',
        '',
        'up',
        'a',
        'root',
        'secret.txt',
        '.env',
        '%2e%2e',
        '..;',
        '\u2024\u2024',
        '~',
        'C:',
        '\0',
      ),
      fc.string({ maxLength: 6 }),
    );
    const path = fc
      .array(fc.tuple(piece, fc.constantFrom('/', '\\', '//', '')), { maxLength: 8 })
      .map((parts) => parts.flat().join(''));
    await fc.assert(
      fc.asyncProperty(path, async (made) => {
        const text = await read(directory, made).then(
          (page) => page.text,
          (error: unknown) => {
            expect(error).toBeInstanceOf(ToolError);
            return '';
          },
        );
        expect(['', 'fine', 'deep']).toContain(text);
      }),
      { numRuns: cases(1_000) },
    );
  });
});
