import {
  type EntityMetadata,
  type EntityProperty,
  EventType,
  ReferenceKind,
  Type as ColumnType,
} from '@mikro-orm/core';
import {
  type AbstractSqlPlatform,
  BaseMySqlPlatform,
  BasePostgreSqlPlatform,
  type SqlEntityManager,
} from '@mikro-orm/sql';
import type { Type } from '@nestjs/common';
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
 * Reads MikroORM's metadata of an entity. `tenant` is the property that names the tenant, where the
 * entity has it.
 */
export function fromMetadata(
  metadata: EntityMetadata,
  tenant: string,
  platform: AbstractSqlPlatform,
): EntityModel {
  const dialect = dialectOf(platform);
  const properties = Object.values(metadata.properties).filter(
    (property) => isStored(property) || keyOf(property, metadata) !== undefined,
  );
  const fields = properties
    .filter(isColumn)
    .map((property) => toField(property, keyOf(property, metadata), dialect));
  const relations = properties.filter((property) => !isColumn(property)).map(toRelation);
  const own = (names: readonly string[]): readonly string[] =>
    names.filter((name) => name !== tenant);
  const [key, ...others] = own(metadata.primaryKeys);
  const version = metadata.versionProperty as string | undefined;
  return {
    entity: metadata.class as Type,
    fields: new Map(fields.map((field) => [field.name, field])),
    relations: new Map(relations.map((relation) => [relation.name, relation])),
    ...(key !== undefined && others.length === 0 && { key }),
    ...uniqueKeysOf(metadata, own),
    ...(version !== undefined && { version }),
    ...(fields.some(({ name }) => name === tenant) && { tenant }),
  };
}

/** Types of columns that MikroORM converts, and whose values are compared as they are. */
const CONVERTED: ReadonlyMap<string, FieldKind> = new Map([
  ['DecimalType', 'decimal'],
  ['BigIntType', 'integer'],
  ['DateType', 'date'],
  ['DateTimeType', 'datetime'],
  ['DoubleType', 'number'],
  ['FloatType', 'number'],
  ['IntegerType', 'integer'],
  ['SmallIntType', 'integer'],
  ['TinyIntType', 'integer'],
  ['MediumIntType', 'integer'],
  ['BooleanType', 'boolean'],
  ['StringType', 'text'],
  ['TextType', 'text'],
  ['CharacterType', 'text'],
  ['UuidType', 'uuid'],
  ['EnumType', 'enum'],
]);

const RUNTIME: ReadonlyMap<string, FieldKind> = new Map([
  ['string', 'text'],
  ['boolean', 'boolean'],
  ['Date', 'datetime'],
  ['bigint', 'integer'],
]);

/** Undefined for SQLite and others, whose types do not bound their integers. */
function dialectOf(platform: AbstractSqlPlatform): IntegerDialect | undefined {
  if (platform instanceof BasePostgreSqlPlatform) return 'postgres';
  return platform instanceof BaseMySqlPlatform ? 'mysql' : undefined;
}

function isColumn({ kind }: EntityProperty): boolean {
  return kind === ReferenceKind.SCALAR || kind === ReferenceKind.EMBEDDED;
}

function isStored({ persist, formula }: EntityProperty): boolean {
  return persist !== false && !formula;
}

/**
 * The relation whose column a property shows beside it: MikroORM has it written by the relation
 * alone.
 */
function keyOf(
  { kind, persist, fieldNames }: EntityProperty,
  { relations }: EntityMetadata,
): string | undefined {
  if (kind !== ReferenceKind.SCALAR || persist !== false) return undefined;
  const [column] = fieldNames;
  const isIts = ({ kind: one, owner, persist: isOwn, joinColumns }: EntityProperty): boolean =>
    (one === ReferenceKind.MANY_TO_ONE || (one === ReferenceKind.ONE_TO_ONE && owner)) &&
    isOwn !== false &&
    joinColumns.length === 1 &&
    joinColumns[0] === column;
  return relations.find(isIts)?.name;
}

function toField(
  property: EntityProperty,
  relation: string | undefined,
  dialect: IntegerDialect | undefined,
): ResourceField {
  const { name, comment } = property;
  const kind = kindOf(property);
  return {
    name,
    kind,
    nullable: property.nullable === true,
    ...(comment !== undefined && { description: comment }),
    ...boundsOf(kind, property, dialect),
    hidden: isHidden(property),
    ...(relation !== undefined && { keyOf: relation }),
    hasDefault: hasDefault(property),
    ...setTermsOf(kind, property),
    ...(isComputed(property) && { isComputed: true }),
    ...(isImprecise(kind, property) && { imprecise: true }),
  };
}

function boundsOf(
  kind: FieldKind,
  property: EntityProperty,
  dialect: IntegerDialect | undefined,
): Pick<ResourceField, 'values' | 'maxLength' | 'isBig' | 'range'> {
  const { items = [], length = 0 } = property;
  if (kind === 'enum') return { values: items.map(String) };
  if (kind === 'integer') return integerTermsOf(property, dialect);
  return kind === 'text' && length > 0 ? { maxLength: length } : {};
}

function integerTermsOf(
  { columnTypes }: EntityProperty,
  dialect: IntegerDialect | undefined,
): Pick<ResourceField, 'isBig' | 'range'> {
  const [type = ''] = columnTypes;
  const range = dialect && findRange(type, dialect);
  return {
    ...(/^(?:bigint|bigserial|int8)\b/.test(type) && { isBig: true }),
    ...(range && { range }),
  };
}

/**
 * A single-precision number is read as the shortest decimal that is stored as it, which is another
 * number where it is compared.
 */
function isImprecise(kind: FieldKind, { length, columnTypes }: EntityProperty): boolean {
  if (kind === 'number') return /^(?:real|float4?)(?:\(|$)/.test(columnTypes[0] ?? '');
  return kind === 'datetime' && (length ?? MOST_PRECISE) > MILLISECONDS;
}

/** The digits of a second that JavaScript's dates have, and those of a column that says none. */
const MILLISECONDS = 3;
const MOST_PRECISE = 6;

function isHidden({ hidden, lazy }: EntityProperty): boolean {
  return hidden === true || lazy === true;
}

function kindOf(property: EntityProperty): FieldKind {
  const { customType, items = [] } = property;
  if (property.array || property.object || property.kind === ReferenceKind.EMBEDDED) return 'json';
  if (property.enum && items.every((item) => typeof item === 'string')) return 'enum';
  return customType && !isUuid(property)
    ? (CONVERTED.get(customType.constructor.name) ?? 'json')
    : plainKindOf(property);
}

function isUuid({ columnTypes }: EntityProperty): boolean {
  return columnTypes[0] === 'uuid';
}

function plainKindOf(property: EntityProperty): FieldKind {
  if (isUuid(property)) return 'uuid';
  const { runtimeType, columnTypes } = property;
  if (runtimeType === 'number')
    return /int|serial/.test(columnTypes[0] ?? '') ? 'integer' : 'number';
  return RUNTIME.get(runtimeType) ?? 'json';
}

/** Tells whether a row needs no value for a property. */
function hasDefault({
  default: value,
  defaultRaw,
  autoincrement,
  onCreate,
  version,
  generated,
  optional,
}: EntityProperty): boolean {
  return (
    [autoincrement, version, optional].includes(true) ||
    [value, defaultRaw, onCreate, generated].some((one) => one !== undefined)
  );
}

function setTermsOf(kind: FieldKind, property: EntityProperty): Pick<ResourceField, 'isSet'> {
  const { version, generated, onCreate, onUpdate, autoincrement } = property;
  if (version || generated !== undefined || onUpdate) return { isSet: 'always' };
  const isHooked = onCreate !== undefined || isExpression(property);
  if (isHooked && isMoment(kind)) return { isSet: 'always' };
  return isHooked || autoincrement ? { isSet: 'unless_given' } : {};
}

/**
 * Tells whether a value is made of others of its row: by an expression of the database, or by a
 * hook that is given the row.
 */
function isComputed({ generated, onCreate, onUpdate }: EntityProperty): boolean {
  const isExpressionOfRow =
    generated !== undefined && !(typeof generated === 'string' && /\bidentity\b/i.test(generated));
  return (
    isExpressionOfRow || [onCreate, onUpdate].some((hook) => hook !== undefined && hook.length > 0)
  );
}

/**
 * Tells whether a default is computed by the database: MikroORM has a raw one of every value,
 * quoted where it is a text.
 */
function isExpression({ default: value, defaultRaw }: EntityProperty): boolean {
  if (defaultRaw === undefined) return false;
  const isLiteral =
    ['string', 'number', 'boolean'].includes(typeof value) ||
    value === null ||
    LITERAL.test(defaultRaw);
  return !isLiteral || isNow(value);
}

const LITERAL = /^(?:'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false|null)$/i;

function toRelation(property: EntityProperty): ResourceRelation {
  const { name, kind, mappedBy, comment } = property;
  const many = kind === ReferenceKind.ONE_TO_MANY || kind === ReferenceKind.MANY_TO_MANY;
  const back = leadsBack(property) ? (mappedBy as string | undefined) : undefined;
  return {
    name,
    target: property.targetMeta?.class as Type,
    many,
    nullable: property.nullable === true,
    hidden: isHidden(property),
    ...(back !== undefined && { back }),
    ...((property.polymorphic || property.discriminator !== undefined) && { isOfSeveral: true }),
    ...(isByParts(property) && { isByParts: true }),
    ...(comment !== undefined && { description: comment }),
  };
}

/** Tells whether the rows to which a relation leads have the key of its row. */
function leadsBack({ kind, owner }: EntityProperty): boolean {
  return kind === ReferenceKind.ONE_TO_MANY || (kind === ReferenceKind.ONE_TO_ONE && !owner);
}

/**
 * Tells whether several columns lead to the rows of a relation, or back from them. MikroORM
 * compares them as a whole, and a gateway looks for the key beside the tenant.
 */
function isByParts({
  kind,
  owner,
  joinColumns,
  inverseJoinColumns,
  mappedBy,
  targetMeta,
}: EntityProperty): boolean {
  const isHere = kind === ReferenceKind.MANY_TO_ONE || owner;
  const referring = isHere ? undefined : targetMeta?.properties[mappedBy as never];
  const { joinColumns: near, inverseJoinColumns: far } = referring ?? {
    joinColumns,
    inverseJoinColumns,
  };
  return [near, far].some((columns: readonly string[] | undefined) => (columns?.length ?? 0) > 1);
}

function uniqueKeysOf(
  { properties, uniques }: EntityMetadata,
  own: (names: readonly string[]) => readonly string[],
): Pick<EntityModel, 'uniqueKeys' | 'keysOfAllTenants'> {
  const alone = Object.values(properties).filter(
    ({ unique }) => unique === true || typeof unique === 'string',
  );
  const keys: readonly { readonly name?: string | undefined; readonly all: readonly string[] }[] = [
    ...alone.map(({ name, unique }) => ({
      name: typeof unique === 'string' ? unique : undefined,
      all: [name],
    })),
    ...uniques.map(({ name, properties: named }) => ({ name, all: [named ?? []].flat() })),
  ];
  return namedKeys(
    keys.map(({ name, all }) => ({
      name,
      fields: own(all),
      isOfTenant: own(all).length < all.length,
    })),
  );
}

/** Makes a column's value, as MikroORM has read it, that of the property. */
type ColumnReader = (value: unknown) => unknown;

/**
 * Returns how the values of these fields are read without instances of their entity; a field whose
 * values stay what they are has none. Undefined where an instance may have other values: where code
 * of the application makes or fills it, or a field is no plain column.
 */
export function columnReaders(
  em: SqlEntityManager,
  entity: Type,
  names: readonly string[],
): ReadonlyMap<string, ColumnReader> | undefined {
  const metadata = em.getMetadata().get(entity);
  const events = em.getEventManager();
  const isHeard = [EventType.onInit, EventType.onLoad].some((event) =>
    events.hasListeners(event, metadata as never),
  );
  if (isHeard || isMadeOtherwise(metadata) || em.config.get('forceUndefined')) return undefined;
  const readers = readersOf(em, metadata);
  if (!names.every((name) => readers.has(name))) return undefined;
  const needed = new Map<string, ColumnReader>();
  for (const name of names) {
    const reader = readers.get(name);
    if (reader) needed.set(name, reader);
  }
  return needed;
}

/**
 * Tells whether instances are made by a constructor, or of another class than that of their table,
 * or in an order of their own.
 */
function isMadeOtherwise({
  virtual,
  forceConstructor,
  inheritanceType,
  root,
  serializedPrimaryKey,
  orderBy,
}: EntityMetadata): boolean {
  const parts = [inheritanceType, root.inheritanceType, serializedPrimaryKey, orderBy];
  return virtual === true || forceConstructor || parts.some((part) => part !== undefined);
}

const READERS = new WeakMap<EntityMetadata, ReadonlyMap<string, ColumnReader | undefined>>();

function readersOf(
  em: SqlEntityManager,
  metadata: EntityMetadata,
): ReadonlyMap<string, ColumnReader | undefined> {
  const known = READERS.get(metadata);
  if (known) return known;
  const columns = metadata.hydrateProps.filter(isPlainColumn);
  const readers = new Map(
    columns.map((property) => [property.name, readerOf(em, property)] as const),
  );
  READERS.set(metadata, readers);
  return readers;
}

function isPlainColumn(property: EntityProperty): boolean {
  const { kind, getter, setter, accessor, ref, embedded } = property;
  const isColumnAlone =
    kind === ReferenceKind.SCALAR && isStored(property) && embedded === undefined;
  return isColumnAlone && !getter && !setter && !ref && accessor === undefined;
}

/**
 * MikroORM has read moments and booleans already: what its hydrator would do then is to apply the
 * type of the column, but to null.
 */
function readerOf(em: SqlEntityManager, { customType }: EntityProperty): ColumnReader | undefined {
  const platform = em.getPlatform();
  if (!customType || customType.convertToJSValue === ColumnType.prototype.convertToJSValue)
    return undefined;
  return (value) =>
    value === null
      ? null
      : (customType.convertToJSValue(value, platform, { mode: 'serialization' }) as unknown);
}
