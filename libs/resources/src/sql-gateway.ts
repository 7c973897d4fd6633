import type { Type } from '@nestjs/common';
import type { Finding, ToolCallContext } from '@toolloop/core';
import { keepResult, restoreResult } from './kept-result.js';
import { type EntityModel } from './entity-model.js';
import { ResourceGateway, type ResourceScope } from './resource-gateway.js';
import {
  rowSecurityFindings,
  rowSecurityStatements,
  type TenantTable,
} from './row-level-security.js';

/** The options that keep the rows of tenants apart. */
export interface Tenancy {
  /** The property of entities that names their tenant. @default 'tenant' */
  readonly property?: string;
  /**
   * The role in which every statement runs, on a database with row level security: it owns no
   * table, and is neither a superuser nor exempt from row level security. Needed there.
   */
  readonly role?: string;
  /**
   * The setting that has the tenant during a transaction, which the policies of the tables read.
   * @default 'toolloop.tenant'
   */
  readonly setting?: string;
}

/** The options of a gateway to a SQL database. */
export interface SqlGatewayOptions<Manager> {
  readonly tenancy?: Tenancy;
  /**
   * The milliseconds that one statement may take, on PostgreSQL, MariaDB and MySQL (reads alone
   * there). @default 5000
   */
  readonly statementMs?: number;
  /**
   * Prepares the entity manager of each transaction, such as with the parameters of the
   * application's own filters.
   */
  prepare?(this: void, em: Manager, scope: ResourceScope): void;
}

const STATEMENT_MS = 5_000;

/**
 * The common part of the gateways to SQL databases: tenants by row level security where the
 * database has it, and by a column in every statement where it has not.
 *
 * @example
 * const gateway: SqlResourceGateway<unknown> = app.get(ResourceGateway);
 * for (const statement of gateway.statements([Order, Customer])) console.log(`${statement};`);
 */
export abstract class SqlResourceGateway<Manager> extends ResourceGateway {
  private readonly models = new Map<Type, EntityModel | undefined>();
  private readonly tenancy: Required<Omit<Tenancy, 'role'>> & Pick<Tenancy, 'role'>;
  protected readonly statementMs: number;

  protected constructor({ tenancy, statementMs = STATEMENT_MS }: SqlGatewayOptions<Manager>) {
    super();
    this.tenancy = { property: 'tenant', setting: 'toolloop.tenant', ...tenancy };
    this.statementMs = statementMs;
  }

  override describe(entity: Type): EntityModel | undefined {
    if (!this.models.has(entity))
      this.models.set(entity, this.modelOf(entity, this.tenancy.property));
    return this.models.get(entity);
  }

  override async findings(
    models: readonly EntityModel[],
    shared: readonly EntityModel[] = [],
  ): Promise<readonly Finding[]> {
    const { role, property } = this.tenancy;
    if (!this.hasRowSecurity)
      return [
        ...(await this.escapeFindings()),
        ...models.flatMap((model) => columnFindings(model, property)),
      ];
    if (role === undefined) return [WITHOUT_ROLE];
    return rowSecurityFindings(
      (sql, values) => this.ask(sql, values),
      this.tablesOf(models, shared),
      role,
    );
  }

  /**
   * Returns the statements that protect the tables of these entities, with the join tables of the
   * relations that they expose and the closures of their trees, to be put into a migration of the
   * application; they can be run again. None on a database without row level security.
   *
   * @param shared entities whose rows are those of all tenants: the role may read them. Default:
   *   none
   */
  statements(entities: readonly Type[], shared: readonly Type[] = []): readonly string[] {
    const { role, setting } = this.tenancy;
    if (role === undefined || !this.hasRowSecurity) return [];
    const [own, others] = [entities, shared].map((types) =>
      types.flatMap((entity) => this.describe(entity) ?? []),
    );
    return rowSecurityStatements(this.tablesOf(own ?? [], others ?? []), { role, setting });
  }

  /** The tables of entities, and those that their relations and trees need, each once. */
  private tablesOf(
    models: readonly EntityModel[],
    shared: readonly EntityModel[],
  ): readonly TenantTable[] {
    const own = models.map((model) => this.tableOf(model));
    const tables = new Map(
      [...own, ...models.flatMap((model) => this.linkTablesOf(model))]
        .toReversed()
        .map((table) => [keyOf(table), table]),
    );
    const read = shared.map((model) => ({ ...this.tableOf(model), isShared: true }));
    return [
      ...[...tables.values()].toReversed(),
      ...read.filter((table) => !tables.has(keyOf(table))),
    ];
  }

  /** The tables by which the rows of an entity are related, beside those of entities. */
  protected abstract linkTablesOf(model: EntityModel): readonly TenantTable[];

  /**
   * Runs the work of a tool of your own in one transaction of its tenant, with an entity manager of
   * its own: in that of the call where the tool changes things, so that what is written and the
   * mark of the call are committed together. Where the connection is lost under it, it is run once
   * more: do nothing in it that is not undone with it.
   *
   * A tool that changes things is given what is kept beside the mark, the first time as every other
   * time: JSON, and of a row an instance with the columns that the ORM does not hide and the
   * relations that were loaded. A tool that reads is given what `work` returns; a row with a
   * collection that was not loaded is copied without it.
   *
   * @throws {Error} For what no result can be, such as a stream, or an object that is a part of
   *   itself: then nothing is written.
   * @example
   * return this.gateway.within(context, async (em) => {
   *   const order = await em.findOneOrFail(Order, { number });
   *   order.status = OrderStatus.Shipped;
   *   return order.number;
   * });
   */
  async within<Result>(
    context: Pick<ToolCallContext, 'actor' | 'tenant' | 'transaction'>,
    work: (em: Manager) => Promise<Result>,
  ): Promise<Result> {
    const { transaction } = context;
    if (!transaction || !this.joinsCalls)
      return this.withoutUnloaded(await this.run(context, work));
    const models = [...this.models.values()].filter((model) => model !== undefined);
    const kept = await transaction(async () => {
      const result = await this.run({ ...context, isJoined: true }, work);
      return keepResult(result, models, (value) => this.isMissing(value));
    });
    return restoreResult(kept, models);
  }

  /**
   * Tells whether a part of a row is a relation that was not loaded, and of which reading would
   * fail.
   */
  protected isMissing(_value: unknown): boolean {
    return false;
  }

  /** Returns the result of a tool that reads without the parts that {@link isMissing} names. */
  protected withoutUnloaded<Result>(result: Result): Result {
    return result;
  }

  protected get hasRowSecurity(): boolean {
    return true;
  }

  /**
   * `true` where values are written into the statement, with backslashes before the quotes in them:
   * on MariaDB and MySQL.
   */
  protected get escapesByBackslashes(): boolean {
    return false;
  }

  private async escapeFindings(): Promise<readonly Finding[]> {
    if (!this.escapesByBackslashes) return [];
    const [row] = await this.ask<{ readonly mode: string }>('select @@sql_mode as mode', []);
    return row?.mode.includes('NO_BACKSLASH_ESCAPES') ? [WITHOUT_ESCAPES] : [];
  }

  /**
   * Describes an entity, where the ORM knows it; `tenant` is the property that names the tenant,
   * where the entity has it.
   */
  protected abstract modelOf(entity: Type, tenant: string): EntityModel | undefined;

  protected abstract tableOf(model: EntityModel): TenantTable;

  /** Runs a statement with its values at `?`: in the transaction of a manager, or by itself. */
  protected abstract ask<Row>(
    sql: string,
    values: readonly string[],
    em?: Manager,
  ): Promise<readonly Row[]>;

  /** Runs `work` in one transaction of a tenant, which begins by {@link enter}. */
  protected abstract run<Result>(
    scope: ResourceScope,
    work: (em: Manager) => Promise<Result>,
  ): Promise<Result>;

  /**
   * Takes the role and the tenant for the transaction of a manager; all settings end with it. One
   * statement, since each is a round trip.
   *
   * @throws {Error} Where it is to be a part of the call's transaction and is not.
   */
  protected async enter(em: Manager, { tenant, isJoined = false }: ResourceScope): Promise<void> {
    if (!this.hasRowSecurity) return;
    const { role = 'none', setting } = this.tenancy;
    const [entered] = await this.ask<{ readonly joined: boolean }>(
      ENTER,
      [role, setting, tenant, String(this.statementMs)],
      em,
    );
    if (isJoined && !entered?.joined) throw new Error(NOT_JOINED);
  }
}

const ENTER = `select set_config('role', ?, true), set_config(?, ?, true), set_config('statement_timeout', ?, true), pg_current_xact_id_if_assigned() is not null as joined`;

const NOT_JOINED =
  'The ORM works outside of the transaction of the call, so its writes could be made twice. Give it the connection of the Database of @toolloop/durable: ' +
  'driverOptions: database.connection of MikroORM, extra: database.connection of TypeORM.';

const WITHOUT_ROLE: Finding = {
  at: 'ResourceToolsModule',
  problem:
    'Its gateway has no role, so row level security would not hold for the user who owns the tables.',
  remedy: 'Give the role in which statements run: { tenancy: { role } }.',
};

/** Drivers and ORMs escape by backslashes whatever the mode is. */
const WITHOUT_ESCAPES: Finding = {
  at: 'ResourceToolsModule',
  problem:
    'The sql_mode of the database has NO_BACKSLASH_ESCAPES, and values are escaped by backslashes, so a text could end its quotes and be read as SQL.',
  remedy:
    "Take it out: SET GLOBAL sql_mode = REPLACE(@@GLOBAL.sql_mode, 'NO_BACKSLASH_ESCAPES', ''), and likewise in the configuration of the server or of the connection.",
};

function keyOf({ schema = '', table }: TenantTable): string {
  return JSON.stringify([schema, table]);
}

function columnFindings({ entity, tenant }: EntityModel, property: string): Finding[] {
  if (tenant !== undefined) return [];
  return [
    {
      at: entity.name,
      problem: `It has no property "${property}", and the database has no row level security, so its rows cannot be kept apart.`,
      remedy:
        'Add the property, or declare the resource as shared: @ToolResource(…, { shared: true }).',
    },
  ];
}
