import {
  type EntityMetadata,
  type EntityProperty,
  helper,
  MikroORM,
  ReferenceKind,
  Utils,
} from '@mikro-orm/core';
import {
  type AbstractSqlDriver,
  BaseMySqlPlatform,
  type Kysely,
  type SqlEntityManager,
} from '@mikro-orm/sql';
import type { FactoryProvider, Type } from '@nestjs/common';
import { exposedPropertiesOf } from '@toolloop/core/internal';
import { mayPass } from '../database-answers.js';
import type { EntityModel } from '../entity-model.js';
import { dropUnloaded } from '../loaded-result.js';
import type { ResourceScope, ResourceSession } from '../resource-gateway.js';
import type { TableEnd, TenantTable } from '../row-level-security.js';
import { type SqlGatewayOptions, SqlResourceGateway } from '../sql-gateway.js';
import { fromMetadata } from './from-mikro-orm.js';
import { columnOf, MikroOrmSession } from './mikro-orm-session.js';
import { toWriteError } from './to-write-error.js';

/** The gateway to the entities of MikroORM, on every database that it has SQL for. */
export class MikroOrmGateway extends SqlResourceGateway<SqlEntityManager> {
  constructor(
    private readonly orm: MikroORM<AbstractSqlDriver>,
    private readonly options: MikroOrmGatewayOptions = {},
  ) {
    super(options);
    GATEWAYS.set(orm.config, this);
  }

  override transaction<Result>(
    scope: ResourceScope,
    work: (session: ResourceSession) => Promise<Result>,
  ): Promise<Result> {
    return this.run(scope, async (em) => {
      const result = await work(
        new MikroOrmSession(em, scope.tenant, (entity) => this.describe(entity)),
      );
      // a session has flushed what it writes, and the commit would look for changes in every row
      // that was read
      em.clear();
      return result;
    });
  }

  protected override run<Result>(
    scope: ResourceScope,
    work: (em: SqlEntityManager) => Promise<Result>,
  ): Promise<Result> {
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
        // what it failed with is told
        await em.rollback().catch((failure: unknown) => releaseLost(em, failure));
        throw toWriteError(error);
      }
    });
  }

  protected override ask<Row>(
    sql: string,
    values: readonly string[],
    em = this.manager(),
  ): Promise<readonly Row[]> {
    return em.execute<Row[]>(sql, [...values]);
  }

  protected override modelOf(entity: Type, tenant: string): EntityModel | undefined {
    const metadata = this.orm.getMetadata().find(entity);
    return metadata && fromMetadata(metadata, tenant, this.orm.em.getPlatform());
  }

  protected override get hasRowSecurity(): boolean {
    return this.orm.em.getPlatform().supportsRowLevelSecurity();
  }

  protected override get escapesByBackslashes(): boolean {
    return this.orm.em.getPlatform() instanceof BaseMySqlPlatform;
  }

  protected override tableOf(model: EntityModel): TenantTable {
    const metadata = this.orm.getMetadata().get(model.entity);
    const column = model.tenant === undefined ? undefined : columnOf(metadata, model.tenant);
    return {
      ...tableIn(metadata),
      entity: model.entity.name,
      ...(column !== undefined && { column }),
    };
  }

  protected override linkTablesOf({ entity }: EntityModel): readonly TenantTable[] {
    const metadata = this.orm.getMetadata().get(entity);
    const exposed = new Set(exposedPropertiesOf(entity).map(({ property }) => property));
    const links = Object.values(metadata.properties).filter(
      ({ kind, name }) => kind === ReferenceKind.MANY_TO_MANY && exposed.has(name),
    );
    return links.map(({ name, pivotEntity }) =>
      this.linkTable(`${entity.name}.${name}`, this.orm.getMetadata().get(pivotEntity)),
    );
  }

  /** A table between entities, which may be an entity with a tenant itself. */
  private linkTable(name: string, metadata: EntityMetadata): TenantTable {
    const known = this.describe(metadata.class as Type);
    if (known?.tenant !== undefined) return this.tableOf(known);
    return {
      ...tableIn(metadata),
      entity: name,
      ends: metadata.relations.filter(isReference).map(endOf),
    };
  }

  protected override isMissing(value: unknown): boolean {
    return Utils.isCollection(value) && !value.isInitialized();
  }

  protected override withoutUnloaded<Result>(result: Result): Result {
    return dropUnloaded(result, (value) => {
      if (!Utils.isCollection(value)) return undefined;
      return value.isInitialized() ? value.getItems() : 'unloaded';
    });
  }

  private manager(): SqlEntityManager {
    return this.orm.em.fork({ clear: true });
  }
}

/** The options of the gateway to MikroORM. */
export type MikroOrmGatewayOptions = SqlGatewayOptions<SqlEntityManager>;

/** The name of a table, with its schema where it is said. */
function tableIn({ tableName, schema }: EntityMetadata): Pick<TenantTable, 'table' | 'schema'> {
  return { table: tableName, ...(schema !== undefined && { schema }) };
}

function isReference({ kind, persist }: EntityProperty): boolean {
  return kind === ReferenceKind.MANY_TO_ONE && persist !== false;
}

/** The end of a table to which a relation of it refers. */
function endOf({ targetMeta, joinColumns, referencedColumnNames }: EntityProperty): TableEnd {
  if (!targetMeta)
    throw new Error('A table between entities has a relation that refers to nothing.');
  return {
    ...tableIn(targetMeta),
    columns: joinColumns.map((own, index) => [own, referencedColumnNames[index] ?? own]),
  };
}

/** The parts of Kysely's open transaction that give its connection back. */
interface OpenTransaction extends Kysely<unknown> {
  rollback(): { execute(): Promise<void> };
}

/**
 * Gives a connection back that was lost. Kysely does so when its rollback was answered, which none
 * is over a lost connection, and the pool would be one smaller each time. A connection that may
 * still have its transaction is kept: the next tenant would continue in it.
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
 * ResourceToolsModule.forRoot({
 *   gateway: mikroOrmGateway({ tenancy: { property: 'tenant', role: 'desk_tools' } }),
 * });
 */
export function mikroOrmGateway(
  options: MikroOrmGatewayOptions = {},
): FactoryProvider<MikroOrmGateway> {
  return {
    provide: MikroOrmGateway,
    inject: [MikroORM],
    useFactory: (orm: MikroORM<AbstractSqlDriver>) => new MikroOrmGateway(orm, options),
  };
}
