import type { Type } from '@nestjs/common';
import type { ColumnType, EntityMetadata } from 'typeorm';
import {
  type EntityModel,
  type FieldKind,
  isMoment,
  isNow,
  namedKeys,
  type ResourceField,
  type ResourceRelation,
} from '../entity-model.js';
import { findRange, type IntegerDialect } from '../integer-range.js';

/**
 * Reads TypeORM's metadata of an entity. `tenant` is the property that names the tenant, where the
 * entity has it.
 */
export function fromMetadata(
  metadata: EntityMetadata,
  tenant: string,
  { entity, dialect }: { readonly entity: Type; readonly dialect: IntegerDialect },
): EntityModel {
  const own = metadata.columns.filter(isOwn).map((column) => toField(column, dialect));
  const embedded = metadata.embeddeds.map(({ propertyName }) => jsonField(propertyName));
  const fields = new Map([...own, ...embedded].map((field) => [field.name, field]));
  const [key, ...others] = metadata.primaryColumns
    .map(({ propertyName }) => propertyName)
    .filter((name) => name !== tenant);
  const version = metadata.versionColumn?.propertyName;
  return {
    entity,
    fields,
    relations: new Map(
      metadata.relations.map(toRelation).map((relation) => [relation.name, relation]),
    ),
    ...(key !== undefined && others.length === 0 && fields.has(key) && { key }),
    ...uniqueKeysOf(metadata, tenant),
    ...(version !== undefined && { version }),
    ...(fields.has(tenant) && { tenant }),
    ...(metadata.treeType === 'nested-set' && { unkeptTree: 'nested set' }),
  };
}

type ColumnMetadata = EntityMetadata['columns'][number];
type RelationMetadata = EntityMetadata['relations'][number];

/** The kinds of column types, by the names that PostgreSQL, MariaDB and MySQL have for them. */
const KINDS: readonly (readonly [RegExp, FieldKind])[] = [
  [/^(?:uuid)$/, 'uuid'],
  [/^(?:bool|boolean)$/, 'boolean'],
  [/^(?:(?:tiny|small|medium|big)?int(?:eger)?|int[248]|serial|bigserial|smallserial)$/, 'integer'],
  [/^(?:decimal|numeric|dec|fixed)$/, 'decimal'],
  [/^(?:float|float4|float8|double|double precision|real)$/, 'number'],
  [/^date$/, 'date'],
  [/^(?:datetime|timestamp.*)$/, 'datetime'],
  [
    /^(?:(?:tiny|medium|long)?text|(?:n|national )?(?:var)?char|character(?: varying)?|n?varchar|citext)$/,
    'text',
  ],
];

/** The types that are given as classes, by TypeORM's names for them. */
const CLASSES: ReadonlyMap<unknown, FieldKind> = new Map<unknown, FieldKind>([
  [String, 'text'],
  [Number, 'integer'],
  [Boolean, 'boolean'],
  [Date, 'datetime'],
]);

/**
 * A column that the entity has as a property, and that is no part of an embedded object. That of a
 * relation is one where a property is declared for it beside the relation.
 */
function isOwn({
  embeddedMetadata,
  isVirtual,
  isDiscriminator,
  isTreeLevel,
}: ColumnMetadata): boolean {
  return !embeddedMetadata && !isVirtual && !isDiscriminator && !isTreeLevel;
}

function toField(column: ColumnMetadata, dialect: IntegerDialect): ResourceField {
  const { propertyName: name, comment, isSelect, relationMetadata } = column;
  const kind = kindOf(column);
  return {
    name,
    kind,
    nullable: column.isNullable,
    ...(comment !== undefined && comment !== '' && { description: comment }),
    ...boundsOf(kind, column, dialect),
    hidden: !isSelect,
    ...(relationMetadata &&
      relationMetadata.propertyName !== name && { keyOf: relationMetadata.propertyName }),
    hasDefault: hasDefault(column),
    ...setTermsOf(kind, column),
    ...(isComputed(column) && { isComputed: true }),
    ...(isImprecise(kind, column) && { imprecise: true }),
  };
}

function boundsOf(
  kind: FieldKind,
  column: ColumnMetadata,
  dialect: IntegerDialect,
): Pick<ResourceField, 'values' | 'maxLength' | 'isBig' | 'range'> {
  const { enum: values = [], length } = column;
  if (kind === 'enum') return { values: values.map(String) };
  if (kind === 'integer') return integerTermsOf(column, dialect);
  return kind === 'text' && Number(length) > 0 ? { maxLength: Number(length) } : {};
}

function integerTermsOf(
  { type, unsigned }: ColumnMetadata,
  dialect: IntegerDialect,
): Pick<ResourceField, 'isBig' | 'range'> {
  const name = type === Number ? 'integer' : String(type);
  const range = findRange(unsigned ? `${name} unsigned` : name, dialect);
  return { ...(BIG.has(type) && { isBig: true }), ...(range && { range }) };
}

function jsonField(name: string): ResourceField {
  return { name, kind: 'json', nullable: true, hidden: false, hasDefault: true };
}

/**
 * A value that a transformer makes cannot be compared in the database as the application knows it,
 * so it can only be returned.
 */
function kindOf({
  type,
  isArray,
  enum: values,
  transformer,
  length,
  width,
}: ColumnMetadata & { readonly width?: number }): FieldKind {
  if (isArray || transformer !== undefined) return 'json';
  if (values) return values.every((value) => typeof value === 'string') ? 'enum' : 'json';
  const isBit = type === 'tinyint' && (width === 1 || length === '1');
  return isBit ? 'boolean' : plainKindOf(type);
}

function plainKindOf(type: ColumnType): FieldKind {
  const name = typeof type === 'string' ? type : '';
  return CLASSES.get(type) ?? KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? 'json';
}

const BIG: ReadonlySet<ColumnType> = new Set<ColumnType>([
  'bigint',
  'int8',
  'bigserial' as ColumnType,
]);

/** The digits of a second that JavaScript's dates have. */
const MILLISECONDS = 3;

/**
 * The types of single precision: their numbers are read as shorter decimals, which are other
 * numbers where they are compared. On PostgreSQL, `float` has double precision.
 */
const SINGLE: ReadonlySet<ColumnType> = new Set<ColumnType>(['float', 'float4', 'real']);

/** PostgreSQL stores six digits of a second unless it is told otherwise, MariaDB none. */
function isImprecise(kind: FieldKind, { type, precision }: ColumnMetadata): boolean {
  if (kind === 'number') return SINGLE.has(type);
  if (kind !== 'datetime') return false;
  const digits = precision ?? (type === 'datetime' ? 0 : MILLISECONDS + 1);
  return digits > MILLISECONDS;
}

/** Tells whether a row needs no value for a column. */
function hasDefault(column: ColumnMetadata): boolean {
  return column.isGenerated || column.default !== undefined || isKept(column);
}

/** Tells whether TypeORM or the database writes a column with each write of its row. */
function isKept(column: ColumnMetadata): boolean {
  const { isCreateDate, isUpdateDate, isDeleteDate, isVersion, generatedType, asExpression } =
    column;
  return (
    [isCreateDate, isUpdateDate, isDeleteDate, isVersion].includes(true) ||
    generatedType !== undefined ||
    asExpression !== undefined
  );
}

function setTermsOf(
  kind: FieldKind,
  column: ColumnMetadata,
): Pick<ResourceField, 'isSet' | 'onlyIn'> {
  const { isInsert, isUpdate, isGenerated } = column;
  if (isSetAlways(column) || (isMoment(kind) && isExpression(column))) return { isSet: 'always' };
  if (isInsert !== isUpdate) return { onlyIn: isInsert ? 'create' : 'update' };
  return isGenerated || isExpression(column) ? { isSet: 'unless_given' } : {};
}

/**
 * Tells whether a value is made of others of its row by the database, or by something that neither
 * it nor TypeORM knows.
 */
function isComputed({
  generatedType,
  asExpression,
  isInsert,
  isUpdate,
  isCreateDate,
  isVersion,
}: ColumnMetadata): boolean {
  const isOfOthers = !isInsert && !isUpdate && !isCreateDate && !isVersion;
  return generatedType !== undefined || asExpression !== undefined || isOfOthers;
}

function isSetAlways(column: ColumnMetadata): boolean {
  const { isInsert, isUpdate, generatedIdentity, onUpdate } = column;
  return (
    isKept(column) ||
    generatedIdentity === 'ALWAYS' ||
    onUpdate !== undefined ||
    (!isInsert && !isUpdate)
  );
}

/**
 * Tells whether a default is computed by the database. TypeORM has an expression as a function; a
 * text such as `now` is one by PostgreSQL alone.
 */
function isExpression({ default: value }: ColumnMetadata): boolean {
  return typeof value === 'function' || isNow(value);
}

function toRelation(relation: RelationMetadata): ResourceRelation {
  const {
    propertyName: name,
    inverseEntityMetadata,
    isOneToMany,
    isOneToOneNotOwner,
    isManyToMany,
    isNullable,
  } = relation;
  const back =
    isOneToMany || isOneToOneNotOwner ? relation.inverseRelation?.propertyName : undefined;
  return {
    name,
    target: inverseEntityMetadata.target as Type,
    many: isOneToMany || isManyToMany,
    nullable: isNullable,
    hidden: relation.isLazy,
    ...(back !== undefined && { back }),
  };
}

/**
 * The unique keys, which MariaDB and MySQL have as indexes. Those with a condition are keys of some
 * rows only.
 */
function uniqueKeysOf(
  { uniques, indices }: EntityMetadata,
  tenant: string,
): Pick<EntityModel, 'uniqueKeys' | 'keysOfAllTenants'> {
  const indexes = indices.filter(({ isUnique, where }) => isUnique && where === undefined);
  return namedKeys(
    [...uniques, ...indexes].map(({ givenName: name, columns }) => {
      const all = columns.map(({ propertyPath }) => propertyPath);
      return {
        name,
        fields: all.filter((one) => one !== tenant),
        isOfTenant: all.includes(tenant),
      };
    }),
  );
}
