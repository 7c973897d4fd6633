import { randomUUID } from 'node:crypto';
import { Client } from 'pg';

/** Measures in a database of its own on a server, which is dropped afterwards. */
export async function inOwnDatabase<Result>(
  server: string,
  measure: (url: string) => Promise<Result>,
): Promise<Result> {
  const name = `toolloop_bench_${randomUUID().replaceAll('-', '')}`;
  const url = new URL(server);
  url.pathname = `/${name}`;
  await onServer(server, `create database ${name}`);
  try {
    return await measure(url.href);
  } finally {
    await onServer(server, `drop database ${name} with (force)`);
  }
}

/**
 * Executes a statement by `pg` alone: our own handle would make its tables in a database that is
 * not ours, or migrate them.
 */
async function onServer(server: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
