import { afterAll } from '@jest/globals';
import type { DurableOptions } from '@toolloop/durable';
import { createServerDatabase } from '../../durable/test/databases.js';

const made: (() => Promise<void>)[] = [];

afterAll(async () => {
  for (const drop of made) await drop();
});

/** An empty database of its own on the server, which is dropped after the specs of the file. */
export async function onServer(): Promise<DurableOptions> {
  const { url, drop } = await createServerDatabase();
  made.push(drop);
  return { url };
}
