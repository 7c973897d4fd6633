import type { Type } from '@nestjs/common';
import type { EntityManager, EntityMetadata } from 'typeorm';
import { all, EVERYTHING, where } from '../filter.js';
import type { ComparisonOperator, Condition, ResourceValue } from '../resource-query.js';
import type { EntityModel, FieldKind } from '../entity-model.js';

/**
 * Writes the conditions of one statement as SQL, with every value as a parameter and the tenant in
 * every table's condition. Columns are named as the database has them, and quoted, so that TypeORM
 * has nothing to replace in them.
 */
export class ConditionSql {
  readonly parameters: Record<string, unknown> = {};
  private aliases = 0;

  constructor(private readonly terms: SqlTerms) {}

  /** The condition on the rows of an entity in the tenant. */
  write(model: EntityModel, condition: Condition, alias: string): string {
    const own =
      model.tenant === undefined ? EVERYTHING : where(model.tenant, 'eq', this.terms.tenant);
    return this.toSql(model, all([own, condition]), alias);
  }

  /**
   * A column as it is compared and ordered: text by its characters alone, whatever the collation.
   */
  comparable(model: EntityModel, name: string, alias: string): string {
    const column = this.column(model, name, alias);
    return this.isCollated(model, name)
      ? `cast(convert(${column} using utf8mb4) as binary)`
      : column;
  }

  column(model: EntityModel, name: string, alias: string): string {
    return this.named(alias, columnOf(this.metadata(model), name));
  }

  isCollated(model: EntityModel, name: string): boolean {
    const kind = model.fields.get(name)?.kind;
    return !this.terms.isPostgres && (kind === 'text' || kind === 'enum');
  }

  private toSql(model: EntityModel, condition: Condition, alias: string): string {
    if (condition.kind === 'field') return this.toComparison(model, condition, alias);
    if (condition.kind === 'related') return this.toRelated(model, condition, alias);
    const parts = condition.of.map((one) => this.toSql(model, one, alias));
    if (parts.length === 0) return condition.kind === 'all' ? '1=1' : '1=0';
    return `(${parts.join(condition.kind === 'all' ? ' and ' : ' or ')})`;
  }

  private toComparison(
    model: EntityModel,
    { field, operator, value }: Condition & { kind: 'field' },
    alias: string,
  ): string {
    if (model.relations.has(field)) return this.toRelationKey(model, field, value, alias);
    const column = this.column(model, field, alias);
    if (operator === 'is_null') return `${column} is null`;
    if (operator === 'is_not_null') return `${column} is not null`;
    if (isLike(operator)) return this.toLike(column, operator, value);
    const kind = model.fields.get(field)?.kind ?? 'text';
    const compared = this.comparable(model, field, alias);
    const comparison = this.compared(compared, operator, {
      kind,
      value,
      isCollated: this.isCollated(model, field),
    });
    // The plain comparison is one that an index of the column answers; it holds wherever the exact
    // one does.
    const byIndex = compared !== column && (operator === 'eq' || operator === 'in');
    return byIndex
      ? `(${this.compared(column, operator, { kind, value })} and ${comparison})`
      : comparison;
  }

  private compared(
    column: string,
    operator: ComparisonOperator,
    {
      kind,
      value,
      isCollated = false,
    }: { readonly kind: FieldKind; readonly value: unknown; readonly isCollated?: boolean },
  ): string {
    const operand = (one: unknown): string => this.operand(one as ResourceValue, kind, isCollated);
    if (operator !== 'in' && operator !== 'not_in')
      return `${column} ${SIGNS[operator] ?? '='} ${operand(value)}`;
    const values: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (values.length === 0) return operator === 'in' ? '1=0' : '1=1';
    return `${column} ${operator === 'in' ? 'in' : 'not in'} (${values.map(operand).join(', ')})`;
  }

  /**
   * MariaDB compares a decimal with a text as floating numbers, and text by the collation of one
   * side.
   */
  private operand(value: ResourceValue, kind: FieldKind, isCollated: boolean): string {
    const parameter = this.parameter(value);
    if (isCollated) return `cast(${parameter} as binary)`;
    return kind === 'decimal' && !this.terms.isPostgres
      ? `cast(${parameter} as decimal(50, 20))`
      : parameter;
  }

  private toLike(column: string, operator: LikeOperator, value: unknown): string {
    const text = String(value).replaceAll(/[!%_]/g, '!$&');
    const pattern = this.parameter(operator.endsWith('contains') ? `%${text}%` : `${text}%`);
    const like = operator.startsWith('not_') ? 'not like' : 'like';
    if (this.terms.isPostgres)
      return `${column} ${like.replace('like', 'ilike')} ${pattern} escape '!'`;
    return `lower(convert(${column} using utf8mb4)) collate utf8mb4_bin ${like} lower(${pattern}) escape '!'`;
  }

  /** The rows that refer to one of several rows, by the column of the reference. */
  private toRelationKey(model: EntityModel, name: string, value: unknown, alias: string): string {
    const column = this.keyColumn(model, name);
    return this.compared(this.named(alias, column), 'in', { kind: 'integer', value });
  }

  /** The column in which a relation to one has the key of its row, beside the tenant. */
  private keyColumn(model: EntityModel, name: string): ColumnMetadata {
    const relation = relationOf(this.metadata(model), name);
    const key =
      model.relations.get(name) &&
      this.terms.modelOf(relation.inverseEntityMetadata.target as Type)?.key;
    const column =
      relation.joinColumns.find(({ referencedColumn }) => referencedColumn?.propertyName === key) ??
      relation.joinColumns[0];
    if (!column) throw new Error(`"${name}" of ${model.entity.name} has no column.`);
    return column;
  }

  /**
   * The join of a target to the table of a relation, under an alias, and the column in which that
   * has the key of the row from which the relation leads.
   */
  linkTo(model: EntityModel, name: string, target: string): LinkJoin {
    const relation = relationOf(this.metadata(model), name);
    const { owner, inverse } = linkColumns(relation);
    const table = `${target}_by`;
    const key = owner.find(({ referencedColumn }) => referencedColumn?.propertyName === model.key);
    const tenant = owner.find(
      ({ referencedColumn }) => referencedColumn?.propertyName === model.tenant,
    );
    if (!key || !relation.junctionEntityMetadata)
      throw new Error(`"${name}" of ${model.entity.name} has no table of its own.`);
    const own = tenant
      ? ` and ${this.named(table, tenant)} = ${this.parameter(this.terms.tenant)}`
      : '';
    return {
      path: relation.junctionEntityMetadata.tablePath,
      table,
      on: this.equal(inverse, table, target) + own,
      near: this.named(table, key),
    };
  }

  /**
   * Related rows are looked for in a subquery of the same tenant, so that a reference to another
   * tenant's row leads nowhere.
   */
  private toRelated(
    model: EntityModel,
    { relation: name, has, where: condition }: Condition & { kind: 'related' },
    alias: string,
  ): string {
    const { modelOf, manager } = this.terms;
    const relation = model.relations.get(name);
    const target = relation && modelOf(relation.target);
    if (!target) throw new Error(`${model.entity.name} has no relation "${name}".`);
    this.aliases += 1;
    const related = `r${this.aliases}`;
    const link = this.link(relationOf(this.metadata(model), name), alias, related);
    const rows = manager
      .createQueryBuilder()
      .subQuery()
      .select('1')
      .from(target.entity, related)
      .where(`${link} and ${this.write(target, condition, related)}`);
    const sql = rows.getQuery();
    Object.assign(this.parameters, rows.getParameters());
    return `${has ? 'exists' : 'not exists'} ${sql}`;
  }

  private link(relation: RelationMetadata, alias: string, related: string): string {
    if (relation.isManyToMany) return this.linkByTable(relation, alias, related);
    const isHere = relation.isOwning;
    const columns = isHere ? relation.joinColumns : (relation.inverseRelation?.joinColumns ?? []);
    const [holder, referred] = isHere ? [alias, related] : [related, alias];
    return this.equal(columns, holder, referred);
  }

  private linkByTable(relation: RelationMetadata, alias: string, related: string): string {
    const table = `${related}_by`;
    const { owner, inverse } = linkColumns(relation);
    const name = (relation.junctionEntityMetadata?.tablePath ?? '')
      .split('.')
      .map((part) => this.quoted(part));
    return `exists (select 1 from ${name.join('.')} ${this.quoted(table)} where ${this.equal(owner, table, alias)} and ${this.equal(inverse, table, related)})`;
  }

  private equal(columns: readonly ColumnMetadata[], holder: string, referred: string): string {
    if (columns.length === 0) throw new Error('A relation without columns cannot be followed.');
    return columns
      .map(
        (column) =>
          `${this.named(holder, column)} = ${this.named(referred, column.referencedColumn ?? column)}`,
      )
      .join(' and ');
  }

  private parameter(value: unknown): string {
    const name = `value${Object.keys(this.parameters).length}`;
    this.parameters[name] = value;
    return `:${name}`;
  }

  private named(alias: string, { databaseName }: ColumnMetadata): string {
    return alias === ''
      ? this.quoted(databaseName)
      : `${this.quoted(alias)}.${this.quoted(databaseName)}`;
  }

  private quoted(name: string): string {
    return this.terms.manager.dataSource.driver.escape(name);
  }

  private metadata({ entity }: EntityModel): EntityMetadata {
    return this.terms.manager.dataSource.getMetadata(entity);
  }
}

/** Finds the model of an entity. */
export type ModelOf = (entity: Type) => EntityModel | undefined;

/** The terms on which conditions are written. */
export interface SqlTerms {
  readonly manager: EntityManager;
  readonly tenant: string;
  readonly modelOf: ModelOf;
  /**
   * `false` on MariaDB and MySQL, whose comparisons of text depend on the collation of a column.
   */
  readonly isPostgres: boolean;
}

type ColumnMetadata = EntityMetadata['columns'][number];
type RelationMetadata = EntityMetadata['relations'][number];

/** Finds the column of a property. */
export function columnOf(metadata: EntityMetadata, property: string): ColumnMetadata {
  const column = metadata.findColumnWithPropertyPath(property);
  if (!column) throw new Error(`${metadata.name} has no column "${property}".`);
  return column;
}

function relationOf(metadata: EntityMetadata, name: string): RelationMetadata {
  const relation = metadata.findRelationWithPropertyPath(name);
  if (!relation) throw new Error(`${metadata.name} has no relation "${name}".`);
  return relation;
}

/** A table between two entities, joined to one of them. */
interface LinkJoin {
  /** The path of the table, as TypeORM has it. */
  readonly path: string;
  readonly table: string;
  readonly on: string;
  readonly near: string;
}

/**
 * The columns of a table between two entities that refer to the rows from which the relation leads,
 * and to those to which it leads.
 */
export function linkColumns(relation: RelationMetadata): {
  readonly owner: readonly ColumnMetadata[];
  readonly inverse: readonly ColumnMetadata[];
} {
  const { isOwning, inverseRelation } = relation;
  return {
    owner: isOwning ? relation.joinColumns : (inverseRelation?.inverseJoinColumns ?? []),
    inverse: isOwning ? relation.inverseJoinColumns : (inverseRelation?.joinColumns ?? []),
  };
}

type LikeOperator = 'contains' | 'not_contains' | 'starts_with' | 'not_starts_with';

const LIKE: ReadonlySet<ComparisonOperator> = new Set([
  'contains',
  'not_contains',
  'starts_with',
  'not_starts_with',
]);

function isLike(operator: ComparisonOperator): operator is LikeOperator {
  return LIKE.has(operator);
}

const SIGNS: Readonly<Partial<Record<ComparisonOperator, string>>> = {
  eq: '=',
  ne: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
};
