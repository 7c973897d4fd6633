import type { JsonValue } from '@toolloop/core';
import type { EntityMetadata, SelectQueryBuilder } from 'typeorm';
import { toJson } from '../database-answers.js';
import type { EntityModel } from '../entity-model.js';
import { where } from '../filter.js';
import type { ResourceSession } from '../resource-gateway.js';
import {
  type Condition,
  type LinkQuery,
  type ResourceAggregate,
  type ResourceQuery,
  valuesOf,
} from '../resource-query.js';
import { ResourceWriteError } from '../resource-write-error.js';
import { columnOf, ConditionSql, type SqlTerms } from './condition-sql.js';
import { moveInTree, placeInTree } from './trees.js';

/**
 * The rows of one tenant in one transaction of TypeORM. Every statement names the tenant, writes
 * too, and a change or removal names the version of its row: TypeORM's `save()` does neither.
 */
export class TypeOrmSession implements ResourceSession {
  private writes: Write[] = [];
  private readonly models = new WeakMap<object, EntityModel>();

  constructor(
    private readonly terms: SqlTerms,
    private readonly onRow: (row: object) => void,
  ) {}

  async find(
    model: EntityModel,
    { where: condition, order, limit, offset, fields }: ResourceQuery,
  ): Promise<readonly object[]> {
    const { query, sql } = this.select(model, condition);
    query.select(this.selected(model, fields));
    for (const { field, descending } of order) {
      const direction = descending ? 'DESC' : 'ASC';
      if (this.terms.isPostgres)
        query.addOrderBy(sql.comparable(model, field, ROW), direction, 'NULLS LAST');
      else
        query
          .addOrderBy(`${sql.column(model, field, ROW)} is null`, 'ASC')
          .addOrderBy(sql.comparable(model, field, ROW), direction);
    }
    const ones = [...model.relations.values()].filter(
      ({ many, back }) => !many && back === undefined,
    );
    if (ones.length > 0)
      query.loadAllRelationIds({ relations: ones.map(({ name }) => name), disableMixedMap: true });
    query.limit(limit);
    if (offset > 0) query.offset(offset);
    const rows = await query.getMany();
    for (const row of rows) this.know(model, row);
    return rows;
  }

  async values(
    model: EntityModel,
    query: ResourceQuery,
    names: readonly string[],
  ): Promise<readonly Record<string, unknown>[]> {
    const rows = await this.find(model, query);
    return rows.map((row) => valuesOf(this, model, row, names));
  }

  async links(
    model: EntityModel,
    name: string,
    { keys, where: condition, limit }: LinkQuery,
  ): Promise<readonly (readonly [unknown, unknown])[]> {
    const target = this.targetOf(model, name);
    const sql = new ConditionSql(this.terms);
    const { path, table, on, near } = sql.linkTo(model, name, ROW);
    const far = sql.column(target, target.key ?? '', ROW);
    const query = this.terms.manager.createQueryBuilder<Record<string, unknown>>(
      target.entity as never,
      ROW,
    );
    const text = sql.write(target, condition, ROW);
    const rows = await query
      .select(near, 'near')
      .addSelect(far, 'far')
      .innerJoin(path, table, on)
      .where(`${near} in (:...keys) and ${text}`, { ...sql.parameters, keys: [...keys] })
      .orderBy(far)
      .limit(limit)
      .getRawMany<{ readonly near: unknown; readonly far: unknown }>();
    return rows.map(({ near: from, far: to }) => [from, to]);
  }

  private targetOf(model: EntityModel, name: string): EntityModel {
    const relation = model.relations.get(name);
    const target = relation && this.terms.modelOf(relation.target);
    if (!target) throw new Error(`${model.entity.name} has no relation "${name}".`);
    return target;
  }

  async count(model: EntityModel, condition: Condition): Promise<number> {
    const found = await this.select(model, condition)
      .query.select('count(*)', 'value')
      .getRawOne<{ readonly value: unknown }>();
    return Number(found?.value ?? 0);
  }

  async exists(model: EntityModel, condition: Condition): Promise<boolean> {
    const found = await this.select(model, condition)
      .query.select('1', 'value')
      .limit(1)
      .getRawMany();
    return found.length > 0;
  }

  async aggregate(
    model: EntityModel,
    condition: Condition,
    { kind, field, limit }: ResourceAggregate,
  ): Promise<JsonValue> {
    const { query, sql } = this.select(model, condition);
    const column = sql.column(model, field.name, ROW);
    if (kind !== 'list') {
      const found = await query
        .select(`${kind}(${column})`, 'value')
        .getRawOne<{ readonly value: unknown }>();
      if (kind === 'count' || kind === 'avg') return toJson('number', found?.value);
      return toJson(
        field.kind,
        kind === 'sum' ? found?.value : this.hydrated(model, field.name, found?.value),
      );
    }
    const each = sql.comparable(model, field.name, ROW);
    const rows = await query
      .select(each === column ? column : `min(${column})`, 'value')
      .andWhere(`${column} is not null`)
      .groupBy(each)
      .orderBy(each)
      .limit(limit + 1)
      .getRawMany<{ readonly value: unknown }>();
    return rows.map(({ value }) => toJson(field.kind, this.hydrated(model, field.name, value)));
  }

  valueOf(model: EntityModel, row: object, name: string): unknown {
    const value: unknown = Reflect.get(row, name);
    const relation = model.relations.get(name);
    if (relation && !relation.many && typeof value === 'object' && value !== null) {
      const key = this.terms.modelOf(relation.target)?.key;
      return key === undefined ? undefined : Reflect.get(value, key);
    }
    return model.fields.get(name)?.kind === 'integer' && typeof value === 'string'
      ? toWhole(value)
      : value;
  }

  create(model: EntityModel, values: ReadonlyMap<string, unknown>): object {
    const row: object = this.metadata(model).create() as object;
    for (const [name, value] of values) Reflect.set(row, name, value);
    if (model.tenant !== undefined) Reflect.set(row, model.tenant, this.terms.tenant);
    this.know(model, row);
    this.writes.push({ kind: 'create', model, row });
    return row;
  }

  change(model: EntityModel, row: object, values: ReadonlyMap<string, unknown>): void {
    if (values.size > 0) this.writes.push({ kind: 'change', model, row, values });
  }

  remove(row: object): void {
    const model = this.models.get(row);
    if (!model) throw new Error('Only a row that was found in the same session can be removed.');
    this.writes.push({ kind: 'remove', model, row });
  }

  async flush(): Promise<void> {
    const { writes } = this;
    this.writes = [];
    for (const write of writes) await this.make(write);
    const written = writes.filter(({ kind }) => kind !== 'remove');
    for (const { model, row } of written) await this.refresh(model, row);
  }

  private async make(write: Write): Promise<void> {
    const { model, row } = write;
    const { manager } = this.terms;
    if (write.kind === 'create') {
      await manager.createQueryBuilder().insert().into(model.entity).values(row).execute();
      await placeInTree(manager, this.metadata(model), row);
      return;
    }
    const { sql, parameters } = this.thisRow(model, row);
    const query = manager.createQueryBuilder();
    const { affected } =
      write.kind === 'change'
        ? await query
            .update(model.entity)
            .set(Object.fromEntries(write.values))
            .where(sql, parameters)
            .execute()
        : await (this.metadata(model).deleteDateColumn ? query.softDelete() : query.delete())
            .from(model.entity)
            .where(sql, parameters)
            .execute();
    if (affected !== 1) throw new ResourceWriteError('conflict', '', {});
    if (write.kind === 'change')
      await moveInTree(manager, this.metadata(model), { row, values: write.values });
  }

  /** The condition that holds for one row of the tenant, as it was found. */
  private thisRow(
    model: EntityModel,
    row: object,
    isAsFound = true,
  ): { readonly sql: string; readonly parameters: object } {
    const sql = new ConditionSql(this.terms);
    const { primaryColumns } = this.metadata(model);
    const names = primaryColumns
      .map(({ propertyName }) => propertyName)
      .filter((name) => name !== model.tenant);
    const { version } = model;
    const compared = version !== undefined && isAsFound ? [...names, version] : names;
    const of = compared.map((name) => where(name, 'eq', Reflect.get(row, name) as never));
    return {
      sql: sql.write(model, { kind: 'all', of }, isAsFound ? '' : ROW),
      parameters: sql.parameters,
    };
  }

  /** Reads what the database has made of a row. */
  private async refresh(model: EntityModel, row: object): Promise<void> {
    const { sql, parameters } = this.thisRow(model, row, false);
    const query = this.terms.manager
      .createQueryBuilder(model.entity, ROW)
      .select(this.selected(model))
      .where(sql, parameters);
    Object.assign(row, await query.getOne());
  }

  private select(
    model: EntityModel,
    condition: Condition,
  ): { readonly query: SelectQueryBuilder<Record<string, unknown>>; readonly sql: ConditionSql } {
    const sql = new ConditionSql(this.terms);
    const query = this.terms.manager.createQueryBuilder<Record<string, unknown>>(
      model.entity as never,
      ROW,
    );
    const text = sql.write(model, condition, ROW);
    return { query: query.where(text, sql.parameters), sql };
  }

  /**
   * The paths of the columns that are read: with the keys of relations to one, and hidden columns
   * where none are named.
   */
  private selected(model: EntityModel, fields?: readonly string[]): string[] {
    const { columns, primaryColumns } = this.metadata(model);
    const isRead = (path: string): boolean =>
      fields === undefined || fields.includes(path.split('.')[0] ?? '');
    const paths = [...primaryColumns, ...columns].map(({ propertyPath }) => propertyPath);
    const keys = new Set(primaryColumns.map(({ propertyPath }) => propertyPath));
    return [...new Set(paths.filter((path) => keys.has(path) || isRead(path)))].map(
      (path) => `${ROW}.${path}`,
    );
  }

  private hydrated(model: EntityModel, name: string, value: unknown): unknown {
    const column = columnOf(this.metadata(model), name);
    return this.terms.manager.dataSource.driver.prepareHydratedValue(value, column) as unknown;
  }

  private know(model: EntityModel, row: object): void {
    this.models.set(row, model);
    this.onRow(row);
  }

  private metadata({ entity }: EntityModel): EntityMetadata {
    return this.terms.manager.dataSource.getMetadata(entity);
  }
}

/** A write that is made by the next flush. */
type Write =
  | { readonly kind: 'create'; readonly model: EntityModel; readonly row: object }
  | {
      readonly kind: 'change';
      readonly model: EntityModel;
      readonly row: object;
      readonly values: ReadonlyMap<string, unknown>;
    }
  | { readonly kind: 'remove'; readonly model: EntityModel; readonly row: object };

const ROW = 'e';

/** TypeORM reads a `bigint` as a text. */
function toWhole(text: string): number | string {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : text;
}
