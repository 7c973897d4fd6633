import { spawn } from 'node:child_process';
import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { openDatabase, type Database } from '@toolloop/durable';
import { FolderLock } from '../src/database/folder-lock.js';
import { createFolder } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
let folder: Awaited<ReturnType<typeof createFolder>>;
beforeEach(async () => {
  folder = await createFolder();
});
afterEach(() => folder.drop());

const claims = async (): Promise<string[]> =>
  (await readdir(folder.dataDir)).filter((name) => name.endsWith('.lock'));

async function claim(pid: number, more: object = {}): Promise<void> {
  await mkdir(folder.dataDir, { recursive: true });
  await writeFile(
    join(folder.dataDir, `process-${pid}-other.lock`),
    JSON.stringify({ pid, host: hostname(), ...more }),
  );
}

/** Of a process that has ended. */
async function deadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await new Promise((resolve) => child.once('exit', resolve));
  return child.pid ?? 0;
}

describe('a folder', () => {
  it('is had by one process, which says so with its id and what to do', async () => {
    const lock = await FolderLock.take(folder.dataDir);
    const second = FolderLock.take(folder.dataDir);
    await expect(second).rejects.toThrow(`${folder.dataDir} is in use by process ${process.pid}`);
    await expect(second).rejects.toThrow(/let several share one PostgreSQL/);
    expect(await claims()).toHaveLength(1);
    await lock.release();
    await (await FolderLock.take(folder.dataDir)).release();
    expect(await claims()).toEqual([]);
  });

  it.each(['/proc/x', '/proc/x/y/z', '/dev/null/x'])(
    'is refused at once, with a remedy, when it cannot be made: %s',
    async (dataDir) => {
      const refused = openDatabase({ dataDir });
      await expect(refused).rejects.toThrow(
        `The folder ${dataDir} cannot be created or written to: E`,
      );
      await expect(refused).rejects.toThrow(
        'Name a folder that this process may create and write to',
      );
    },
    5_000,
  );

  it('is made with what is missing above it, for its owner alone', async () => {
    const deep = join(folder.dataDir, 'a', 'b');
    await (await FolderLock.take(deep)).release();
    expect((await stat(join(folder.dataDir, 'a'))).mode & 0o777).toBe(0o700);
  });

  it('is had by one of many who come at once', async () => {
    const taken = await Promise.allSettled(
      Array.from({ length: 8 }, () => FolderLock.take(folder.dataDir)),
    );
    expect(taken.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1);
  });

  it('is never taken from another process that lives', async () => {
    await claim(process.ppid);
    await expect(FolderLock.take(folder.dataDir)).rejects.toThrow(
      `in use by process ${process.ppid}`,
    );
    expect(await claims()).toEqual([`process-${process.ppid}-other.lock`]);
  });

  it('is taken over from a process that is gone', async () => {
    await claim(await deadPid());
    const lock = await FolderLock.take(folder.dataDir);
    expect(await claims()).toEqual([expect.stringContaining(`process-${process.pid}-`)]);
    await lock.release();
  });

  it('is taken over from a process whose id has come back', async () => {
    await claim(process.ppid, { began: 'another boot 1' });
    await claim(process.pid, { began: 'another boot 2' });
    const lock = await FolderLock.take(folder.dataDir);
    expect(await claims()).toHaveLength(1);
    await lock.release();
  });

  it('is never taken from a process on another host, which cannot be checked', async () => {
    await claim(await deadPid(), { host: 'elsewhere' });
    await expect(FolderLock.take(folder.dataDir)).rejects.toThrow(/on elsewhere.*/);
    await expect(FolderLock.take(folder.dataDir)).rejects.toThrow(
      /Only if it is certainly gone, delete .*other\.lock/,
    );
  });

  it('belongs, with half a claim in it, to the process that its name says', async () => {
    await mkdir(folder.dataDir, { recursive: true });
    await writeFile(join(folder.dataDir, `process-${process.ppid}-x.lock`), '');
    await expect(FolderLock.take(folder.dataDir)).rejects.toThrow(
      `in use by process ${process.ppid}`,
    );
  });
});

describe('the database in a folder', () => {
  let database: Database | undefined;
  afterEach(() => database?.close());

  it('is for its owner alone, has one process, and is let go when it is closed', async () => {
    database = await openDatabase({ dataDir: folder.dataDir });
    expect((await stat(join(folder.dataDir, 'database'))).mode & 0o777).toBe(0o700);
    await expect(openDatabase({ dataDir: folder.dataDir })).rejects.toThrow(/in use by process/);
    const [file = ''] = await claims();
    expect(JSON.parse(await readFile(join(folder.dataDir, file), 'utf8'))).toMatchObject({
      pid: process.pid,
    });
    await database.query('create table kept as select 1 as one');
    await database.close();
    expect(await claims()).toEqual([]);
    database = await openDatabase({ dataDir: folder.dataDir });
    expect(await database.query('select one from kept')).toEqual([{ one: 1 }]);
  });
});
