import { type Collection, type Opt, Utils } from '@mikro-orm/core';
import {
  Entity,
  Enum,
  ManyToOne,
  OneToMany,
  PrimaryKey,
  Property,
  Unique,
} from '@mikro-orm/decorators/legacy';
import { Injectable, Module, type Provider, type Type as ClassType } from '@nestjs/common';
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
import {
  ResourceGateway,
  ResourceToolsModule,
  type SqlGatewayOptions,
  SqlResourceGateway,
  ToolResource,
} from '@toolloop/resources';
import { gatewayOf } from '@toolloop/resources/mikro-orm';
import { gatewayOf as typeOrmGatewayOf } from '@toolloop/resources/typeorm';
import { ScriptedModel } from '@toolloop/testing';
import { Expose, Type } from 'class-transformer';
import { ShopStorage, type Storing, type Values } from './shop-storage.js';

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
  orders!: Collection<Order>;

  @LlmTool({ description: 'Greets the customer.', effect: 'read_only', reveal: 'all' })
  async greet(@ToolContext() context: ToolCallContext): Promise<string> {
    const count = await countOrders(this, context);
    return `Hello ${this.name}, of ${count} orders`;
  }
}

/** By the ORM that has loaded the customer. */
function countOrders(customer: Customer, context: ToolCallContext): Promise<number> {
  const { id } = customer;
  if (Utils.isEntity(customer))
    return gatewayOf(customer).within(context, (em) => em.count(Order, { customer: id }));
  return typeOrmGatewayOf(customer).within(context, (em) =>
    em.countBy(Order, { customer: { id } as never, tenant: context.tenant ?? '' }),
  );
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
  @Enum({ items: () => OrderStatus, default: OrderStatus.New }) @Expose() status: Opt<OrderStatus> =
    OrderStatus.New;
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
  @Property({ type: 'string', length: 80, nullable: true, hidden: true })
  @Expose()
  internalStatus?: string | null;
  /** In no result, and no filter. */
  @Property({ type: 'string', length: 80, nullable: true }) margin?: string | null;
  @ManyToOne({ entity: () => Customer, nullable: true, deleteRule: 'set null' })
  @Expose()
  @Type(() => Customer)
  customer?: Customer | null;
}

@ToolResource(Order, {
  namespace: 'orders',
  actions: { read: { load: ['internalStatus'] }, create: true, update: true, destroy: true },
})
export class OrderTools {}

@ToolResource(Customer, {
  namespace: 'customers',
  actions: ['read', 'create', 'update', 'destroy'],
})
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

@Module({})
class ShopModule {}

export const ROLE = 'toolloop_test_tools';

export interface ShopOptions {
  /** The ORM and its database. */
  readonly storing: Storing;
  readonly resources?: readonly ClassType[];
  readonly entities?: readonly ClassType[];
  readonly providers?: readonly Provider[];
  readonly gateway?: Omit<SqlGatewayOptions<unknown>, 'prepare'>;
  readonly policy?: Policy;
  readonly options?: Partial<ToolLoopOptions>;
}

/** An application whose rows are of two tenants. */
export class Shop {
  private constructor(readonly module: TestingModule) {}

  static async start({
    storing,
    resources = [OrderTools, CustomerTools],
    entities = [Customer, Order],
    ...options
  }: ShopOptions): Promise<Shop> {
    const { imports, provider, gateway } = await storing(entities);
    const module = await Test.createTestingModule({
      imports: [
        ...imports,
        ResourceToolsModule.forRoot({
          gateway: gateway(options.gateway ?? { tenancy: { role: ROLE } }),
        }),
        ResourceToolsModule.forFeature(resources, { providers: [...(options.providers ?? [])] }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel([]),
          policy: options.policy ?? { allow: ['*'] },
          ...options.options,
        }),
        {
          module: ShopModule,
          global: true,
          providers: [{ provide: ShopStorage, useClass: provider }],
          exports: [ShopStorage],
        },
      ],
      providers: [Staff],
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

  get gateway(): SqlResourceGateway<unknown> {
    return this.module.get(ResourceGateway);
  }

  get storage(): ShopStorage {
    return this.module.get(ShopStorage);
  }

  sql<Row = never>(statement: string, values?: Values): Promise<Row[]> {
    return this.storage.sql<Row>(statement, values);
  }

  call(tool: string, args: JsonObject = {}, tenant = 'acme', actorId = 'ada'): Promise<CallResult> {
    return this.loop.call({
      tool,
      args,
      argsOrigin: 'actor',
      actor: { id: actorId, tenant },
      tenant,
    });
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

  close(): Promise<void> {
    return this.module.close();
  }
}

/** The text that the model reads. */
export function textOf(content: CallResult['content']): string {
  return typeof content === 'string' ? content : JSON.stringify(content);
}

/** Fills both tenants: what is in acme has a namesake in globex. */
export async function seed(shop: Shop): Promise<void> {
  const { storage } = shop;
  await storage.clear();
  for (const tenant of ['acme', 'globex']) {
    const [ann, bob] = await storage.insert(Customer, [
      { tenant, name: `Ann of ${tenant}`, email: 'ann@example.com', city: 'Bath' },
      { tenant, name: `Bob of ${tenant}`, email: 'bob@example.com' },
    ]);
    const orders: object[] = [
      {
        number: 'o-1',
        total: '10.50',
        status: OrderStatus.Paid,
        customer: ann?.id,
        placedOn: '2026-01-05',
        pieces: 3,
        rating: 5,
        internalStatus: `${tenant} only`,
        margin: '1',
      },
      {
        number: 'o-2',
        total: '20.00',
        customer: ann?.id,
        placedOn: '2026-02-05',
        note: `secret of ${tenant}`,
        pieces: 1,
        express: true,
        trackingId: 1152921504606846976n,
      },
      {
        number: 'o-3',
        total: '5.25',
        status: OrderStatus.Cancelled,
        customer: bob?.id,
        rating: 2,
        shippedAt: new Date('2026-03-01T12:00:00.123Z'),
        trackingId: 1152921504606846977n,
      },
    ];
    if (tenant === 'globex')
      orders.push({ number: 'o-4', total: '1000.00', customer: bob?.id, pieces: 99 });
    await storage.insert(
      Order,
      orders.map((order) => Object.assign(order, { tenant })),
    );
  }
}
