import { Global, Injectable, Module } from '@nestjs/common';
import {
  type PendingStore,
  MemoryPendingStore,
  MemoryRunLog,
  type RunLog,
  ToolLoopStores,
} from '@toolloop/core/stores';
import {
  Database,
  DurableHealth,
  RUN_OPTIONS,
  RunEngine,
  SqlCallJournal,
  SqlCallTransactions,
  WakingPendingStore,
} from '@toolloop/durable';
import { openInMemory } from '../../libs/durable/test/databases.js';

/**
 * Everything in memory but what wakes runs, which is the same, and the calls, whose marks are
 * committed together with what they change.
 */
@Injectable()
class MemoryStores implements ToolLoopStores {
  readonly journal: SqlCallJournal;
  readonly transactions: SqlCallTransactions;
  readonly runs: RunLog = new MemoryRunLog();
  readonly pending: PendingStore = new WakingPendingStore(
    new MemoryPendingStore(),
    this.runs,
    (work) => work(),
  );

  constructor(database: Database) {
    this.journal = new SqlCallJournal(database);
    this.transactions = new SqlCallTransactions(database);
  }
}

const SHARED = Symbol.for('toolloop:database of the demo specs');

/**
 * The database of all desks of a worker, without the tables of the last one: each would take a
 * second to open, and its memory until the last spec has run.
 */
export async function emptyDatabase(): Promise<Database> {
  const opening =
    (Reflect.get(globalThis, SHARED) as Promise<Database> | undefined) ?? openInMemory();
  Reflect.set(globalThis, SHARED, opening);
  const database = await opening;
  await database.query('drop schema if exists desk cascade');
  await database.query('truncate toolloop.calls');
  return database;
}

/**
 * Keeps runs in memory, and the orders of the desk in a database that is as new at each start: for
 * the many specs that are about neither.
 */
@Global()
@Module({
  providers: [
    { provide: ToolLoopStores, useClass: MemoryStores },
    { provide: Database, useFactory: emptyDatabase },
    { provide: RUN_OPTIONS, useValue: {} },
    RunEngine,
    {
      provide: DurableHealth,
      useFactory: () => new DurableHealth({ query: () => Promise.resolve([]) }),
    },
  ],
  exports: [ToolLoopStores, Database, DurableHealth],
})
export class MemoryStorageModule {}
