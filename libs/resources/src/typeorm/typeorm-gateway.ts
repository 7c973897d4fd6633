import type { FactoryProvider, InjectionToken, Type } from '@nestjs/common';
import { exposedPropertiesOf } from '@toolloop/core/internal';
import { DataSource, type EntityManager, type EntityMetadata, type QueryRunner } from 'typeorm';
import type { EntityModel } from '../entity-model.js';
import type { ResourceScope, ResourceSession } from '../resource-gateway.js';
import type { TableEnd, TenantTable } from '../row-level-security.js';
import { type SqlGatewayOptions, SqlResourceGateway } from '../sql-gateway.js';
import { columnOf, linkColumns } from './condition-sql.js';
import { fromMetadata } from './from-typeorm.js';
import { toWriteError } from './to-write-error.js';
import { TypeOrmSession } from './typeorm-session.js';

/** The options of the gateway to TypeORM. */
export interface TypeOrmGatewayOptions extends SqlGatewayOptions<EntityManager> {
  /**
   * The token of the data source, such as that of `getDataSourceToken('shop')`. @default the class
   * `DataSource`
   */
  readonly dataSource?: InjectionToken<DataSource>;
}

/** The gateway to the entities of TypeORM, on PostgreSQL, MariaDB and MySQL. */
export class TypeOrmGateway extends SqlResourceGateway<EntityManager> {
  /** @throws {Error} For a data source of another database. */
  constructor(
    private readonly source: DataSource,
    private readonly options: TypeOrmGatewayOptions = {},
  ) {
    super(options);
    const { type } = source.options;
    if (!ENGINES.includes(type))
      throw new Error(`The gateway to TypeORM works on ${ENGINES.join(', ')}, not on ${type}.`);
  }

  /** MariaDB and MySQL are never the database of the calls' marks. */
  override get joinsCalls(): boolean {
    return this.hasRowSecurity;
  }

  override transaction<Result>(
    scope: ResourceScope,
    work: (session: ResourceSession) => Promise<Result>,
  ): Promise<Result> {
    const isPostgres = this.hasRowSecurity;
    const modelOf = (entity: Type): EntityModel | undefined => this.describe(entity);
    return this.run(scope, (manager) =>
      work(
        new TypeOrmSession({ manager, tenant: scope.tenant, modelOf, isPostgres }, (row) =>
          GATEWAYS.set(row, this),
        ),
      ),
    );
  }

  protected override run<Result>(
    scope: ResourceScope,
    work: (em: EntityManager) => Promise<Result>,
  ): Promise<Result> {
    return this.repeated(scope, async (onCommit) => {
      // oxlint-disable-next-line no-restricted-properties -- the transaction of a tenant begins here
      const runner = this.source.createQueryRunner();
      try {
        await runner.startTransaction();
        this.options.prepare?.(runner.manager, scope);
        await this.enter(runner.manager, scope);
        const result = await work(runner.manager);
        onCommit();
        await runner.commitTransaction();
        return result;
      } catch (error) {
        await undo(runner);
        throw toWriteError(error);
      } finally {
        await this.leave(runner);
      }
    });
  }

  protected override async enter(em: EntityManager, scope: ResourceScope): Promise<void> {
    if (this.hasRowSecurity) return super.enter(em, scope);
    const [setting, unit] = this.timeout;
    await em.query(`set session ${setting} = ${this.statementMs / unit}`);
  }

  /** Gives the connection back, without the time of statements that was set on it. */
  private async leave(runner: QueryRunner): Promise<void> {
    const { isReleased } = runner;
    if (!this.hasRowSecurity && !isReleased) {
      await runner.query(`set session ${this.timeout[0]} = default`).catch(() => discard(runner));
    }
    await runner.release();
  }

  /** The setting that limits the time of a statement, and its milliseconds in a unit. */
  private get timeout(): readonly [setting: string, unitMs: number] {
    const { version = '' } = this.source.driver;
    const isMariaDb =
      this.source.options.type === 'mariadb' ||
      /mariadb/i.test(version) ||
      Number.parseInt(version, 10) >= MARIADB;
    return isMariaDb ? ['max_statement_time', SECOND] : ['max_execution_time', 1];
  }

  protected override ask<Row>(
    sql: string,
    values: readonly string[],
    em = this.source.manager,
  ): Promise<readonly Row[]> {
    let count = 0;
    const numbered = sql.replaceAll('?', () => `$${(count += 1)}`);
    return em.query<Row[]>(numbered, [...values]);
  }

  protected override modelOf(entity: Type, tenant: string): EntityModel | undefined {
    return this.source.hasMetadata(entity)
      ? fromMetadata(this.source.getMetadata(entity), tenant, {
          entity,
          dialect: this.hasRowSecurity ? 'postgres' : 'mysql',
        })
      : undefined;
  }

  protected override get hasRowSecurity(): boolean {
    return this.source.options.type === 'postgres';
  }

  protected override get escapesByBackslashes(): boolean {
    return !this.hasRowSecurity;
  }

  protected override tableOf({ entity, tenant }: EntityModel): TenantTable {
    const metadata = this.source.getMetadata(entity);
    return {
      ...tableIn(metadata),
      entity: entity.name,
      ...(tenant !== undefined && { column: columnOf(metadata, tenant).databaseName }),
    };
  }

  protected override linkTablesOf({ entity }: EntityModel): readonly TenantTable[] {
    const { relations, closureJunctionTable: closure } = this.source.getMetadata(entity);
    const exposed = new Set(exposedPropertiesOf(entity).map(({ property }) => property));
    const links = relations
      .filter(({ isManyToMany, propertyName }) => isManyToMany && exposed.has(propertyName))
      .flatMap(linkTable);
    const tree = closure as typeof closure | undefined; // only a closure table has one
    if (!tree) return links;
    return [
      ...links,
      {
        ...tableIn(tree),
        entity: entity.name,
        ends: [tree.ancestorColumns, tree.descendantColumns].map(endOf),
      },
    ];
  }
}

/** The name of a table, with its schema where it is said. */
function tableIn({ tableName, schema }: EntityMetadata): Pick<TenantTable, 'table' | 'schema'> {
  return { table: tableName, ...(schema !== undefined && { schema }) };
}

function linkTable(relation: RelationMetadata): readonly TenantTable[] {
  const { junctionEntityMetadata: junction } = relation;
  if (!junction) return [];
  const { owner, inverse } = linkColumns(relation);
  const entity = `${relation.entityMetadata.targetName}.${relation.propertyName}`;
  return [{ ...tableIn(junction), entity, ends: [owner, inverse].map(endOf) }];
}

/** The end of a table to which columns refer. */
function endOf(columns: readonly ColumnMetadata[]): TableEnd {
  const [{ referencedColumn } = {}] = columns;
  if (!referencedColumn)
    throw new Error('A table between entities has a column that refers to nothing.');
  const pairs = columns.map(
    (column) => [column.databaseName, column.referencedColumn?.databaseName ?? ''] as const,
  );
  return { ...tableIn(referencedColumn.entityMetadata), columns: pairs };
}

type ColumnMetadata = EntityMetadata['columns'][number];
type RelationMetadata = EntityMetadata['relations'][number];

const ENGINES: readonly string[] = ['postgres', 'mariadb', 'mysql'];

/** MySQL has not come so far. */
const MARIADB = 10;
const SECOND = 1_000;

/**
 * A connection whose transaction may still be open is not used again: MariaDB would commit it when
 * the next one begins.
 */
async function undo(runner: QueryRunner): Promise<void> {
  if (!runner.isTransactionActive) return;
  await runner.rollbackTransaction().catch(() => discard(runner));
}

/** Ends the connection, so that the pool makes another one. */
function discard(
  runner: QueryRunner & { readonly databaseConnection?: { destroy?(): void; end?(): unknown } },
): void {
  const { databaseConnection: connection } = runner;
  if (connection?.destroy) connection.destroy();
  else connection?.end?.();
}

/** The gateways by the rows that they have loaded. */
const GATEWAYS = new WeakMap<object, TypeOrmGateway>();

/**
 * Finds the gateway of an entity that it loaded, for the entity's own tools.
 *
 * @throws {Error} For an object that was not loaded by one.
 * @example
 * cancel(@ToolContext() context: ToolCallContext): Promise<void> {
 *   return gatewayOf(this).within(context, async (em) => {
 *     await em.update(
 *       Order,
 *       { id: this.id, tenant: context.tenant },
 *       { status: OrderStatus.Cancelled },
 *     );
 *   });
 * }
 */
export function gatewayOf(entity: object): TypeOrmGateway {
  const gateway = GATEWAYS.get(entity);
  if (!gateway) throw new Error('The entity was not loaded by a gateway of @toolloop/resources.');
  return gateway;
}

/**
 * Provides the gateway to TypeORM for `ResourceToolsModule.forRoot({ gateway })`.
 *
 * @example
 * ResourceToolsModule.forRoot({ gateway: typeOrmGateway({ tenancy: { property: 'tenant' } }) });
 */
export function typeOrmGateway(
  options: TypeOrmGatewayOptions = {},
): FactoryProvider<TypeOrmGateway> {
  return {
    provide: TypeOrmGateway,
    inject: [options.dataSource ?? DataSource],
    useFactory: (source: DataSource) => new TypeOrmGateway(source, options),
  };
}
