import { MikroOrmModule } from '@mikro-orm/nestjs';
import { EntityManager, MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Injectable, type OnModuleInit, type Type } from '@nestjs/common';
import type { ToolCallContext } from '@toolloop/core';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { MikroOrmGateway, mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Order } from './shop.js';
import { ShopStorage, type Storing, type Values } from './shop-storage.js';

/** Makes the tables and protects them, as the migrations of an application do. */
@Injectable()
export class MikroOrmStorage extends ShopStorage implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly em: EntityManager,
    private readonly gateway: MikroOrmGateway,
  ) {
    super();
  }

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    const entities = [...this.orm.getMetadata()].map(({ class: entity }) => entity as Type);
    for (const statement of this.gateway.statements(entities)) await this.sql(statement);
  }

  override sql<Row>(statement: string, values: Values = []): Promise<Row[]> {
    return this.em.fork().execute<Row[]>(statement, [...values]);
  }

  override sqlWithin(context: ToolCallContext, statement: string): Promise<readonly unknown[]> {
    return this.gateway.within(context, (em) => em.execute<unknown[]>(statement));
  }

  override overwrite(context: ToolCallContext, id: number): Promise<void> {
    return this.gateway.within(context, async (em) => {
      em.assign(em.getReference(Order, id as never), { note: 'overwritten' } as never);
      await em.flush();
    });
  }

  override async insert<Row extends object>(
    entity: Type<Row>,
    rows: readonly object[],
  ): Promise<readonly Row[]> {
    const em = this.em.fork();
    const made = rows.map((row) => em.create<object>(entity, row as never) as Row);
    await em.flush();
    return made;
  }

  override async clear(): Promise<void> {
    await this.sql('truncate orders, customers restart identity cascade');
  }
}

/** MikroORM on the database of the calls. */
export function mikroOrm(durable: () => Promise<DurableOptions>): Storing {
  return async (entities) => ({
    imports: [
      DurableModule.forRoot(await durable()),
      MikroOrmModule.forRootAsync({
        driver: PostgreSqlDriver,
        inject: [Database],
        useFactory: ({ connection }: Database) => ({
          dbName: 'shop',
          ensureDatabase: false,
          driverOptions: connection,
          entities: [...entities],
          schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
        }),
      }),
    ],
    provider: MikroOrmStorage,
    gateway: mikroOrmGateway,
  });
}
