import { Entity, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ToolCatalog, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { Database, DurableModule } from '@toolloop/durable';
import { ResourceToolsModule, ToolResource } from '@toolloop/resources';
import { MikroOrmGateway, mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Expose } from 'class-transformer';
import { InProcessModel } from './application.js';
import { inOwnDatabase } from './own-database.js';
import type { Section, Suite } from './report.js';
import { compare } from './sampling.js';

const TIMES = 40;
const ROWS = 20;
const TEXTS = 14;
const SERVER = process.env['TOOLLOOP_TEST_POSTGRES'];
const QUERY = 'MikroORM';
const TOOL = 'items__read';
const CALL = 'items__read, called in a session';

/** A row of twenty fields: fourteen texts, and six others. */
@Entity({ tableName: 'items' })
class Item {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @Property({ type: 'integer' }) @Expose() pieces!: number;
  @Property({ type: 'decimal', precision: 12, scale: 2 }) @Expose() total!: string;
  @Property({ type: 'boolean' }) @Expose() express!: boolean;
  @Property({ type: 'date' }) @Expose() day!: string;
  @Property({ type: 'datetime', length: 3 }) @Expose() at!: Date;
}

const TEXT_NAMES = Array.from({ length: TEXTS }, (_, index) => `text${index + 1}`);
for (const name of TEXT_NAMES) {
  Reflect.defineMetadata('design:type', String, Item.prototype, name);
  Property({ type: 'string', length: 80 })(Item.prototype, name);
  Expose()(Item.prototype, name);
}

@ToolResource(Item, { namespace: 'items', actions: ['read'] })
class ItemTools {}

@Injectable()
class Items implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly gateway: MikroOrmGateway,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    const em = this.orm.em.fork();
    for (const statement of this.gateway.statements([Item])) await em.execute(statement);
    const texts = Object.fromEntries(TEXT_NAMES.map((name) => [name, `The ${name} of an item.`]));
    const row = {
      pieces: 3,
      total: '12.50',
      express: true,
      day: '2026-11-16',
      at: new Date('2026-11-16T09:00:00Z'),
      ...texts,
    };
    await em.insertMany(
      Item,
      Array.from({ length: 5 * ROWS }, (_, index) =>
        Object.assign({ tenant: index % 2 === 0 ? 'acme' : 'globex' }, row),
      ),
    );
  }
}

/** The cost of a read tool beside the query that it makes. */
export const resourcesSuite: Suite = {
  name: 'resources',
  async run(): Promise<Section> {
    const measured = SERVER === undefined ? undefined : await inOwnDatabase(SERVER, measure);
    return {
      title: 'a read of 20 rows of 20 fields, in the transaction of a tenant',
      method: [
        `One after the other, ${TIMES} in a sample, on PostgreSQL. The query finds the same rows by MikroORM, in the same role and transaction; the tool does so by its function alone,`,
        'and by a call of a session, through policy, validation, projection, labels, hooks and record. Medians of the rounds; a ratio is the median of the ratios within a round.',
      ],
      tables: measured ? [measured.table] : [],
      targets: measured
        ? [
            {
              what: 'a whole call of a read tool, to the same query',
              value: measured.ratio,
              unit: '×',
              atMost: 1.15,
            },
          ]
        : [],
      skipped: measured ? [] : [{ what: 'PostgreSQL', why: 'TOOLLOOP_TEST_POSTGRES is not set' }],
    };
  },
};

async function measure(
  url: string,
): Promise<{ readonly table: Section['tables'][number]; readonly ratio: number }> {
  const app = await NestFactory.createApplicationContext(applicationOn(url), { logger: ['error'] });
  const gateway = app.get(MikroOrmGateway);
  const who = { actor: { id: 'ada' }, tenant: 'acme' };
  const session = await app.get(ToolLoopService).session(who);
  const query = async (): Promise<void> => {
    await gateway.within(who, (em) =>
      em.find(Item, { tenant: 'acme' }, { orderBy: { id: 'asc' }, limit: ROWS + 1 }),
    );
  };
  const call = async (): Promise<void> => {
    const { record } = await session.call(TOOL, { limit: ROWS });
    if (record.status !== 'succeeded')
      throw new Error(`The read failed: ${JSON.stringify(record.error)}`);
  };
  const own = app.get(ToolCatalog).find(TOOL);
  const method = async (): Promise<void> =>
    void (await own?.invoke({ limit: ROWS }, { ...who, context: {}, state: new Map() } as never));
  const contenders = Object.entries({ [QUERY]: query, [TOOL]: method, [CALL]: call }).map(
    ([name, one]) => ({
      name,
      units: TIMES,
      work: () => times(one),
    }),
  );
  const samples = await compare(contenders, { rounds: 25, warmUp: 5 });
  await session.close();
  await app.close();
  const rows = contenders.map(({ name }) => ({
    name,
    us: samples.of(name, 'wall'),
    thread: samples.of(name, 'thread'),
    ratio: samples.ratio(name, QUERY, 'wall'),
    ratioOnCpu: samples.ratio(name, QUERY, 'thread'),
  }));
  const columns = [
    { key: 'name', title: 'read' },
    { key: 'us', title: 'µs', digits: 0 },
    { key: 'thread', title: 'µs of this thread', digits: 0 },
    { key: 'ratio', title: '× query' },
    { key: 'ratioOnCpu', title: '× query, of this thread' },
  ];
  return {
    table: { title: '20 rows of 20 fields', columns, rows },
    ratio: samples.ratio(CALL, QUERY, 'wall'),
  };
}

async function times(work: () => Promise<void>): Promise<void> {
  for (let count = 0; count < TIMES; count += 1) await work();
}

function applicationOn(url: string): new () => object {
  @Module({
    imports: [
      DurableModule.forRoot({ url }),
      MikroOrmModule.forRootAsync({
        driver: PostgreSqlDriver,
        inject: [Database],
        useFactory: ({ connection }: Database) => ({
          dbName: 'bench',
          ensureDatabase: false,
          driverOptions: connection,
          entities: [Item],
          schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
        }),
      }),
      ResourceToolsModule.forRoot({
        gateway: mikroOrmGateway({ tenancy: { role: 'toolloop_bench_tools' } }),
      }),
      ResourceToolsModule.forFeature([ItemTools]),
      ToolLoopModule.forRoot({
        model: new InProcessModel(() => []),
        policy: { allow: ['items__*'] },
      }),
    ],
    providers: [Items],
  })
  class BenchModule {}
  return BenchModule;
}
