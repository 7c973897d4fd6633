/** The contract of a gateway of `@toolloop/resources`. @packageDocumentation */
import assert from 'node:assert/strict';
import type { Type } from '@nestjs/common';
import {
  type ComparisonOperator,
  type Condition,
  type EntityModel,
  type ResourceField,
  type ResourceGateway,
  type ResourceQuery,
  type ResourceSession,
  type ResourceValue,
  ResourceWriteError,
} from '@toolloop/resources';
import { AWKWARD_TEXTS, type Contract, type ContractRunner, runContract, type StoreUnderTest, type Trial } from '../contracts/contract.js';

/**
 * A gateway over two empty tables, and the entities of them. Both have an `id` that the database counts and a `tenant` of 60 characters. An author has a `name` and many `books`; a
 * book has a `title` of 200 characters that is unique within the tenant (key `books_title`), `pages` (a whole number), `price` (a decimal of two places), `isOut` (false by default),
 * `printedOn` (a day), `soldAt` (a moment, to the millisecond), `genre` (`novel` or `essay`), a hidden `remark`, the `author` and a `version`. All but `id`, `tenant`, `title`,
 * `price`, `isOut`, `version` and `name` may be null.
 */
export interface GatewayUnderTest {
  readonly gateway: ResourceGateway;
  readonly author: Type;
  readonly book: Type;
}

type GatewayTrial = Trial<GatewayUnderTest>;

/**
 * The behaviour that every `ResourceGateway` must show.
 *
 * @example
 * resourceGatewayContract('to Objection', async () => ({ store: await openLibrary(), close: closeLibrary }), { describe, it, beforeAll, afterAll });
 */
export function resourceGatewayContract(name: string, make: () => Promise<StoreUnderTest<GatewayUnderTest>>, runner: ContractRunner): void {
  runContract(CONTRACT, name, make, runner);
}

const CONTRACT: Contract<GatewayUnderTest> = {
  port: 'ResourceGateway',
  cases: [
    { name: 'describes fields, keys, relations, the tenant and the version, of entities alone', check: describes },
    { name: 'finds nothing unsafe in a database that is safe', check: findsNothing },
    { name: 'finds by every operator what it means, nulls apart', check: compares },
    { name: 'compares text by its characters, and without regard to case by contains and starts_with alone', check: comparesText },
    { name: 'keeps awkward texts, and finds them again', check: keepsAwkwardTexts },
    { name: 'orders with nulls last in either direction, and pages', check: orders },
    { name: 'reads the fields that are named', check: readsFields },
    { name: 'finds by related rows, and by there being none', check: followsRelations },
    { name: 'aggregates exactly', check: aggregates },
    { name: 'keeps tenants apart in finds, counts, aggregates and relations', check: separatesTenants },
    { name: 'writes no row of another tenant, whatever the values say', check: writesOwnRows },
    { name: 'keeps tenants apart when they work at once', check: separatesAtOnce },
    { name: 'counts the version of what is changed, and reads what the database has set', check: countsVersions },
    { name: 'removes rows', check: removes },
    { name: 'says which unique key is violated, and keeps nothing of the transaction', check: refusesDuplicates },
  ],
  restart: {
    before: async (trial) => void (await shelve(trial, [{ title: 'kept' }])),
    after: async ({ gateway, book }, { tenant }) => {
      const model = modelOf(gateway, book);
      const count = await gateway.read(scopeOf(tenant), (session) => session.count(model, eq('title', 'kept')));
      assert.equal(count, 1);
    },
  },
};

const EVERYTHING: Condition = { kind: 'all', of: [] };
const BY_ID = [{ field: 'id', descending: false }] as const;

function compare(field: string, operator: ComparisonOperator, value: ResourceValue | readonly ResourceValue[] = null): Condition {
  return { kind: 'field', field, operator, value };
}

const eq = (field: string, value: ResourceValue): Condition => compare(field, 'eq', value);

function related(relation: string, where: Condition = EVERYTHING, has = true): Condition {
  return { kind: 'related', relation, has, where };
}

function modelOf(gateway: ResourceGateway, entity: Type): EntityModel {
  const model = gateway.describe(entity);
  assert.ok(model, `The gateway does not know ${entity.name}.`);
  return model;
}

function fieldOf({ fields, entity }: EntityModel, name: string): ResourceField {
  const field = fields.get(name);
  assert.ok(field, `${entity.name} has no field "${name}".`);
  return field;
}

function scopeOf(tenant: string): { readonly actor: { readonly id: string }; readonly tenant: string } {
  return { actor: { id: 'ada' }, tenant };
}

type Values = Readonly<Record<string, unknown>>;

/** Runs work in a transaction of the trial's tenant, or of another. */
function within<Result>(
  { store, tenant }: GatewayTrial,
  work: (session: ResourceSession, models: { readonly author: EntityModel; readonly book: EntityModel }) => Promise<Result>,
  of = tenant,
): Promise<Result> {
  const { gateway } = store;
  return gateway.transaction(scopeOf(of), (session) =>
    work(session, { author: modelOf(gateway, store.author), book: modelOf(gateway, store.book) }),
  );
}

/** Creates books, and resolves to them as they were written. */
function shelve(trial: GatewayTrial, books: readonly Values[], tenant = trial.tenant): Promise<readonly Values[]> {
  return within(
    trial,
    async (session, { book }) => {
      const rows = books.map((values) => session.create(book, new Map(Object.entries({ price: '1.00', ...values }))));
      await session.flush();
      return rows.map((row) => valuesOf(session, book, row));
    },
    tenant,
  );
}

function valuesOf(session: ResourceSession, model: EntityModel, row: object): Values {
  const names = [...model.fields.keys(), 'author'];
  return Object.fromEntries(names.map((name) => [name, session.valueOf(model, row, name) ?? null]));
}

function query(parts: Partial<ResourceQuery>): ResourceQuery {
  return { where: EVERYTHING, order: BY_ID, limit: 100, offset: 0, ...parts };
}

/** The titles of the books that meet a condition, in the order of their ids. */
function titles(trial: GatewayTrial, parts: Partial<ResourceQuery>, tenant = trial.tenant): Promise<readonly unknown[]> {
  return within(
    trial,
    async (session, { book }) => {
      const rows = await session.find(book, query(parts));
      return rows.map((row) => session.valueOf(book, row, 'title'));
    },
    tenant,
  );
}

function describes(trial: GatewayTrial): Promise<void> {
  return within(trial, async (_, { book, author }) => {
    const kinds = Object.fromEntries([...book.fields.values()].map(({ name, kind }) => [name, kind]));
    const { id, title, pages, price, isOut, printedOn, soldAt, genre } = kinds;
    const expected = ['integer', 'text', 'integer', 'decimal', 'boolean', 'date', 'datetime', 'enum'];
    assert.deepEqual([id, title, pages, price, isOut, printedOn, soldAt, genre], expected);
    assert.deepEqual([book.key, book.tenant, book.version], ['id', 'tenant', 'version']);
    assert.deepEqual(book.uniqueKeys.get('books_title'), ['title']);
    assert.deepEqual(fieldOf(book, 'genre').values?.toSorted(), ['essay', 'novel']);
    assert.equal(fieldOf(book, 'title').maxLength, 200);
    assert.deepEqual([fieldOf(book, 'pages').nullable, fieldOf(book, 'title').nullable], [true, false]);
    assert.deepEqual([fieldOf(book, 'remark').hidden, fieldOf(book, 'title').hidden], [true, false]);
    assert.deepEqual(
      ['id', 'isOut', 'version', 'title'].map((name) => fieldOf(book, name).hasDefault),
      [true, true, true, false],
    );
    const { target, many, nullable } = book.relations.get('author') ?? {};
    assert.deepEqual([target, many, nullable], [trial.store.author, false, true]);
    const books = author.relations.get('books');
    assert.deepEqual([books?.target, books?.many, books?.back], [trial.store.book, true, 'author']);
    assert.equal(trial.store.gateway.describe(Date), undefined);
    return Promise.resolve();
  });
}

async function findsNothing({ store: { gateway, book, author } }: GatewayTrial): Promise<void> {
  assert.deepEqual(await gateway.findings([modelOf(gateway, book), modelOf(gateway, author)]), []);
}

async function compares(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [
    { title: 'a', pages: 1, price: '9.99', printedOn: '2026-01-31', soldAt: new Date('2026-01-01T00:00:00.001Z'), genre: 'novel' },
    { title: 'b', pages: 2, price: '10.00', printedOn: '2026-02-01', soldAt: new Date('2026-01-01T00:00:00.002Z'), isOut: true },
    { title: 'c' },
  ]);
  const cases: readonly (readonly [Condition, readonly string[]])[] = [
    [compare('pages', 'eq', 1), ['a']],
    [compare('pages', 'ne', 1), ['b']],
    [compare('pages', 'in', [1, 2]), ['a', 'b']],
    [compare('pages', 'in', []), []],
    [compare('pages', 'not_in', [1]), ['b']],
    [compare('pages', 'gt', 1), ['b']],
    [compare('pages', 'gte', 1), ['a', 'b']],
    [compare('price', 'lt', '9.990'), ['c']],
    [compare('price', 'lte', '9.990'), ['a', 'c']],
    [compare('price', 'gt', '9.99'), ['b']],
    [compare('pages', 'is_null'), ['c']],
    [compare('pages', 'is_not_null'), ['a', 'b']],
    [compare('isOut', 'eq', false), ['a', 'c']],
    [compare('printedOn', 'lt', '2026-02-01'), ['a']],
    [compare('soldAt', 'gt', new Date('2026-01-01T00:00:00.001Z')), ['b']],
    [compare('soldAt', 'eq', new Date('2026-01-01T00:00:00.001Z')), ['a']],
    [compare('genre', 'eq', 'novel'), ['a']],
    [{ kind: 'any', of: [eq('title', 'a'), eq('title', 'c')] }, ['a', 'c']],
    [{ kind: 'all', of: [compare('pages', 'gte', 1), eq('isOut', true)] }, ['b']],
    [{ kind: 'any', of: [] }, []],
    [EVERYTHING, ['a', 'b', 'c']],
  ];
  for (const [where, expected] of cases) {
    assert.deepEqual(await titles(trial, { where }), expected, JSON.stringify(where));
    const [count, exists] = await within(trial, async (session, { book }) => [
      await session.count(book, where),
      await session.exists(book, where),
    ]);
    assert.deepEqual([count, exists], [expected.length, expected.length > 0], JSON.stringify(where));
  }
}

async function comparesText(trial: GatewayTrial): Promise<void> {
  const texts = ['Abc', 'abc', 'abc ', '100%', 'a_c'];
  await shelve(
    trial,
    texts.map((remark, index) => ({ title: `${index}`, remark })),
  );
  const cases: readonly (readonly [ComparisonOperator, string, readonly number[]])[] = [
    ['eq', 'abc', [1]],
    ['ne', 'abc', [0, 2, 3, 4]],
    ['contains', 'BC', [0, 1, 2]],
    ['starts_with', 'AB', [0, 1, 2]],
    ['not_contains', 'bc', [3, 4]],
    ['not_starts_with', 'a', [3]],
    ['contains', '%', [3]],
    ['contains', '_', [4]],
  ];
  for (const [operator, value, places] of cases)
    assert.deepEqual(await titles(trial, { where: compare('remark', operator, value) }), places.map(String), `${operator} ${value}`);
}

async function keepsAwkwardTexts(trial: GatewayTrial): Promise<void> {
  const texts = AWKWARD_TEXTS.filter((text) => !/[\0\p{Surrogate}]/u.test(text) && text.length <= 200);
  await shelve(
    trial,
    texts.map((title) => ({ title })),
  );
  for (const title of texts) assert.deepEqual(await titles(trial, { where: eq('title', title) }), [title]);
}

async function orders(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [{ title: 'a', pages: 2 }, { title: 'b' }, { title: 'c', pages: 1 }, { title: 'd', pages: 2 }]);
  const up = [{ field: 'pages', descending: false }, ...BY_ID];
  const down = [{ field: 'pages', descending: true }, ...BY_ID];
  assert.deepEqual(await titles(trial, { order: up }), ['c', 'a', 'd', 'b']);
  assert.deepEqual(await titles(trial, { order: down }), ['a', 'd', 'c', 'b']);
  assert.deepEqual(await titles(trial, { order: down, limit: 2, offset: 1 }), ['d', 'c']);
}

async function readsFields(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [{ title: 'a', remark: 'hidden', soldAt: new Date(0) }]);
  await within(trial, async (session, { book }) => {
    const [named] = await session.find(book, query({ fields: ['id', 'title'] }));
    assert.deepEqual([session.valueOf(book, named ?? {}, 'title'), session.valueOf(book, named ?? {}, 'price') ?? null], ['a', null]);
    const [whole] = await session.find(book, query({}));
    const { remark, price, soldAt } = valuesOf(session, book, whole ?? {});
    assert.deepEqual([remark, price, soldAt], ['hidden', '1.00', new Date(0)]);
  });
}

/** Creates an author with books. */
function write(trial: GatewayTrial, name: string, books: readonly string[], tenant = trial.tenant): Promise<void> {
  return within(
    trial,
    async (session, { author, book }) => {
      const writer = session.create(author, new Map([['name', name]]));
      await session.flush();
      for (const title of books) session.create(book, new Map<string, unknown>(Object.entries({ title, price: '1.00', author: writer })));
      await session.flush();
    },
    tenant,
  );
}

async function followsRelations(trial: GatewayTrial): Promise<void> {
  await write(trial, 'Ann', ['a', 'b']);
  await write(trial, 'Bob', ['c']);
  await write(trial, 'Cid', []);
  await shelve(trial, [{ title: 'd' }]);
  const isAnn = eq('name', 'Ann');
  assert.deepEqual(await titles(trial, { where: related('author', isAnn) }), ['a', 'b']);
  assert.deepEqual(await titles(trial, { where: related('author', isAnn, false) }), ['c', 'd']);
  const isBOrC = compare('title', 'in', ['b', 'c']);
  const names = (where: Condition): Promise<readonly unknown[]> =>
    within(trial, async (session, models) => {
      const rows = await session.find(models.author, query({ where }));
      return rows.map((row) => session.valueOf(models.author, row, 'name'));
    });
  assert.deepEqual(await names(related('books', isBOrC)), ['Ann', 'Bob']);
  assert.deepEqual(await names(related('books', isBOrC, false)), ['Cid']);
}

async function aggregates(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [
    { title: 'a', price: '0.10', pages: 1, printedOn: '2026-01-02' },
    { title: 'b', price: '0.20', pages: 2, printedOn: '2026-01-01', isOut: true },
    { title: 'c', price: '12345678.01' },
  ]);
  const cases = [
    ['sum', 'price', '12345678.31'],
    ['max', 'price', '12345678.01'],
    ['count', 'pages', 2],
    ['sum', 'pages', 3],
    ['avg', 'pages', 1.5],
    ['min', 'printedOn', '2026-01-01'],
    ['list', 'title', ['a', 'b', 'c']],
    ['list', 'printedOn', ['2026-01-01', '2026-01-02']],
    ['list', 'isOut', [false, true]],
  ] as const;
  await within(trial, async (session, { book }) => {
    for (const [kind, name, expected] of cases) {
      const value = await session.aggregate(book, EVERYTHING, { kind, field: fieldOf(book, name), limit: 100 });
      assert.deepEqual(value, expected, `${kind} of ${name}`);
    }
    const none = await session.aggregate(book, eq('title', 'none'), { kind: 'sum', field: fieldOf(book, 'price'), limit: 1 });
    assert.equal(none, null);
    const more = await session.aggregate(book, EVERYTHING, { kind: 'list', field: fieldOf(book, 'title'), limit: 1 });
    assert.deepEqual(more, ['a', 'b']);
  });
}

async function separatesTenants(trial: GatewayTrial): Promise<void> {
  const { otherTenant } = trial;
  await write(trial, 'Ann', ['mine']);
  await write(trial, 'Ann', ['foreign'], otherTenant);
  assert.deepEqual(await titles(trial, {}), ['mine']);
  assert.deepEqual(await titles(trial, {}, otherTenant), ['foreign']);
  const any: Condition = { kind: 'any', of: [eq('title', 'foreign'), eq('tenant', otherTenant), EVERYTHING] };
  assert.deepEqual(await titles(trial, { where: any }), ['mine']);
  assert.deepEqual(await titles(trial, { where: related('author') }), ['mine']);
  await within(trial, async (session, { book, author }) => {
    assert.deepEqual([await session.count(book, any), await session.exists(book, eq('title', 'foreign'))], [1, false]);
    assert.equal(await session.count(author, related('books')), 1);
    const listed = await session.aggregate(book, any, { kind: 'list', field: fieldOf(book, 'title'), limit: 9 });
    assert.deepEqual(listed, ['mine']);
  });
}

async function writesOwnRows(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [{ title: 'mine', tenant: trial.otherTenant }]);
  assert.deepEqual(await titles(trial, {}, trial.otherTenant), []);
  assert.deepEqual(await titles(trial, {}), ['mine']);
}

async function separatesAtOnce(trial: GatewayTrial): Promise<void> {
  const tenants = [trial.tenant, trial.otherTenant];
  for (const tenant of tenants) await shelve(trial, [{ title: tenant.slice(0, 4) }], tenant);
  const found = await Promise.all(Array.from({ length: 12 }, (_, index) => titles(trial, {}, tenants[index % 2])));
  assert.deepEqual(
    found,
    found.map((_, index) => [index % 2 === 0 ? 'acme' : 'glob']),
  );
}

async function countsVersions(trial: GatewayTrial): Promise<void> {
  const [made] = await shelve(trial, [{ title: 'a', pages: 1 }]);
  assert.deepEqual([made?.['version'], made?.['isOut'], typeof made?.['id']], [1, false, 'number']);
  const changed = await within(trial, async (session, { book }) => {
    const [row] = await session.find(book, query({}));
    assert.ok(row);
    session.change(
      book,
      row,
      new Map([
        ['pages', null],
        ['genre', 'essay'],
      ]),
    );
    await session.flush();
    return valuesOf(session, book, row);
  });
  assert.deepEqual([changed['version'], changed['pages'], changed['genre'], changed['title']], [2, null, 'essay', 'a']);
}

async function removes(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [{ title: 'a' }, { title: 'b' }]);
  await within(trial, async (session, { book }) => {
    const [row] = await session.find(book, query({ where: eq('title', 'a') }));
    assert.ok(row);
    session.remove(row);
    await session.flush();
  });
  assert.deepEqual(await titles(trial, {}), ['b']);
}

async function refusesDuplicates(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [{ title: 'a' }]);
  await shelve(trial, [{ title: 'a' }], trial.otherTenant);
  const again = shelve(trial, [{ title: 'new' }, { title: 'a' }]);
  await assert.rejects(again, (error: unknown) => {
    assert.ok(error instanceof ResourceWriteError, String(error));
    assert.deepEqual([error.reason, error.subject], ['unique', 'books_title']);
    return true;
  });
  assert.deepEqual(await titles(trial, {}), ['a']);
}
