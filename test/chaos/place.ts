import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase, type DurableOptions } from '@toolloop/durable';

export type Engine = 'pglite' | 'postgres';

export const ENGINES: readonly Engine[] = ['pglite', 'postgres'];

/** Where runs are kept while it lasts, and what removes it. */
export interface Place {
  readonly durable: DurableOptions;
  readonly remove: () => Promise<void>;
  /** Ends one connection of those that others have to it, and resolves to how many that were. Absent where there are no connections. */
  readonly cut?: () => Promise<number>;
}

/** The server for the checks; undefined where none is given. */
export function serverUrl(): string | undefined {
  return process.env['TOOLLOOP_TEST_POSTGRES'] ?? process.env['DATABASE_URL'];
}

/** A folder, or a database of its own on the server, with a table of the application's own. */
export async function openPlace(engine: Engine): Promise<Place> {
  const place = engine === 'pglite' ? await openFolder() : await openServer(serverUrl() ?? '');
  const database = await openDatabase(place.durable);
  await database.query('create table bookings (place text not null, tenant text not null)');
  await database.close();
  return place;
}

async function openFolder(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'toolloop-chaos-'));
  return { durable: { dataDir: join(folder, 'data') }, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function openServer(server: string): Promise<Place> {
  const name = `toolloop_chaos_${randomUUID().replaceAll('-', '')}`;
  await onServer(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const endOne = `select pg_terminate_backend(pid) from (select pid from pg_stat_activity where datname = '${name}' order by random() limit 1) as one`;
  return {
    durable: { url: url.href, connections: 5 },
    remove: async () => void (await onServer(server, `drop database if exists ${name} with (force)`)),
    cut: () => onServer(server, endOne),
  };
}

/** Resolves to the number of rows. */
async function onServer(url: string, statement: string): Promise<number> {
  const database = await openDatabase({ url, connections: 1 });
  try {
    const rows = await database.query(statement);
    return rows.length;
  } finally {
    await database.close();
  }
}
