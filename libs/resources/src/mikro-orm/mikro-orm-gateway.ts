import { helper, MikroORM } from '@mikro-orm/core';
import type { AbstractSqlDriver, Kysely, SqlEntityManager } from '@mikro-orm/sql';
import type { FactoryProvider, Type } from '@nestjs/common';
import type { Finding, ToolCallContext } from '@toolloop/core';
import { type EntityModel, mayPass, ResourceGateway, type ResourceScope, type ResourceSession } from '../resource-gateway.js';
import { fromMetadata } from './from-mikro-orm.js';
import { columnOf, MikroOrmSession, toWriteError } from './mikro-orm-session.js';
import { rowSecurityFindings, rowSecurityStatements, type TenantTable } from './row-level-security.js';

/** The options that keep the rows of tenants apart. */
export interface Tenancy {
  /** The property of entities that names their tenant. @default 'tenant' */
  readonly property?: string;
  /**
   * The role in which every statement runs, on a database with row level security: it owns no table, and is neither a superuser nor exempt from row level security.
   * Needed there.
   */
  readonly role?: string;
  /** The setting that has the tenant during a transaction, which the policies of the tables read. @default 'toolloop.tenant' */
  readonly setting?: string;
}

/** The options of the gateway to MikroORM. */
export interface MikroOrmGatewayOptions {
  readonly tenancy?: Tenancy;
  /** The milliseconds that one statement may take, on PostgreSQL. @default 5000 */
  readonly statementMs?: number;
  /** Prepares the entity manager of each transaction, such as with the parameters of the application's own filters. */
  prepare?(this: void, em: SqlEntityManager, scope: ResourceScope): void;
}

const STATEMENT_MS = 5_000;

/** The gateway to the entities of MikroORM, on every database that it has SQL for. */
export class MikroOrmGateway extends ResourceGateway {
  private readonly models = new Map<Type, EntityModel | undefined>();
  private readonly tenancy: Required<Omit<Tenancy, 'role'>> & Pick<Tenancy, 'role'>;

  constructor(
    private readonly orm: MikroORM<AbstractSqlDriver>,
    private readonly options: MikroOrmGatewayOptions = {},
  ) {
    super();
    GATEWAYS.set(orm.config, this);
    this.tenancy = { property: 'tenant', setting: 'toolloop.tenant', ...options.tenancy };
  }

  override describe(entity: Type): EntityModel | undefined {
    if (!this.models.has(entity)) {
      const metadata = this.orm.getMetadata().find(entity);
      this.models.set(entity, metadata && fromMetadata(metadata, this.tenancy.property));
    }
    return this.models.get(entity);
  }

  override findings(models: readonly EntityModel[]): Promise<readonly Finding[]> {
    const { role } = this.tenancy;
    const em = this.manager();
    if (!this.hasRowSecurity) return Promise.resolve(models.flatMap((model) => columnFindings(model, this.tenancy.property)));
    if (role === undefined) return Promise.resolve([WITHOUT_ROLE]);
    return rowSecurityFindings(em, this.tables(models), role);
  }

  /** Returns the statements that protect the tables of these entities, to be put into a migration of the application; they can be run again. */
  statements(entities: readonly Type[]): readonly string[] {
    const { role, setting } = this.tenancy;
    if (role === undefined) return [];
    const models = entities.flatMap((entity) => this.describe(entity) ?? []);
    return rowSecurityStatements(this.tables(models), { role, setting });
  }

  override transaction<Result>(scope: ResourceScope, work: (session: ResourceSession) => Promise<Result>): Promise<Result> {
    return this.run(scope, async (em) => {
      const result = await work(new MikroOrmSession(em, scope.tenant, (entity) => this.describe(entity)));
      em.clear(); // a session has flushed what it writes, and the commit would look for changes in every row that was read
      return result;
    });
  }

  /**
   * Runs the work of a tool of your own in one transaction of its tenant, with an entity manager of its own: in that of the call where the tool changes things, so that
   * what is written and the mark of the call are committed together. Where the connection is lost under it, it is run once more: do nothing in it that is not undone with it.
   *
   * @example
   * return this.gateway.within(context, async (em) => {
   *   const order = await em.findOneOrFail(Order, { number });
   *   order.status = OrderStatus.Shipped;
   *   return order.number;
   * });
   */
  within<Result>(
    context: Pick<ToolCallContext, 'actor' | 'tenant' | 'transaction'>,
    work: (em: SqlEntityManager) => Promise<Result>,
  ): Promise<Result> {
    const { transaction } = context;
    if (!transaction) return this.run(context, work);
    return transaction(() => this.run({ ...context, isJoined: true }, work));
  }

  private run<Result>(scope: ResourceScope, work: (em: SqlEntityManager) => Promise<Result>): Promise<Result> {
    return this.repeated(scope, async (onCommit) => {
      const em = this.manager();
      this.options.prepare?.(em, scope);
      try {
        await em.begin();
        await this.enter(em, scope);
        const result = await work(em);
        await em.flush();
        onCommit();
        await em.commit();
        return result;
      } catch (error) {
        await em.rollback().catch((failure: unknown) => releaseLost(em, failure)); // what it failed with is told
        throw toWriteError(error);
      }
    });
  }

  /** Settings end with the transaction. One statement, since each is a round trip. */
  private async enter(em: SqlEntityManager, { tenant, isJoined = false }: ResourceScope): Promise<void> {
    if (!this.hasRowSecurity) return;
    const { role = 'none', setting } = this.tenancy;
    const timeout = String(this.options.statementMs ?? STATEMENT_MS);
    const [entered] = await em.execute<{ joined: boolean }[]>(
      `select set_config('role', ?, true), set_config(?, ?, true), set_config('statement_timeout', ?, true), pg_current_xact_id_if_assigned() is not null as joined`,
      [role, setting, tenant, timeout],
    );
    if (isJoined && !entered?.joined) throw new Error(NOT_JOINED);
  }

  private manager(): SqlEntityManager {
    return this.orm.em.fork({ clear: true });
  }

  private get hasRowSecurity(): boolean {
    return this.orm.em.getPlatform().supportsRowLevelSecurity();
  }

  private tables(models: readonly EntityModel[]): readonly TenantTable[] {
    return models.map((model) => {
      const metadata = this.orm.getMetadata().get(model.entity);
      const { tableName, schema } = metadata;
      const column = model.tenant === undefined ? undefined : columnOf(metadata, model.tenant);
      return {
        entity: model.entity.name,
        table: tableName,
        ...(schema !== undefined && { schema }),
        ...(column !== undefined && { column }),
      };
    });
  }
}

/** The parts of Kysely's open transaction that give its connection back. */
interface OpenTransaction extends Kysely<unknown> {
  rollback(): { execute(): Promise<void> };
}

/**
 * Gives a connection back that was lost. Kysely does so when its rollback was answered, which none is over a lost connection, and the pool would be one smaller each time. A
 * connection that may still have its transaction is kept: the next tenant would continue in it.
 */
async function releaseLost(em: SqlEntityManager, failure: unknown): Promise<void> {
  const open = em.getTransactionContext<OpenTransaction>();
  if (!open || !mayPass(failure)) return;
  await open.getExecutor().provideConnection((connection) => {
    connection.executeQuery = () => Promise.resolve({ rows: [] });
    return Promise.resolve();
  });
  await open.rollback().execute();
}

const NOT_JOINED =
  'The entity manager works outside of the transaction of the call, so its writes could be made twice. Give MikroORM the connection of the Database of @toolloop/durable: driverOptions: database.connection.';

const WITHOUT_ROLE: Finding = {
  at: 'mikroOrmGateway',
  problem: 'It has no role, so row level security would not hold for the user who owns the tables.',
  remedy: 'Give the role of which statements are run: mikroOrmGateway({ tenancy: { role } }).',
};

function columnFindings({ entity, tenant }: EntityModel, property: string): Finding[] {
  if (tenant !== undefined) return [];
  return [
    {
      at: entity.name,
      problem: `It has no property "${property}", and the database has no row level security, so its rows cannot be kept apart.`,
      remedy: 'Add the property, or declare the resource as shared: @ToolResource(…, { shared: true }).',
    },
  ];
}

/** The gateways by the configuration of their ORM, which every entity manager has. */
const GATEWAYS = new WeakMap<object, MikroOrmGateway>();

/**
 * Finds the gateway of an entity that it loaded, for the entity's own tools.
 *
 * @throws {Error} For an object that was not loaded by one.
 * @example
 * cancel(@ToolContext() context: ToolCallContext): Promise<void> {
 *   return gatewayOf(this).within(context, async (em) => {
 *     await em.nativeUpdate(Order, { id: this.id }, { status: OrderStatus.Cancelled });
 *   });
 * }
 */
export function gatewayOf(entity: object): MikroOrmGateway {
  const { __em: em } = helper(entity as never); // MikroORM's own name
  const { config } = (em ?? {}) as Partial<SqlEntityManager>;
  const gateway = config && GATEWAYS.get(config);
  if (!gateway) throw new Error('The entity was not loaded by a gateway of @toolloop/resources.');
  return gateway;
}

/**
 * Provides the gateway to MikroORM for `ResourceToolsModule.forRoot({ gateway })`.
 *
 * @example
 * ResourceToolsModule.forRoot({ gateway: mikroOrmGateway({ tenancy: { property: 'tenant', role: 'desk_tools' } }) });
 */
export function mikroOrmGateway(options: MikroOrmGatewayOptions = {}): FactoryProvider<MikroOrmGateway> {
  return {
    provide: MikroOrmGateway,
    inject: [MikroORM],
    useFactory: (orm: MikroORM<AbstractSqlDriver>) => new MikroOrmGateway(orm, options),
  };
}
