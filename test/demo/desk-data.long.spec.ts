import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '@toolloop/core';
import {
  createDatabaseFolder,
  createServerDatabase,
  describePostgres,
  hasServer,
  onServer as runOnServer,
} from '../../libs/durable/test/databases.js';
import type { Settings } from '../../src/settings.js';
import { ask, close, closeDesks, serve, type ServedDesk } from './served-desk.js';

interface Place {
  readonly settings: Partial<Settings>;
  readonly drop: () => Promise<unknown>;
}

async function inFolder(): Promise<Place> {
  const { dataDir, drop } = await createDatabaseFolder();
  return { settings: { dataDir }, drop };
}

async function onServer(): Promise<Place> {
  const { url, drop } = await createServerDatabase();
  return { settings: { databaseUrl: url }, drop };
}

async function called(
  desk: ServedDesk,
  user: string,
  tool: string,
  args: JsonObject,
): Promise<unknown> {
  const response = await ask(desk, user, { args }, `/tools/${tool}`);
  const { record } = (await response.json()) as {
    readonly record: { readonly result?: unknown; readonly error?: unknown };
  };
  return record.result ?? record.error;
}

const LAMP = { get_by: { id: 'p-104' } };
const price = (amount: string) => ({ rows: [{ id: 'p-104', price: amount }] });

describe.each<[string, () => Promise<Place>]>([
  ['in DATA_DIR', inFolder],
  ...(hasServer ? [['on DATABASE_URL', onServer] as [string, typeof onServer]] : []),
])("the desk's data %s", (_, made) => {
  let place: Place;
  beforeAll(async () => {
    place = await made();
  });
  afterAll(async () => {
    await closeDesks();
    await place?.drop();
  });

  it('outlives a restart, and is filled with samples once', async () => {
    const first = await serve({ settings: place.settings });
    expect(
      await called(first, 'mia', 'catalog__update', { id: 'p-104', input: { price: '64.95' } }),
    ).toMatchObject({ price: '64.95' });
    await close(first);
    const second = await serve({ settings: place.settings });
    expect(await called(second, 'mia', 'catalog__read', LAMP)).toMatchObject(price('64.95'));
    expect(await called(second, 'bob', 'catalog__read', LAMP)).toMatchObject(price('44.00'));
    expect(await called(second, 'mia', 'orders__read', { result_type: 'count' })).toEqual({
      count: 15,
    });
  });
});

describePostgres('a server on which the desk may not make its tables', () => {
  const user = `desk_${process.pid}`;
  let url: string;
  let drop: () => Promise<unknown>;
  beforeAll(async () => {
    const database = await createServerDatabase();
    const address = new URL(database.url);
    await runOnServer(`create role ${user} login`);
    await runOnServer(`grant create on database "${address.pathname.slice(1)}" to ${user}`);
    address.username = user;
    url = address.href;
    drop = async () => {
      await database.drop();
      await runOnServer(`drop role if exists ${user}`);
    };
  });
  afterAll(async () => {
    await closeDesks();
    await drop?.();
  });

  it('keeps it from starting, and its error says what its user lacks', async () => {
    const started = serve({ settings: { databaseUrl: url } });
    await expect(started).rejects.toThrow(
      /The tables of the desk cannot be made: .*\.\s+.*give its user both: CREATE on the database, and CREATEROLE\./s,
    );
  });

  it('is left as it was', async () => {
    await runOnServer(`alter role ${user} createrole`);
    const desk = await serve({ settings: { databaseUrl: url } });
    expect(await called(desk, 'mia', 'catalog__read', LAMP)).toMatchObject({
      rows: [{ id: 'p-104' }],
    });
  });
});
