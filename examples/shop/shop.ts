/**
 * A shop on PostgreSQL: its rows are tools, and the database itself keeps the rows of one tenant
 * from another.
 *
 * `npm run example -- shop` runs on an embedded database, with DATABASE_URL on that server.
 */
import type { Opt } from '@mikro-orm/core';
import { Entity, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { type LoopResult, ToolField, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { Database, DurableModule } from '@toolloop/durable';
import { ResourceToolsModule, ToolResource } from '@toolloop/resources';
import { MikroOrmGateway, mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { print, runIfMain, withApplication } from '../run.js';

@Entity({ tableName: 'products' })
export class Product {
  @PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;

  @Property({ type: 'string', hidden: true })
  tenant!: Opt<string>;

  @Property({ type: 'string', comment: 'What customers call it.' })
  @Expose()
  name!: string;

  @Property({ type: 'integer', comment: 'How many are left.' })
  @ToolField({ origin: 'application' })
  @Expose()
  stock!: number;
}

@ToolResource(Product, { namespace: 'products', actions: ['read', 'create', 'update'] })
class ProductTools {}

/**
 * Makes the table and protects it, for a first start. In production these are migrations of your
 * own.
 */
@Injectable()
class Tables implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly gateway: MikroOrmGateway,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    for (const statement of this.gateway.statements([Product]))
      await this.orm.em.fork().execute(statement);
  }
}

const { DATABASE_URL } = process.env;
const SCRIPT = [
  calls(call('products__create', { input: { name: 'Lamp', stock: 3 } })),
  calls(call('products__read', { filter: { name: { eq: 'Lamp' } } })),
  text('There are three lamps.'),
];

@Module({
  imports: [
    DurableModule.forRoot(DATABASE_URL === undefined ? { memory: true } : { url: DATABASE_URL }),
    MikroOrmModule.forRootAsync({
      driver: PostgreSqlDriver,
      inject: [Database],
      useFactory: ({ connection }: Database) => ({
        driverOptions: connection,
        dbName: 'shop', // has to be said, and is not used
        ensureDatabase: false,
        entities: [Product],
        schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] }, // the tables of DurableModule
      }),
    }),
    ResourceToolsModule.forRoot({
      gateway: mikroOrmGateway({ tenancy: { property: 'tenant', role: 'shop_tools' } }),
    }),
    ResourceToolsModule.forFeature([ProductTools]),
    ToolLoopModule.forRoot({
      model: new ScriptedModel(SCRIPT, { perRun: true }),
      policy: { allow: ['products__*'] },
    }),
  ],
  providers: [Tables],
})
export class ShopModule {}

/** Puts a lamp on the shelf of a tenant, and reads it in the name of each. */
export async function shop(): Promise<readonly LoopResult[]> {
  return withApplication(ShopModule, async (app) => {
    const loop: ToolLoopService = app.get(ToolLoopService);
    const mine = await loop.run({
      prompt: 'How many lamps are there?',
      actor: { id: 'ada' },
      tenant: 'acme',
    });
    const model = new ScriptedModel([
      calls(call('products__read', {})),
      text('The shelf is empty.'),
    ]);
    return [
      mine,
      await loop.run({
        prompt: 'How many lamps are there?',
        actor: { id: 'bob' },
        tenant: 'globex',
        model,
      }),
    ];
  });
}

await runIfMain(import.meta.url, async () => {
  for (const { text: answer, toolCalls } of await shop()) {
    for (const { id, args, result } of toolCalls) print(id, args, '→', result);
    print(answer);
  }
});
