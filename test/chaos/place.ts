import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { JobQueue, openDatabase, SqlRunLog, type DurableOptions } from '@toolloop/durable';
import { Client, Pool } from 'pg';
import { DelayedWay } from './delays.js';

export type Engine = 'pglite' | 'postgres';

export const ENGINES: readonly Engine[] = ['pglite', 'postgres'];

/** Where runs are kept while it lasts, and what removes it. */
export interface Place {
  readonly durable: DurableOptions;
  readonly remove: () => Promise<void>;
  /** Where workers find it: over a way that holds statements up, if it is a server. */
  readonly forWorkers: DurableOptions;
  /**
   * Ends one connection of those that others have to it, and resolves to how many that were. Absent
   * where there are no connections.
   */
  readonly cut?: () => Promise<number>;
  /**
   * Cancels the statements of some of those connections that are at work, as a DBA or a limit of
   * time does, and resolves to how many that were.
   */
  readonly cancel?: () => Promise<number>;
  /** Tells how often statements were held up. */
  readonly delays: () => number;
}

/** The server for the checks; undefined where none is given. */
export function serverUrl(): string | undefined {
  return process.env['TOOLLOOP_TEST_POSTGRES'] ?? process.env['DATABASE_URL'];
}

/** A folder, or a database of its own on the server, with a table of the application's own. */
export async function openPlace(engine: Engine, random: () => number): Promise<Place> {
  const place =
    engine === 'pglite' ? await openFolder() : await openServer(serverUrl() ?? '', random);
  const database = await openDatabase(place.durable);
  await database.query('create table bookings (place text not null, tenant text not null)');
  const jobs = new JobQueue(database);
  // what takes long to be made is there before its statements are cancelled
  await new SqlRunLog(database, jobs).open();
  await jobs.onApplicationShutdown();
  await database.close();
  return place;
}

async function openFolder(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'toolloop-chaos-'));
  const durable = { dataDir: join(folder, 'data') };
  return {
    durable,
    forWorkers: durable,
    remove: () => rm(folder, { recursive: true, force: true }),
    delays: () => 0,
  };
}

async function openServer(server: string, random: () => number): Promise<Place> {
  const name = `toolloop_chaos_${randomUUID().replaceAll('-', '')}`;
  await onServer(server, `create database ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const cancelSome = `select pg_cancel_backend(pid) from (select pid from pg_stat_activity where datname = '${name}' and state <> 'idle' order by random() limit 2) as few`;
  const endOne = `select pg_terminate_backend(pid) from (select pid from pg_stat_activity where datname = '${name}' order by random() limit 1) as one`;
  const way = await DelayedWay.to(url.hostname, Number(url.port || 5432), random);
  const delayed = new URL(url);
  delayed.hostname = '127.0.0.1';
  delayed.port = String(way.port);
  const trouble = new Pool({ connectionString: server, max: 2 });
  const rowsOf = async (statement: string): Promise<number> =>
    (await trouble.query(statement)).rows.length;
  return {
    durable: { url: url.href, connections: 5 },
    forWorkers: { url: delayed.href, connections: 5 },
    remove: async () => {
      way.close();
      await trouble.end();
      await onServer(server, `drop database if exists ${name} with (force)`);
    },
    cut: () => rowsOf(endOne),
    cancel: () => rowsOf(cancelSome),
    delays: () => way.delays,
  };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
