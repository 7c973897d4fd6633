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
  return { durable: { url: url.href, connections: 5 }, remove: () => onServer(server, `drop database if exists ${name} with (force)`) };
}

async function onServer(url: string, statement: string): Promise<void> {
  const database = await openDatabase({ url, connections: 1 });
  try {
    await database.query(statement);
  } finally {
    await database.close();
  }
}
