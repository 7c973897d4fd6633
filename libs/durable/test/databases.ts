import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { describe } from '@jest/globals';
import { Client } from 'pg';
import { openDatabase, type Database, type DurableOptions } from '@toolloop/durable';

const SERVER = process.env['TOOLLOOP_TEST_POSTGRES'];

const suite = SERVER ? describe : describe.skip;
const REASON = SERVER
  ? ''
  : ' [skipped: set TOOLLOOP_TEST_POSTGRES=postgres://user@host:5432/database]';
export const hasServer = SERVER !== undefined;

/** A suite that needs a server, and says so where there is none. */
export function describePostgres(name: string, body: () => void): void {
  suite(`${name}${REASON}`, body);
}

/** An empty database of its own on the server, and what drops it. */
export async function createServerDatabase(): Promise<{
  readonly url: string;
  readonly drop: () => Promise<void>;
}> {
  const name = `toolloop_test_${randomUUID().replaceAll('-', '')}`;
  await onServer(`create database ${name}`);
  const url = new URL(SERVER ?? '');
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: async () => void (await onServer(`drop database if exists ${name} with (force)`)),
  };
}

/** Resolves to the number of rows. */
export async function onServer(statement: string): Promise<number> {
  const client = new Client({ connectionString: SERVER });
  await client.connect();
  try {
    return (await client.query(statement)).rowCount ?? 0;
  } finally {
    await client.end();
  }
}

/** A folder that nobody has, and what removes it. */
export async function createFolder(): Promise<{
  readonly dataDir: string;
  readonly drop: () => Promise<void>;
}> {
  const folder = await mkdtemp(join(tmpdir(), 'toolloop-durable-'));
  return {
    dataDir: join(folder, 'data'),
    drop: () => rm(folder, { recursive: true, force: true }),
  };
}

/**
 * A folder with an empty database in it, as PGlite would make it itself in a multiple of the time,
 * and what removes it.
 */
export async function createDatabaseFolder(): ReturnType<typeof createFolder> {
  const folder = await createFolder();
  const template = await keptBetweenRuns('folder', async (empty) => {
    const database = await PGlite.create(empty);
    await database.close();
  });
  await cp(template, join(folder.dataDir, 'database'), { recursive: true });
  return folder;
}

/**
 * PGlite in memory, made of an empty database that is kept between runs of the specs: a fifth of
 * the time.
 */
export async function inMemory(): Promise<Extract<DurableOptions, { memory: true }>> {
  const template = await keptBetweenRuns('tar', async (file) => {
    const empty = await PGlite.create();
    const dump = await (await empty.dumpDataDir('none')).arrayBuffer();
    await empty.close();
    writeFileSync(file, Buffer.from(dump));
  });
  return { memory: true, template: new Blob([readFileSync(template)]) };
}

/**
 * The path of an empty database, which is made once for a version of PGlite, by whichever process
 * is there first.
 */
async function keptBetweenRuns(
  form: 'folder' | 'tar',
  make: (path: string) => Promise<void>,
): Promise<string> {
  const { version } = JSON.parse(
    readFileSync('node_modules/@electric-sql/pglite/package.json', 'utf8'),
  ) as { version: string };
  const folder = join(process.cwd(), 'node_modules', '.cache', 'toolloop-durable');
  const path = join(folder, `pglite-${version}.${form}`);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  const unfinished = `${path}.${randomUUID()}`;
  await make(unfinished);
  try {
    renameSync(unfinished, path);
  } catch (error) {
    if (!existsSync(path)) throw error; // a folder is not renamed over another one
    rmSync(unfinished, { recursive: true });
  }
  return path;
}

export async function openInMemory(): Promise<Database> {
  return openDatabase(await inMemory());
}
