import { afterAll, expect, it } from '@jest/globals';
import { DurableHealth } from '@toolloop/durable';
import { closeDesks, serve, type ServedDesk } from './served-desk.js';

afterAll(closeDesks);

async function got(desk: ServedDesk, path: string): Promise<[number, unknown]> {
  const response = await fetch(desk.url + path);
  return [response.status, await response.json()];
}

it('the desk is alive and ready, and not ready from the moment it closes, though it lives', async () => {
  const desk = await serve();
  expect(await got(desk, '/health')).toEqual([200, { status: 'ok' }]);
  expect(await got(desk, '/health/ready')).toEqual([200, { status: 'ready', database: 'up' }]);
  desk.app.get(DurableHealth).onModuleDestroy();
  expect(await got(desk, '/health/ready')).toEqual([503, { status: 'leaving', database: 'up' }]);
  expect(await got(desk, '/health')).toEqual([200, { status: 'ok' }]);
});
