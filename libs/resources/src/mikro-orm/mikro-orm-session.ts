import { type EntityMetadata, raw } from '@mikro-orm/core';
import type { SqlEntityManager } from '@mikro-orm/sql';
import type { Type } from '@nestjs/common';
import type { JsonValue } from '@toolloop/core';
import { toJson } from '../database-answers.js';
import type { EntityModel, ResourceRelation } from '../entity-model.js';
import { EVERYTHING, all, simplified, where } from '../filter.js';
import type { ResourceSession } from '../resource-gateway.js';
import {
  type ComparisonOperator,
  type Condition,
  type LinkQuery,
  type ResourceAggregate,
  type ResourceOrder,
  type ResourceQuery,
  valuesOf,
} from '../resource-query.js';
import { ResourceWriteError } from '../resource-write-error.js';
import { columnReaders } from './from-mikro-orm.js';

/**
 * The rows of one tenant in one transaction of an entity manager. Every statement names the tenant,
 * whether or not the database knows of tenants itself.
 */
export class MikroOrmSession implements ResourceSession {
  constructor(
    readonly em: SqlEntityManager,
    private readonly tenant: string,
    private readonly modelOf: ModelOf,
  ) {}

  async find(
    model: EntityModel,
    { where: condition, order, limit, offset, fields }: ResourceQuery,
  ): Promise<readonly object[]> {
    return this.em.find(model.entity, this.whereOf(model, condition), {
      ...(fields && { fields: fields.map((name) => storedName(model, name)) as never }),
      orderBy: order.map((one) => toOrder(model, one)) as never,
      limit,
      ...(offset > 0 && { offset }),
    });
  }

  /** The same rows without instances of them, where an instance would have the same values. */
  async values(
    model: EntityModel,
    query: ResourceQuery,
    names: readonly string[],
  ): Promise<readonly Record<string, unknown>[]> {
    const readers = columnReaders(this.em, model.entity, names);
    if (!readers)
      return (await this.find(model, query)).map((row) => valuesOf(this, model, row, names));
    const { where: condition, order, limit, offset } = query;
    const select = this.em.createQueryBuilder(model.entity, 'e').select([...names] as never);
    select.where(this.whereOf(model, condition) as never).limit(limit, offset);
    await select.applyFilters();
    const rows = await select
      .orderBy(order.map((one) => toOrder(model, one)) as never)
      .execute<Record<string, unknown>[]>('all');
    for (const row of rows) for (const [name, read] of readers) row[name] = read(row[name]);
    return rows;
  }

  async links(
    model: EntityModel,
    name: string,
    { keys, where: condition, limit }: LinkQuery,
  ): Promise<readonly (readonly [unknown, unknown])[]> {
    const { target, key } = this.targetOf(model, name);
    const { table, near, far } = linkOf(this.em, model, name);
    const found = this.keysOf(target, key, this.whereOf(target, condition));
    const query = this.em.createQueryBuilder(table, 'link').select([near, far] as never);
    query
      .where({ [near]: { $in: [...keys] }, [far]: { $in: found } } as never)
      .orderBy({ [far]: 'asc' } as never);
    const rows = await query.limit(limit).execute<Record<string, unknown>[]>('all');
    return rows.map((row) => [row[near], row[far]]);
  }

  /**
   * The values of a field of the rows of an entity, as a subquery. It is raw: a type of the column
   * it is compared with, such as a bigint's, would convert it.
   */
  private keysOf({ entity }: EntityModel, field: string, rows: Where): ReturnType<typeof raw> {
    const query = this.em.createQueryBuilder(entity, 'related').select([field] as never);
    const { sql, params } = query.where(rows as never).toRaw();
    return raw(`(${sql})`, [...params]);
  }

  private targetOf(
    model: EntityModel,
    name: string,
  ): { readonly relation: ResourceRelation; readonly target: EntityModel; readonly key: string } {
    const relation = model.relations.get(name);
    const target = relation && this.modelOf(relation.target);
    if (!relation || !target) throw new Error(`${model.entity.name} has no relation "${name}".`);
    if (target.key === undefined)
      throw new Error(
        `${target.entity.name} has no key of one field, so "${name}" cannot be followed.`,
      );
    return { relation, target, key: target.key };
  }

  count(model: EntityModel, condition: Condition): Promise<number> {
    return this.em.count(model.entity, this.whereOf(model, condition));
  }

  async exists(model: EntityModel, condition: Condition): Promise<boolean> {
    const { key } = model;
    const found = await this.find(model, {
      where: condition,
      order: [],
      limit: 1,
      offset: 0,
      ...(key !== undefined && { fields: [key] }),
    });
    return found.length > 0;
  }

  async aggregate(
    model: EntityModel,
    condition: Condition,
    { kind, field, limit }: ResourceAggregate,
  ): Promise<JsonValue> {
    const column = columnOf(this.em.getMetadata().get(model.entity), field.name);
    const query = this.em.createQueryBuilder(model.entity, 'e');
    query.where(this.whereOf(model, condition) as never);
    await query.applyFilters();
    const name = `e.${column}`;
    if (kind !== 'list') {
      const [row] = await query
        .select([raw(`${kind}(??) as value`, [name])] as never)
        .execute<{ value: unknown }[]>('all', false);
      return toJson(
        kind === 'count' ? 'number' : kind === 'avg' ? 'number' : field.kind,
        row?.value,
      );
    }
    const stored = storedName(model, field.name);
    query
      .select([raw('?? as value', [name])] as never)
      .andWhere({ [stored]: { $ne: null } } as never);
    const rows = await query
      .distinct()
      .orderBy({ [stored]: 'asc' } as never)
      .limit(limit + 1)
      .execute<{ value: unknown }[]>('all', false);
    return rows.map(({ value }) => toJson(field.kind, value));
  }

  valueOf(model: EntityModel, row: object, name: string): unknown {
    const stored = storedName(model, name);
    const value: unknown = Reflect.get(row, stored);
    const relation = model.relations.get(stored);
    if (!relation || relation.many || typeof value !== 'object' || value === null) return value;
    const key = this.modelOf(relation.target)?.key;
    return key === undefined ? undefined : Reflect.get(value, key);
  }

  create(model: EntityModel, values: ReadonlyMap<string, unknown>): object {
    const own = model.tenant === undefined ? {} : { [model.tenant]: this.tenant };
    const work = this.em.getUnitOfWork();
    const known = new Set<object>([...work.getIdentityMap().values(), ...work.getPersistStack()]);
    const row: object = this.em.create<object>(model.entity, {
      ...Object.fromEntries(values),
      ...own,
    } as never);
    // MikroORM answers with the row that it has of the same key, and writes nothing of what was
    // given
    if (known.has(row)) throw new ResourceWriteError('unique', model.key ?? '', {});
    return row;
  }

  change(_model: EntityModel, row: object, values: ReadonlyMap<string, unknown>): void {
    this.em.assign(row, Object.fromEntries(values) as never);
  }

  remove(row: object): void {
    this.em.remove(row);
  }

  flush(): Promise<void> {
    return this.em.flush();
  }

  private whereOf(model: EntityModel, condition: Condition): Where {
    const own = model.tenant === undefined ? EVERYTHING : where(model.tenant, 'eq', this.tenant);
    return this.toWhere(model, all([own, simplified(condition)]));
  }

  private toWhere(model: EntityModel, condition: Condition): Where {
    if (condition.kind === 'field')
      return toComparison(
        { ...condition, field: storedName(model, condition.field) },
        this.em.getPlatform().supportsRowLevelSecurity() ? '$ilike' : '$like',
      );
    if (condition.kind === 'related') return this.toRelated(model, condition);
    const parts = condition.of.map((one) => this.toWhere(model, one));
    return { [condition.kind === 'all' ? '$and' : '$or']: parts };
  }

  /**
   * Related rows are looked for in a subquery of the same tenant, so that a reference to another
   * tenant's row leads nowhere.
   */
  private toRelated(
    model: EntityModel,
    { relation: name, has, where: condition }: Condition & { kind: 'related' },
  ): Where {
    const { relation, target, key } = this.targetOf(model, name);
    const inner = this.whereOf(target, condition);
    if (relation.many) return { [name]: { [has ? '$some' : '$none']: inner } };
    const isBack = relation.back !== undefined;
    const found = this.keysOf(
      target,
      relation.back ?? key,
      isBack ? { $and: [inner, { [relation.back]: { $ne: null } }] } : inner,
    );
    if (isBack) return { [model.key ?? '']: { [has ? '$in' : '$nin']: found } };
    return has
      ? { [name]: { $in: found } }
      : { $or: [{ [name]: null }, { [name]: { $nin: found } }] };
  }
}

/** Finds the column of a property. */
export function columnOf({ properties }: EntityMetadata, property: string): string {
  const [column = property] = properties[property as never]['fieldNames'];
  return column;
}

/** Finds the model of an entity. */
export type ModelOf = (entity: Type) => EntityModel | undefined;

/** A condition in MikroORM's words. */
type Where = Record<string, unknown>;

/**
 * The entity of the table of a relation of its own, and its relations to the rows from which that
 * leads, and to which.
 */
function linkOf(
  em: SqlEntityManager,
  { entity }: EntityModel,
  name: string,
): { readonly table: Type; readonly near: string; readonly far: string } {
  const property = em.getMetadata().get(entity).properties[name as never];
  const { class: table, relations } = em.getMetadata().get(property.pivotEntity);
  const [first, second] = relations;
  if (!first || !second) throw new Error(`"${name}" of ${entity.name} has no table of its own.`);
  const [near, far] = property.owner ? [first, second] : [second, first];
  return { table: table as Type, near: near.name, far: far.name };
}

/** The name of the property that has a field's column: that of the relation whose key it is. */
function storedName({ fields }: EntityModel, name: string): string {
  return fields.get(name)?.keyOf ?? name;
}

function toOrder(model: EntityModel, { field, descending }: ResourceOrder): Record<string, string> {
  return { [storedName(model, field)]: descending ? 'desc nulls last' : 'asc nulls last' };
}

type PlainComparison = Exclude<ComparisonOperator, 'not_contains' | 'not_starts_with'>;

/** The comparisons in MikroORM's words; `like` is the operator that does not regard case. */
const COMPARISONS: Readonly<Record<PlainComparison, (value: unknown, like: string) => unknown>> = {
  eq: (value) => ({ $eq: value }),
  ne: (value) => ({ $ne: value }),
  in: (value) => ({ $in: value }),
  not_in: (value) => ({ $nin: value }),
  gt: (value) => ({ $gt: value }),
  gte: (value) => ({ $gte: value }),
  lt: (value) => ({ $lt: value }),
  lte: (value) => ({ $lte: value }),
  contains: (value, like) => ({ [like]: `%${escaped(value)}%` }),
  starts_with: (value, like) => ({ [like]: `${escaped(value)}%` }),
  is_null: () => null,
  is_not_null: () => ({ $ne: null }),
};

function toComparison(
  { field, operator, value: given }: Condition & { kind: 'field' },
  like: string,
): Where {
  // MikroORM writes values into the SQL
  const value = typeof given === 'number' && !Number.isFinite(given) ? String(given) : given;
  if (operator === 'not_contains') return { $not: { [field]: COMPARISONS.contains(value, like) } };
  if (operator === 'not_starts_with')
    return { $not: { [field]: COMPARISONS.starts_with(value, like) } };
  return { [field]: COMPARISONS[operator](value, like) };
}

function escaped(value: unknown): string {
  return String(value).replaceAll(/[\\%_]/g, String.raw`\$&`);
}
