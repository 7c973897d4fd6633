import { existsSync, readFileSync } from 'node:fs';
import { afterEach, expect, it } from '@jest/globals';
import { JobQueue, openDatabase, SqlDirectiveStore, SqlRunLog, SqlStores } from '@toolloop/durable';
import { createServerDatabase, describePostgres } from '../../libs/durable/test/databases.js';
import { endOf, type File, fileOf, listForms, nameOf } from './files.js';
import { Passage } from './passage.js';
import { reportOf } from './report.js';
import { KINDS, SITUATIONS } from './situations.js';

/** The stores of one process on a database of its own. */
class DatabaseStores extends SqlStores {
  private constructor(
    override readonly runs: SqlRunLog,
    override readonly directives: SqlDirectiveStore,
    private readonly closing: () => Promise<void>,
    ...[database]: ConstructorParameters<typeof SqlStores>
  ) {
    super(database, runs, directives);
  }

  static async open(): Promise<DatabaseStores> {
    const { url, drop } = await createServerDatabase();
    const database = await openDatabase({ url, connections: 4 });
    const jobs = new JobQueue(database);
    const close = async (): Promise<void> => {
      await jobs.onApplicationShutdown();
      await database.close();
      await drop();
    };
    const [runs, directives] = [
      new SqlRunLog(database, jobs),
      new SqlDirectiveStore(database, jobs),
    ];
    return new DatabaseStores(runs, directives, close, database);
  }

  close(): Promise<void> {
    return this.closing();
  }
}

const SAVED = listForms().flatMap((form) =>
  SITUATIONS.flatMap((situation) =>
    (situation.kinds ?? KINDS)
      .map((kind) => ({ form, situation, kind, name: nameOf(kind, situation.name) }))
      .filter(({ name }) => existsSync(fileOf(form, name)) && !situation.isDirectiveFirst),
  ),
);

const closing: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const read = (path: string): object => JSON.parse(readFileSync(path, 'utf8')) as object;

describePostgres('a run that was saved, on PostgreSQL', () => {
  it.each(SAVED)('ends as $name of $form ended', async ({ form, name, kind, situation }) => {
    const file = read(fileOf(form, name)) as File;
    const stores = await DatabaseStores.open();
    closing.push(() => stores.close());
    const passage = await Passage.find(kind, situation, file.stored, { stores });
    closing.unshift(() => passage.close());
    await passage.finish();
    // its process may have told of the run before a reader came, or after
    const end = (await reportOf(passage, file.stored)) as object;
    const told: unknown = expect.anything();
    expect(read(endOf(name))).toMatchObject({ ...end, events: told });
  });
});
