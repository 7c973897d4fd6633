import { MikroOrmModule } from '@mikro-orm/nestjs';
import { type Configuration, MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import {
  type DynamicModule,
  Module,
  type OnApplicationShutdown,
  type Provider,
  type Type,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { type JsonObject, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import type { CallResult } from '@toolloop/core/contracts';
import { Database, DurableModule } from '@toolloop/durable';
import {
  ResourceGateway,
  ResourceToolsModule,
  rowSecurityMigration,
  type SqlResourceGateway,
} from '@toolloop/resources';
import { mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { typeOrmGateway } from '@toolloop/resources/typeorm';
import { ScriptedModel } from '@toolloop/testing';
import { DataSource } from 'typeorm';
import { inMemory, openInMemory } from '../../durable/test/databases.js';
import { textOf } from './shop.js';
import { createMariaDb } from './typeorm-storage.js';

/**
 * An ORM on the database of the calls: its module for entities that are declared for it, its
 * gateway, and how its tables are made.
 */
export interface Orm {
  /** `false` if its database has none, and the gateway alone keeps tenants apart. */
  readonly hasRowSecurity: boolean;
  module(entities: readonly Type[]): DynamicModule | Promise<DynamicModule>;
  gateway(role: string): ReturnType<typeof mikroOrmGateway> | ReturnType<typeof typeOrmGateway>;
  makeTables(module: TestingModule): Promise<void>;
  /** Asks as the owner of the tables. */
  sql<Row extends object>(module: TestingModule, statement: string): Promise<readonly Row[]>;
}

export const MIKRO_ORM: Orm = {
  hasRowSecurity: true,
  module: (entities) =>
    MikroOrmModule.forRootAsync({
      driver: PostgreSqlDriver,
      inject: [Database],
      useFactory: ({ connection }: Database) => ({
        dbName: 'app',
        ensureDatabase: false,
        driverOptions: connection,
        entities: [...entities],
        schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
      }),
    }),
  gateway: (role) => mikroOrmGateway({ tenancy: { role } }),
  makeTables: (module) => module.get(MikroORM).schema.update(),
  sql: (module, statement) => module.get(Database).query(statement),
};

/** PostgreSQL as a database that has no row level security, such as MikroORM has several. */
class PlainDriver extends PostgreSqlDriver {
  constructor(config: Configuration) {
    super(config);
    this.platform.supportsRowLevelSecurity = () => false;
  }
}

@Module({})
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly database: Database) {}

  onApplicationShutdown(): Promise<void> {
    return this.database.close();
  }
}

/** MikroORM whose gateway alone keeps tenants apart, on a database of its own. */
export const MIKRO_ORM_WITHOUT_ROW_SECURITY: Orm = {
  ...MIKRO_ORM,
  hasRowSecurity: false,
  module: async (entities) => {
    const database = await openInMemory();
    const orm = await MikroOrmModule.forRoot({
      driver: PlainDriver,
      dbName: 'app',
      ensureDatabase: false,
      driverOptions: database.connection,
      entities: [...entities],
      schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
    });
    return {
      module: DatabaseModule,
      global: true,
      imports: [orm],
      providers: [{ provide: Database, useValue: database }],
      exports: [Database, orm],
    };
  },
  gateway: () => mikroOrmGateway(),
};

@Module({})
class DataSourceModule implements OnApplicationShutdown {
  constructor(private readonly source: DataSource) {}

  onApplicationShutdown(): Promise<void> {
    return this.source.destroy();
  }
}

export const TYPE_ORM: Orm = {
  hasRowSecurity: true,
  module: (entities) => ({
    module: DataSourceModule,
    global: true,
    providers: [
      {
        provide: DataSource,
        inject: [Database],
        useFactory: ({ connection }: Database) =>
          new DataSource({
            type: 'postgres',
            installExtensions: false,
            uuidExtension: 'pgcrypto',
            extra: connection,
            entities: [...entities],
          }).initialize(),
      },
    ],
    exports: [DataSource],
  }),
  gateway: (role) => typeOrmGateway({ tenancy: { role } }),
  makeTables: (module) => module.get(DataSource).synchronize(),
  sql: (module, statement) => module.get(Database).query(statement),
};

/** TypeORM on a MariaDB of its own, beside the calls in memory. */
export const TYPE_ORM_ON_MARIADB: Orm = {
  ...TYPE_ORM,
  hasRowSecurity: false,
  module: async (entities) => {
    const options = await createMariaDb();
    const opened = (): Promise<DataSource> =>
      new DataSource({ ...options, entities: [...entities] }).initialize();
    return {
      module: DataSourceModule,
      global: true,
      providers: [{ provide: DataSource, useFactory: opened }],
      exports: [DataSource],
    };
  },
  gateway: () => typeOrmGateway(),
  sql: (module, statement) => module.get(DataSource).query(statement),
};

interface OrmAppOptions {
  readonly orm: Orm;
  readonly entities: readonly Type[];
  readonly resources: readonly Type[];
  readonly providers?: readonly Provider[];
  /** Changes the tables when they were made, before the application looks at them. */
  readonly prepare?: (sql: OrmApp['sql']) => Promise<void>;
}

const ROLE = 'toolloop_test_orm';

/**
 * An application of two tenants over entities of any kind, whose tables are protected by the
 * migration that it prints.
 */
export class OrmApp {
  private constructor(
    readonly module: TestingModule,
    private readonly orm: Orm,
  ) {}

  static async start({
    orm,
    entities,
    resources,
    providers = [],
    prepare,
  }: OrmAppOptions): Promise<OrmApp> {
    const module = await Test.createTestingModule({
      imports: [
        ...(orm.hasRowSecurity ? [DurableModule.forRoot(await inMemory())] : []),
        await orm.module(entities),
        ResourceToolsModule.forRoot({ gateway: orm.gateway(ROLE) }),
        ResourceToolsModule.forFeature(resources, { providers: [...providers] }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel([]),
          policy: { allow: ['*'], flow: 'off' },
        }),
      ],
    }).compile();
    module.useLogger(false);
    const app = new OrmApp(module, orm);
    try {
      await orm.makeTables(module);
      const statements = orm.hasRowSecurity ? rowSecurityMigration(module).split(';\n') : [];
      for (const statement of statements.filter((one) => one !== '')) await app.sql(statement);
      await prepare?.((statement) => app.sql(statement));
      await module.init();
    } catch (error) {
      await module.close().catch(() => undefined);
      throw error;
    }
    return app;
  }

  get gateway(): SqlResourceGateway<unknown> {
    return this.module.get(ResourceGateway);
  }

  /** Asks as the owner of the tables. */
  sql<Row extends object>(statement: string): Promise<readonly Row[]> {
    return this.orm.sql<Row>(this.module, statement);
  }

  call(tool: string, args: JsonObject = {}, tenant = 'acme'): Promise<CallResult> {
    return this.module
      .get(ToolLoopService)
      .call({ tool, args, argsOrigin: 'actor', actor: { id: 'ada' }, tenant });
  }

  /** The result as the model reads it. */
  async read<Result>(tool: string, args: JsonObject = {}, tenant = 'acme'): Promise<Result> {
    const { content, record } = await this.call(tool, args, tenant);
    if (record.status !== 'succeeded') throw new Error(textOf(content));
    return JSON.parse(textOf(content)) as Result;
  }

  /** The first error as the model reads it. */
  async error(tool: string, args: JsonObject = {}, tenant = 'acme'): Promise<unknown> {
    const { content, record } = await this.call(tool, args, tenant);
    if (record.status === 'succeeded') throw new Error(`It succeeded: ${textOf(content)}`);
    return (JSON.parse(textOf(content)) as { readonly errors: readonly unknown[] }).errors[0];
  }

  close(): Promise<void> {
    return this.module.close();
  }
}
