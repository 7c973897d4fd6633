import { randomUUID } from 'node:crypto';
import { afterAll, describe } from '@jest/globals';
import {
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type OnApplicationShutdown,
  type OnModuleInit,
  type Type,
} from '@nestjs/common';
import type { ToolCallContext } from '@toolloop/core';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { TypeOrmGateway, typeOrmGateway } from '@toolloop/resources/typeorm';
import { createConnection } from 'mysql2/promise';
import {
  DataSource,
  type DataSourceOptions,
  EntitySchema,
  type EntitySchemaColumnOptions,
} from 'typeorm';
import { Customer, Order, OrderStatus } from './shop.js';
import { ShopStorage, type Storing, type Values } from './shop-storage.js';

const SERVER = process.env['TOOLLOOP_TEST_MARIADB'];
const suite = SERVER ? describe : describe.skip;
const REASON = SERVER ? '' : ' [skipped: set TOOLLOOP_TEST_MARIADB=mariadb://root@127.0.0.1:3306]';

/** A suite that needs a MariaDB, and says so where there is none. */
export function describeMariaDb(name: string, body: () => void): void {
  suite(`${name}${REASON}`, body);
}

const key: EntitySchemaColumnOptions = { type: 'int', primary: true, generated: 'increment' };
const text = (length: number, more: object = {}): EntitySchemaColumnOptions => ({
  type: 'varchar',
  length: String(length),
  ...more,
});
const nullable = { nullable: true };

function isList(rows: unknown): rows is readonly unknown[] {
  return Array.isArray(rows);
}

/** The tables of the shop as TypeORM has them. */
function schemas(
  moment: 'timestamptz' | 'datetime',
  states: 'varchar' | 'enum',
): readonly EntitySchema[] {
  const customers = new EntitySchema<Customer>({
    name: 'Customer',
    target: Customer,
    tableName: 'customers',
    columns: {
      id: key,
      tenant: text(40),
      name: text(80),
      email: text(80),
      city: text(80, nullable),
      password: text(80, { default: 's3cret', select: false }),
    },
    relations: { orders: { type: 'one-to-many', target: 'Order', inverseSide: 'customer' } },
    uniques: [{ columns: ['tenant', 'email'] }],
  });
  const orders = new EntitySchema<Order>({
    name: 'Order',
    target: Order,
    tableName: 'orders',
    columns: {
      id: key,
      tenant: text(40),
      number: text(40, { comment: 'Such as o-1024.' }),
      status: {
        type: states,
        enum: OrderStatus,
        default: OrderStatus.New,
        ...(states === 'varchar' && { length: 20 }),
      },
      total: { type: 'decimal', precision: 12, scale: 2 },
      pieces: { type: 'int', default: 0 },
      rating: { type: 'int', ...nullable },
      weight: { type: 'double precision', ...nullable },
      express: { type: Boolean, default: false },
      placedOn: { type: 'date', ...nullable },
      shippedAt: { type: moment, precision: 3, ...nullable },
      note: text(200, nullable),
      reference: { type: 'uuid', ...nullable },
      currency: text(3, { default: 'EUR' }),
      street: text(80, nullable),
      town: text(80, nullable),
      zip: text(12, nullable),
      country: text(2, nullable),
      carrier: text(20, nullable),
      trackingId: { type: 'bigint', ...nullable },
      version: { type: 'int', version: true },
      internalStatus: text(80, { ...nullable, select: false }),
      margin: text(80, nullable),
    },
    relations: {
      customer: {
        type: 'many-to-one',
        target: 'Customer',
        nullable: true,
        onDelete: 'SET NULL',
        joinColumn: { name: 'customer_id' },
        inverseSide: 'orders',
      },
    },
    uniques: [{ name: 'orders_number', columns: ['tenant', 'number'] }],
  });
  return [customers as EntitySchema, orders as EntitySchema];
}

@Injectable()
export class TypeOrmStorage extends ShopStorage implements OnModuleInit, OnApplicationShutdown {
  constructor(
    @Inject(DataSource) private readonly source: DataSource,
    private readonly gateway: TypeOrmGateway,
  ) {
    super();
  }

  async onModuleInit(): Promise<void> {
    await this.source.synchronize();
    for (const statement of this.gateway.statements([Customer, Order])) await this.sql(statement);
  }

  onApplicationShutdown(): Promise<void> {
    return this.source.destroy();
  }

  override sql<Row>(statement: string, values: Values = []): Promise<Row[]> {
    return this.source.query<Row[]>(this.numbered(statement), [...values]);
  }

  override async sqlWithin(
    context: ToolCallContext,
    statement: string,
  ): Promise<readonly unknown[]> {
    const rows: unknown = await this.gateway.within(context, (em) => em.query(statement));
    return isList(rows) ? rows : [];
  }

  override async overwrite(context: ToolCallContext, id: number): Promise<void> {
    await this.gateway.within(context, async (em) => {
      const { affected } = await em.update(Order, { id }, { note: 'overwritten' });
      if (affected === 0) throw new Error('There is no such row.');
    });
  }

  override async insert<Row extends object>(
    entity: Type<Row>,
    rows: readonly object[],
  ): Promise<readonly Row[]> {
    const made = rows.map((row) => Object.assign(new entity(), row));
    return this.source.manager.save(made);
  }

  override async clear(): Promise<void> {
    if (this.source.options.type === 'postgres')
      return void (await this.sql('truncate orders, customers restart identity cascade'));
    for (const table of ['orders', 'customers']) {
      await this.sql(`delete from ${table}`);
      await this.sql(`alter table ${table} auto_increment = 1`);
    }
  }

  private numbered(statement: string): string {
    let count = 0;
    return this.source.options.type === 'postgres'
      ? statement.replaceAll('?', () => `$${(count += 1)}`)
      : statement;
  }
}

@Module({})
class DataSourceModule {
  static of(
    options: DataSourceOptions | undefined,
    entities: readonly EntitySchema[],
  ): DynamicModule {
    const opened = (from: DataSourceOptions): Promise<DataSource> =>
      new DataSource({ ...from, entities: [...entities] }).initialize();
    const onCalls = ({ connection }: Database): Promise<DataSource> =>
      opened({ type: 'postgres', installExtensions: false, extra: connection });
    return {
      module: DataSourceModule,
      global: true,
      providers: [
        options
          ? { provide: DataSource, useFactory: () => opened(options) }
          : { provide: DataSource, inject: [Database], useFactory: onCalls },
      ],
      exports: [DataSource],
    };
  }
}

/** TypeORM on the database of the calls. */
export function typeOrm(durable: () => Promise<DurableOptions>): Storing {
  return async () => ({
    imports: [
      DurableModule.forRoot(await durable()),
      DataSourceModule.of(undefined, schemas('timestamptz', 'varchar')),
    ],
    provider: TypeOrmStorage,
    gateway: typeOrmGateway,
  });
}

const made: string[] = [];
if (SERVER)
  afterAll(async () => {
    for (const name of made) await onServer(`drop database if exists ${name}`);
  });

async function onServer(statement: string): Promise<void> {
  const { hostname, port, username, password } = new URL(SERVER ?? '');
  const connection = await createConnection({
    host: hostname,
    port: Number(port || 3306),
    user: username,
    password,
  });
  await connection.query(statement);
  await connection.end();
}

/** An empty MariaDB of its own, which is dropped after the specs of the file. */
export async function createMariaDb(): Promise<
  Extract<DataSourceOptions, { readonly type: 'mysql' | 'mariadb' }>
> {
  const name = `toolloop_test_${randomUUID().replaceAll('-', '')}`;
  await onServer(`create database ${name} character set utf8mb4`);
  made.push(name);
  const { hostname: host, port, username, password } = new URL(SERVER ?? '');
  return {
    type: 'mariadb',
    host,
    port: Number(port || 3306),
    username,
    password,
    database: name,
    timezone: 'Z',
  };
}

/** TypeORM on a MariaDB of its own, beside the calls in memory. */
export const onMariaDb: Storing = async () => ({
  imports: [DataSourceModule.of(await createMariaDb(), schemas('datetime', 'enum'))],
  provider: TypeOrmStorage,
  gateway: typeOrmGateway,
});

/** The same by one connection, so that what a test sets on it holds for every statement. */
export const onOneConnection: Storing = async () => ({
  imports: [
    DataSourceModule.of(
      { ...(await createMariaDb()), extra: { connectionLimit: 1 } },
      schemas('datetime', 'enum'),
    ),
  ],
  provider: TypeOrmStorage,
  gateway: typeOrmGateway,
});
