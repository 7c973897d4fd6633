import { ConfigurableModuleBuilder, Module, type OnApplicationShutdown, type Provider } from '@nestjs/common';
import { ToolLoopStores } from '@toolloop/core';
import { Database } from './database/database.js';
import { SqlDirectiveStore } from './directives/sql.directive.store.js';
import { DurableHealth } from './durable.health.js';
import type { DurableOptions } from './durable.options.js';
import { JobQueue } from './queue/job.queue.js';
import { RUN_OPTIONS, RunEngine } from './runs/run.engine.js';
import { RunService } from './runs/run.service.js';
import { RunStore } from './runs/run-store.js';
import { SqlRunStore } from './runs/sql.run.store.js';
import { openDatabase } from './open-database.js';
import { RetentionSweep } from './retention.js';
import { SqlStores } from './sql.stores.js';

const DURABLE_OPTIONS = Symbol('toolloop:durable options');

const OWN_PROVIDERS: readonly Provider[] = [
  { provide: Database, inject: [DURABLE_OPTIONS], useFactory: openDatabase },
  JobQueue,
  {
    provide: RunStore,
    inject: [Database, JobQueue],
    useFactory: (database: Database, jobs: JobQueue) => new SqlRunStore(database, jobs),
  },
  {
    provide: SqlDirectiveStore,
    inject: [Database, JobQueue],
    useFactory: (database: Database, jobs: JobQueue) => new SqlDirectiveStore(database, jobs),
  },
  {
    provide: SqlStores,
    inject: [Database, RunStore, SqlDirectiveStore],
    useFactory: (database: Database, runs: RunStore, directives: SqlDirectiveStore) => new SqlStores(database, runs, directives),
  },
  { provide: ToolLoopStores, useExisting: SqlStores },
  {
    provide: RUN_OPTIONS,
    inject: [DURABLE_OPTIONS, Database], // which checks them
    useFactory: ({ runs = {} }: DurableOptions) => runs,
  },
  RunEngine,
  RunService,
  { provide: DurableHealth, inject: [Database], useFactory: (database: Database) => new DurableHealth(database) },
  {
    provide: RetentionSweep,
    inject: [Database, DURABLE_OPTIONS],
    useFactory: (database: Database, { retention }: DurableOptions) => new RetentionSweep(database, retention),
  },
];

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<DurableOptions>({ optionsInjectionToken: DURABLE_OPTIONS })
  .setClassMethodName('forRoot')
  .setExtras({}, (definition) => ({ ...definition, global: true, providers: [...(definition.providers ?? []), ...OWN_PROVIDERS] }))
  .build();

/**
 * Keeps durable runs, approvals, directives, journal, audit, conversations, quotas and waiting runs in a database. Import it once, beside `ToolLoopModule.forRoot` and in any
 * order: it is global, and its stores replace those in memory. It closes the database last, when the application shuts down.
 */
@Module({ exports: [Database, DurableHealth, JobQueue, RetentionSweep, RunService, SqlStores, ToolLoopStores] })
export class DurableModule extends ConfigurableModuleClass implements OnApplicationShutdown {
  constructor(private readonly database: Database) {
    super();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}
