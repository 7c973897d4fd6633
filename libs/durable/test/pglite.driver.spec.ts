import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { inMemory } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
jest.setTimeout(60_000);

let driver: PgliteDriver;

beforeEach(async () => {
  const { template } = await inMemory();
  jest.useFakeTimers({
    doNotFake: [
      'Date',
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'clearImmediate',
      'setTimeout',
      'clearTimeout',
    ],
  });
  driver = await PgliteDriver.inMemory(template);
});

afterEach(async () => {
  await driver.close();
  jest.useRealTimers();
});

async function look(): Promise<{ readonly bytes: number; readonly checkpoint: string }> {
  const [found] = await driver.query<{ bytes: number; checkpoint: string }>(
    `select pg_relation_size('things')::int as bytes, (select checkpoint_lsn::text from pg_control_checkpoint()) as checkpoint`,
    [],
  );
  if (!found) throw new Error('There is no such table.');
  return found;
}

it('gives the room of what was deleted back, and shortens its log, once a minute', async () => {
  await driver.query('create table things (words text)', []);
  await driver.query(`insert into things select repeat('x', 500) from generate_series(1, 2000)`, []);
  await driver.query('delete from things', []);
  jest.advanceTimersByTime(59_000);
  await wait(200);
  const before = await look();
  expect(before.bytes).toBeGreaterThan(500_000);
  jest.advanceTimersByTime(1_000);
  const until = Date.now() + 20_000;
  let now = before;
  while ((now.bytes > 0 || now.checkpoint === before.checkpoint) && Date.now() < until) {
    await wait(20);
    now = await look();
  }
  expect(now.bytes).toBe(0);
  expect(now.checkpoint).not.toBe(before.checkpoint);
});
