import { ConfigurableModuleBuilder, Module, type OnApplicationShutdown, type Provider } from '@nestjs/common';
import { ToolLoopStores } from '@toolloop/core';
import { Database } from './database/database.js';
import type { DurableOptions } from './durable.options.js';
import { openDatabase } from './open-database.js';
import { RetentionSweep } from './retention.js';
import { SqlStores } from './sql.stores.js';

const DURABLE_OPTIONS = Symbol('toolloop:durable options');

const OWN_PROVIDERS: readonly Provider[] = [
  { provide: Database, inject: [DURABLE_OPTIONS], useFactory: openDatabase },
  { provide: SqlStores, inject: [Database], useFactory: (database: Database) => new SqlStores(database) },
  { provide: ToolLoopStores, useExisting: SqlStores },
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
 * Keeps approvals, journal, audit, conversations, quotas and waiting runs in a database. Import it once, beside `ToolLoopModule.forRoot` and in any order: it
 * is global, and its stores replace those in memory. It closes the database last, when the application shuts down.
 */
@Module({ exports: [Database, SqlStores, ToolLoopStores, RetentionSweep] })
export class DurableModule extends ConfigurableModuleClass implements OnApplicationShutdown {
  constructor(private readonly database: Database) {
    super();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.database.close();
  }
}
