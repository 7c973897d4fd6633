import { Collection, type Opt } from '@mikro-orm/core';
import { Entity, Enum, ManyToOne, OneToMany, PrimaryKey, Property, Unique } from '@mikro-orm/decorators/legacy';
import { MikroOrmModule } from '@mikro-orm/nestjs';
import { EntityManager, MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { Injectable, type OnModuleInit, type Provider, type Type as ClassType } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  type JsonObject,
  LlmTool,
  type Policy,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import type { CallResult } from '@toolloop/core/contracts';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { ResourceToolsModule, ToolResource } from '@toolloop/resources';
import { gatewayOf, MikroOrmGateway, mikroOrmGateway, type MikroOrmGatewayOptions } from '@toolloop/resources/mikro-orm';
import { ScriptedModel } from '@toolloop/testing';
import { Expose, Type } from 'class-transformer';

@Entity({ tableName: 'customers' })
@Unique({ properties: ['tenant', 'email'] })
@ToolProvider({ prefix: 'customer', tenantProperty: 'tenant' })
export class Customer {
  @PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;

  @Property({ type: 'string', length: 40, hidden: true })
  tenant!: Opt<string>;

  @Property({ type: 'string', length: 80 })
  @Expose()
  name!: string;

  @Property({ type: 'string', length: 80 })
  @Expose({ groups: ['model'] })
  email!: string;

  @Property({ type: 'string', length: 80, nullable: true })
  @Expose()
  city?: string | null;

  /** Never shown. */
  @Property({ type: 'string', length: 80, default: 's3cret', hidden: true })
  password!: Opt<string>;

  @OneToMany({ entity: () => Order, mappedBy: 'customer' })
  @Expose()
  @Type(() => Order)
  orders = new Collection<Order>(this);

  @LlmTool({ description: 'Greets the customer.', effect: 'read_only', reveal: 'all' })
  async greet(@ToolContext() context: ToolCallContext): Promise<string> {
    const count = await gatewayOf(this).within(context, (em) => em.count(Order, { customer: this.id }));
    return `Hello ${this.name}, of ${count} orders`;
  }
}

export enum OrderStatus {
  New = 'new',
  Paid = 'paid',
  Cancelled = 'cancelled',
}

/** An entity of twenty fields that a model may see. */
@Entity({ tableName: 'orders' })
@Unique({ name: 'orders_number', properties: ['tenant', 'number'] })
export class Order {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 40, comment: 'Such as o-1024.' }) @Expose() number!: string;
  @Enum({ items: () => OrderStatus, default: OrderStatus.New }) @Expose() status: Opt<OrderStatus> = OrderStatus.New;
  @Property({ type: 'decimal', precision: 12, scale: 2 }) @Expose() total!: string;
  @Property({ type: 'integer', default: 0 }) @Expose() pieces: Opt<number> = 0;
  @Property({ type: 'integer', nullable: true }) @Expose() rating?: number | null;
  @Property({ type: 'double', nullable: true }) @Expose() weight?: number | null;
  @Property({ type: 'boolean', default: false }) @Expose() express: Opt<boolean> = false;
  @Property({ type: 'date', nullable: true }) @Expose() placedOn?: string | null;
  @Property({ type: 'datetime', length: 3, nullable: true }) @Expose() shippedAt?: Date | null;
  @Property({ type: 'string', length: 200, nullable: true }) @Expose() note?: string | null;
  @Property({ type: 'uuid', nullable: true }) @Expose() reference?: string | null;
  @Property({ type: 'string', length: 3, default: 'EUR' }) @Expose() currency: Opt<string> = 'EUR';
  @Property({ type: 'string', length: 80, nullable: true }) @Expose() street?: string | null;
  @Property({ type: 'string', length: 80, nullable: true }) @Expose() town?: string | null;
  @Property({ type: 'string', length: 12, nullable: true }) @Expose() zip?: string | null;
  @Property({ type: 'string', length: 2, nullable: true }) @Expose() country?: string | null;
  @Property({ type: 'string', length: 20, nullable: true }) @Expose() carrier?: string | null;
  @Property({ type: 'bigint', nullable: true }) @Expose() trackingId?: bigint | null;
  @Property({ type: 'integer', version: true }) @Expose() version!: Opt<number>;
  /** Only returned where the resource loads it. */
  @Property({ type: 'string', length: 80, nullable: true, hidden: true }) @Expose() internalStatus?: string | null;
  /** In no result, and no filter. */
  @Property({ type: 'string', length: 80, nullable: true }) margin?: string | null;
  @ManyToOne({ entity: () => Customer, nullable: true, deleteRule: 'set null' }) @Expose() @Type(() => Customer) customer?: Customer | null;
}

@ToolResource(Order, {
  namespace: 'orders',
  actions: { read: { load: ['internalStatus'] }, create: true, update: true, destroy: true },
})
export class OrderTools {}

@ToolResource(Customer, { namespace: 'customers', actions: ['read', 'create', 'update', 'destroy'] })
export class CustomerTools {}

export interface User {
  readonly id: string;
  readonly tenant: string;
}

@Injectable()
class Staff extends ActorDirectory<User> {
  override find(id: string, tenant: string): Promise<User> {
    return Promise.resolve({ id, tenant });
  }
}

export const ROLE = 'toolloop_test_tools';

/** Makes the tables and protects them, as the migrations of an application do. */
@Injectable()
class ShopMigrations implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly gateway: MikroOrmGateway,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    for (const statement of this.gateway.statements([Customer, Order])) await this.orm.em.fork().execute(statement);
  }
}

export interface ShopOptions {
  readonly durable: DurableOptions;
  readonly resources?: readonly ClassType[];
  readonly entities?: readonly ClassType[];
  readonly providers?: readonly Provider[];
  readonly gateway?: MikroOrmGatewayOptions;
  readonly policy?: Policy;
  readonly options?: Partial<ToolLoopOptions>;
}

/** An application whose rows are of two tenants. */
export class Shop {
  private constructor(readonly module: TestingModule) {}

  static async start({
    durable,
    resources = [OrderTools, CustomerTools],
    entities = [Customer, Order],
    ...options
  }: ShopOptions): Promise<Shop> {
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot(durable),
        MikroOrmModule.forRootAsync({
          driver: PostgreSqlDriver,
          inject: [Database],
          useFactory: ({ connection }: Database) => ({
            dbName: 'shop',
            driverOptions: connection,
            entities: [...entities],
            schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
          }),
        }),
        ResourceToolsModule.forRoot({ gateway: mikroOrmGateway(options.gateway ?? { tenancy: { role: ROLE } }) }),
        ResourceToolsModule.forFeature(resources, { providers: [...(options.providers ?? [])] }),
        ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: options.policy ?? { allow: ['*'] }, ...options.options }),
      ],
      providers: [Staff, ShopMigrations],
    }).compile();
    module.useLogger(false);
    try {
      await module.init();
    } catch (error) {
      await module.close().catch(() => undefined);
      throw error;
    }
    return new Shop(module);
  }

  get loop(): ToolLoopService {
    return this.module.get(ToolLoopService);
  }

  get gateway(): MikroOrmGateway {
    return this.module.get(MikroOrmGateway);
  }

  /** As the user of the connection, for whom no row level security holds on PGlite and in the tests' PostgreSQL. */
  fork(): EntityManager {
    return this.module.get(EntityManager).fork();
  }

  call(tool: string, args: JsonObject = {}, tenant = 'acme', actorId = 'ada'): Promise<CallResult> {
    return this.loop.call({ tool, args, actor: { id: actorId, tenant }, tenant });
  }

  /** The result as the model reads it. */
  async read(tool: string, args: JsonObject = {}, tenant = 'acme'): Promise<never> {
    const { content, record } = await this.call(tool, args, tenant);
    if (record.status !== 'succeeded') throw new Error(textOf(content));
    return JSON.parse(textOf(content)) as never;
  }

  /** The first error as the model reads it. */
  async error(
    tool: string,
    args: JsonObject = {},
    tenant = 'acme',
  ): Promise<{ code: string; status: string; detail: string; source?: { pointer: string } }> {
    const { content, record } = await this.call(tool, args, tenant);
    if (record.status === 'succeeded') throw new Error(`It succeeded: ${textOf(content)}`);
    return (JSON.parse(textOf(content)) as { errors: [never] }).errors[0];
  }

  /** All that the model reads, whatever became of the call. */
  async text(tool: string, args: JsonObject = {}, actorId = 'ada'): Promise<string> {
    return textOf((await this.call(tool, args, 'acme', actorId)).content);
  }

  async clear(): Promise<void> {
    await this.fork().execute('truncate orders, customers restart identity cascade');
  }

  close(): Promise<void> {
    return this.module.close();
  }
}

function textOf(content: CallResult['content']): string {
  return typeof content === 'string' ? content : JSON.stringify(content);
}

/** Fills both tenants: what is in acme has a namesake in globex. */
export async function seed(shop: Shop): Promise<void> {
  await shop.clear();
  const em = shop.fork();
  for (const tenant of ['acme', 'globex']) {
    const ann = em.create(Customer, { tenant, name: `Ann of ${tenant}`, email: 'ann@example.com', city: 'Bath' });
    const bob = em.create(Customer, { tenant, name: `Bob of ${tenant}`, email: 'bob@example.com' });
    await em.flush();
    const add = (number: string, total: string, more: object = {}): unknown =>
      em.create(Order, { tenant, number, total, ...more } as never);
    add('o-1', '10.50', {
      status: OrderStatus.Paid,
      customer: ann,
      placedOn: '2026-01-05',
      pieces: 3,
      rating: 5,
      internalStatus: `${tenant} only`,
      margin: '1',
    });
    add('o-2', '20.00', { customer: ann, placedOn: '2026-02-05', pieces: 1, note: `secret of ${tenant}`, express: true });
    add('o-3', '5.25', { status: OrderStatus.Cancelled, customer: bob, rating: 2, shippedAt: new Date('2026-03-01T12:00:00.123Z') });
    if (tenant === 'globex') add('o-4', '1000.00', { customer: bob, pieces: 99 });
    await em.flush();
  }
}
