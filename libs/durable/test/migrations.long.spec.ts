import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Database, type DurableOptions, openDatabase } from '@toolloop/durable';
import { migrate, MIGRATIONS, type Migration } from '../src/database/migrations.js';
import { createDatabaseFolder, createServerDatabase, describePostgres } from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
interface Place {
  readonly options: DurableOptions;
  readonly drop: () => Promise<unknown>;
}

async function folder(): Promise<Place> {
  const { dataDir, drop } = await createDatabaseFolder();
  return { options: { dataDir }, drop };
}

async function server(): Promise<Place> {
  const { url, drop } = await createServerDatabase();
  return { options: { url }, drop };
}

/** Opens a database, changes it, and closes it again. */
async function change(options: DurableOptions, statements: readonly string[]): Promise<void> {
  const database = await openDatabase(options);
  for (const statement of statements) await database.query(statement);
  await database.close();
}

async function refusalOf(options: DurableOptions): Promise<Error> {
  const refused: unknown = await openDatabase(options).then(
    (database) => database.close(),
    (error: unknown) => error,
  );
  if (refused instanceof Error) return refused;
  throw new Error('It was opened.');
}

/** `toolloop.migrations` as it was before there was one baseline. */
const BEFORE_THE_BASELINE = [
  'alter table toolloop.migrations drop column checksum',
  'delete from toolloop.migrations',
  `insert into toolloop.migrations (version, name) values (1, 'stores'), (2, 'runs'), (3, 'effects'), (4, 'conversation runs'),
    (5, 'directives'), (6, 'run writes'), (7, 'call claims')`,
];

const OUTDATED = {
  name: 'OutdatedDatabaseError',
  code: 'outdated_database',
  message:
    'The database was made by an older commit of Toolloop, and its tables cannot be brought up to date: start with a new database or data folder.',
};

function migrationsSpec(name: string, make: () => Promise<Place>): void {
  describe(`a database, ${name}`, () => {
    let place: Place;
    beforeAll(async () => {
      place = await make();
      await change(place.options, [
        `insert into toolloop.quotas values ('acme', 'calls', 1, 1, 3)`,
      ]);
    });
    afterAll(() => place.drop());

    it('is opened again with what is in it', async () => {
      const database = await openDatabase(place.options);
      const kept = await database.query('select used from toolloop.quotas');
      await database.close();
      expect(kept).toEqual([{ used: 3 }]);
    });

    it('is refused where a newer release has migrated it', async () => {
      await change(place.options, [
        `insert into toolloop.migrations (version, name, checksum) values (99, 'later', '')`,
      ]);
      expect((await refusalOf(place.options)).message).toMatch(
        /schema has version 99, and this release knows 1\./,
      );
    });

    it('is refused in one line where it was made by another baseline', async () => {
      const other = await make();
      await change(other.options, [
        `update toolloop.migrations set checksum = 'another' where version = 1`,
      ]);
      expect(await refusalOf(other.options)).toMatchObject(OUTDATED);
      await other.drop();
    });

    it('is refused in one line where it was made before there was one baseline', async () => {
      const other = await make();
      await change(other.options, BEFORE_THE_BASELINE);
      const refusal = await refusalOf(other.options);
      expect(refusal).toMatchObject(OUTDATED);
      expect(refusal.message).not.toContain('\n');
      await other.drop();
    });
  });
}

migrationsSpec('on PGlite', folder);

const [BASELINE] = MIGRATIONS;
const WITH_A_COLUMN: readonly Migration[] = [
  ...(BASELINE ? [BASELINE] : []),
  {
    version: 2,
    name: 'a column',
    statements: ['alter table toolloop.quotas add column note text'],
  },
];

describePostgres('with a server', () => {
  migrationsSpec('on PostgreSQL', server);

  describe('a migration', () => {
    let place: Place;
    let database: Database;
    let reader: Database;
    beforeAll(async () => {
      place = await server();
      [database, reader] = [await openDatabase(place.options), await openDatabase(place.options)];
    });
    afterAll(async () => {
      await Promise.all([database.close(), reader.close()]);
      await place.drop();
    });

    const waiting = async (): Promise<boolean> => {
      const rows = await reader.query(
        `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like 'alter table%'`,
      );
      return rows.length > 0;
    };
    const until = async (isIt: boolean): Promise<void> => {
      while ((await waiting()) !== isIt) await new Promise((resolve) => setTimeout(resolve, 5));
    };

    it('is begun again after it has let others pass, where it does not get a lock in time', async () => {
      let migrating: Promise<void> | undefined;
      await reader.transaction(async () => {
        await reader.query('select 1 from toolloop.quotas');
        migrating = database.outside(() =>
          migrate(database, WITH_A_COLUMN, { lockTimeoutMs: 200, attempts: 1_000 }),
        );
        await reader.outside(async () => {
          await until(true);
          await until(false); // it has given up for now
          await until(true);
        });
      });
      await migrating;
      expect(
        await database.query('select version from toolloop.migrations order by version'),
      ).toEqual([{ version: 1 }, { version: 2 }]);
      expect(await database.query('select note from toolloop.quotas')).toEqual([]);
    });

    it('says what to do, and changes nothing, where others keep the lock', async () => {
      const later = {
        version: 3,
        name: 'without it',
        statements: ['alter table toolloop.quotas drop column note'],
      };
      let refused: Promise<void> | undefined;
      await reader.transaction(async () => {
        await reader.query('select 1 from toolloop.quotas');
        refused = database.outside(() =>
          migrate(database, [...WITH_A_COLUMN, later], { lockTimeoutMs: 50, attempts: 2 }),
        );
        await expect(refused).rejects.toThrow(
          /keeps its tables locked \(2 attempts\)[^]*End the transaction/,
        );
      });
      expect(
        await database.query('select max(version) as version from toolloop.migrations'),
      ).toEqual([{ version: 2 }]);
    });
  });
});
