import { ToolError } from '@toolloop/core';
import { type EntityModel, isMoment, type ResourceRelation } from './entity-model.js';
import { all, endless, where } from './filter.js';
import type { ResourceSession } from './resource-gateway.js';
import {
  type Condition,
  type ResourceQuery,
  type ResourceValue,
  valuesOf,
} from './resource-query.js';
import type { EntityShape, ResourceAccess } from './resource.js';

/** The parts of a row that are shown. */
export interface ViewTerms {
  /** @default all that the access returns */
  readonly select?: readonly string[] | undefined;
  /** The relations that are loaded. @default none */
  readonly load?: readonly string[] | undefined;
}

/** The most rows that one relation brings to a page. */
const MOST_RELATED = 500;

/**
 * The columns that a page is read with: those that are selected, what identifies a row, and the
 * relations to one that are loaded. Undefined for whole rows: where nothing is selected, of which
 * an ORM makes instances faster, and where a getter is shown, which may need any of them.
 */
function columnsFor(
  access: ResourceAccess,
  { select, load = [] }: ViewTerms,
): readonly string[] | undefined {
  const { model } = access.shape;
  if (!select || select.some((name) => !model.fields.has(name))) return undefined;
  const ones = load.filter((name) => isHere(model.relations.get(name)));
  return [...new Set([...select, ...ones, ...identityOf(model)])];
}

/** Tells whether a row has the key of the row that a relation leads to. */
function isHere(relation: ResourceRelation | undefined): boolean {
  return relation?.many === false && relation.back === undefined;
}

/**
 * The fields without which an entity's own tools would not know the instance, but for a key that a
 * rule hides from the actor.
 */
function identifying({ shape, filter }: ResourceAccess): readonly string[] {
  const { key = '' } = shape.model;
  const isHidden = shape.fields.has(key) && !filter.fields.has(key);
  return identityOf(shape.model).filter((name) => !isHidden || name !== key);
}

function identityOf({ key, tenant }: EntityModel): readonly string[] {
  return [key, tenant].filter((name) => name !== undefined);
}

/** Rows that were found, and the views of them. */
export interface FoundRows {
  readonly rows: readonly object[];
  /** The value of a field by which they were ordered. */
  valueOf(row: object, name: string): unknown;
  /** Makes the views of some of them. Called once. */
  toViews(rows: readonly object[]): Promise<readonly object[]>;
}

/**
 * Finds rows that are only read. Where their views are made of columns alone, no instances are made
 * of them.
 */
export async function findRows(
  session: ResourceSession,
  access: ResourceAccess,
  query: Omit<ResourceQuery, 'fields'>,
  terms: ViewTerms,
): Promise<FoundRows> {
  const { shape } = access;
  const { model } = shape;
  const sorted = query.order.map(({ field }) => field);
  const { select } = terms;
  const fields = columnsFor(access, { ...terms, select: select && [...select, ...sorted] });
  const asked = { ...query, ...(fields && { fields }) };
  const names = [...(select ?? access.returned), ...identifying(access)];
  const needed = [...new Set([...names, ...sorted])];
  if ((terms.load ?? []).length > 0 || !needed.every((name) => model.fields.has(name))) {
    const rows = await session.find(model, asked);
    return {
      rows,
      valueOf: (row, name) => session.valueOf(model, row, name),
      toViews: (some) => toViews(session, some, access, terms),
    };
  }
  const rows = await session.values(model, asked, needed);
  const shown = new Set(names);
  const others = needed.filter((name) => !shown.has(name));
  const toView = viewMaker(shape, shown);
  return {
    rows,
    valueOf: valueIn,
    toViews: (some) => Promise.resolve(some.map((row) => toView(without(row, others)))),
  };
}

function valueIn(row: object, name: string): unknown {
  return Reflect.get(row, name);
}

function without(row: object, names: readonly string[]): object {
  return names.length === 0
    ? row
    : Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name)));
}

/**
 * Makes what may leave of rows: instances of the entity that have the permitted values and nothing
 * else, so that no lazy property, getter or hidden field can be reached by them.
 *
 * @throws {ToolError} Where the rows of a relation are too many for one page.
 */
export async function toViews(
  session: ResourceSession,
  rows: readonly object[],
  access: ResourceAccess,
  { select = access.returned, load = [] }: ViewTerms = {},
): Promise<readonly object[]> {
  const { shape } = access;
  const { model } = shape;
  const related = new Map<string, (row: object) => unknown>();
  for (const name of load) {
    const relation = model.relations.get(name);
    const target = access.related.get(name);
    if (relation && target)
      related.set(name, await relatedViews(session, rows, { relation, target, model }));
  }
  const names = [...select, ...identifying(access)];
  const toView = viewMaker(shape, new Set([...names, ...related.keys()]));
  return rows.map((row) => {
    const values = valuesOf(session, model, row, names);
    for (const [name, viewsOf] of related) values[name] = viewsOf(row);
    return toView(values);
  });
}

interface Loading {
  readonly model: EntityModel;
  readonly relation: ResourceRelation;
  readonly target: ResourceAccess;
}

/** Loads a relation of all rows at once, through the same access as a read of its entity. */
async function relatedViews(
  session: ResourceSession,
  rows: readonly object[],
  loading: Loading,
): Promise<(row: object) => unknown> {
  const { model, relation, target } = loading;
  const { model: targetModel } = target.shape;
  const isOverTable = relation.many && relation.back === undefined;
  const near = relation.many || relation.back !== undefined ? model.key : relation.name;
  // a finding at start
  if (near === undefined || targetModel.key === undefined) return () => undefined;
  const keys = [...new Set(rows.map((row) => session.valueOf(model, row, near)))].filter(isKey);
  const found =
    keys.length === 0
      ? []
      : await (isOverTable ? linkedRows : referringRows)(session, keys, loading);
  const rowsOf = [...new Set(found.map(([, row]) => row))];
  const views = await toViews(session, rowsOf, target);
  const viewOf = new Map(rowsOf.map((row, index) => [row, views[index]] as const));
  const byKey = new Map<string, unknown[]>();
  for (const [key, row] of found) byKey.set(key, [...(byKey.get(key) ?? []), viewOf.get(row)]);
  return (row) => {
    const own = byKey.get(String(session.valueOf(model, row, near))) ?? [];
    return relation.many ? own : (own[0] ?? null);
  };
}

/** A row of the target with the key, as text, of the row to which it belongs. */
type RelatedRow = readonly [key: string, row: object];

/** The rows that refer to one of the keys, or have one of them. */
async function referringRows(
  session: ResourceSession,
  keys: readonly ResourceValue[],
  loading: Loading,
): Promise<readonly RelatedRow[]> {
  const { relation, target } = loading;
  const { model } = target.shape;
  const far = relation.back ?? model.key ?? '';
  const condition: Condition =
    relation.back === undefined
      ? where(far, 'in', keys)
      : { kind: 'field', field: far, operator: 'in', value: keys };
  const order =
    relation.many && model.key !== undefined ? [{ field: model.key, descending: false }] : [];
  const found = await session.find(model, {
    where: all([target.rows, condition]),
    order,
    limit: MOST_RELATED + 1,
    offset: 0,
  });
  assertFew(found.length, relation);
  return found.map((row) => [String(session.valueOf(model, row, far)), row]);
}

/** The rows to which a table of the relation's own leads from the keys. */
async function linkedRows(
  session: ResourceSession,
  keys: readonly ResourceValue[],
  loading: Loading,
): Promise<readonly RelatedRow[]> {
  const { model, relation, target } = loading;
  const { key = '' } = target.shape.model;
  const links = await session.links(model, relation.name, {
    keys,
    where: target.rows,
    limit: MOST_RELATED + 1,
  });
  assertFew(links.length, relation);
  const fars = [...new Set(links.map(([, far]) => far))].filter(isKey);
  const query = {
    where: all([target.rows, where(key, 'in', fars)]),
    order: [],
    limit: MOST_RELATED,
    offset: 0,
  };
  const found = fars.length === 0 ? [] : await session.find(target.shape.model, query);
  const byKey = new Map(
    found.map((row) => [String(session.valueOf(target.shape.model, row, key)), row]),
  );
  return links.flatMap(([near, far]): readonly RelatedRow[] => {
    const row = byKey.get(String(far));
    return row ? [[String(near), row]] : [];
  });
}

function assertFew(count: number, { name }: ResourceRelation): void {
  if (count <= MOST_RELATED) return;
  const message = `brings more than ${MOST_RELATED} rows. Read fewer rows at once.`;
  throw new ToolError('Too many related rows.', {
    problems: [{ pointer: '/load', message: `"${name}" ${message}` }],
  });
}

/** Tells whether a value can identify a row. */
export function isKey(value: unknown): value is string | number | bigint {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint';
}

/**
 * Returns what makes an instance of the values of these names; what the class itself would give for
 * properties that are shown elsewhere is covered.
 */
function viewMaker(
  { model, shown, dates }: EntityShape,
  names: ReadonlySet<string>,
): (values: object) => object {
  const moments = [...names].filter((name) => isMoment(model.fields.get(name)?.kind ?? 'json'));
  const covered = [...shown].filter((name) => !names.has(name));
  // of its class, which is not run
  const empty: object = Reflect.construct(Object, [], model.entity);
  const prototype = Reflect.getPrototypeOf(empty);
  return (values) => {
    for (const name of moments) {
      const word = endlessIn(Reflect.get(values, name));
      if (word !== undefined) Reflect.set(values, name, dates.has(name) ? null : word);
    }
    // in one step: to define each property beside the accessors of the class takes several times as
    // long
    Reflect.setPrototypeOf(values, prototype);
    for (const name of covered)
      Object.defineProperty(values, name, { value: undefined, enumerable: false });
    return values;
  };
}

/**
 * The word for a moment without an end, which is no date: TypeORM has it as a number, MikroORM as a
 * text.
 */
function endlessIn(value: unknown): string | undefined {
  return typeof value === 'string' || typeof value === 'number'
    ? endless(String(value))
    : undefined;
}

/** Makes a copy of a view as a plain object, to be kept beside the mark of a call. */
export function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy);
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plainCopy(one)]));
}
