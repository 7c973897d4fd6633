/** The contract of a gateway of `@toolloop/resources`. @packageDocumentation */
import assert from 'node:assert/strict';
import { type Condition, ResourceWriteError } from '@toolloop/resources';
import {
  type Contract,
  type ContractRunner,
  runContract,
  type StoreUnderTest,
} from '../contracts/contract.js';
import { READING } from './reading.js';
import {
  eq,
  EVERYTHING,
  fieldOf,
  type GatewayTrial,
  type GatewayUnderTest,
  modelOf,
  query,
  related,
  scopeOf,
  shelve,
  titles,
  valuesOf,
  within,
  write,
} from './trial.js';

export type { GatewayUnderTest } from './trial.js';

/**
 * The behaviour that every `ResourceGateway` must show.
 *
 * @example
 * resourceGatewayContract(
 *   'to Objection',
 *   async () => ({ store: await openLibrary(), close: closeLibrary }),
 *   { describe, it, beforeAll, afterAll },
 * );
 */
export function resourceGatewayContract(
  name: string,
  make: () => Promise<StoreUnderTest<GatewayUnderTest>>,
  runner: ContractRunner,
): void {
  runContract(CONTRACT, name, make, runner);
}

const CONTRACT: Contract<GatewayUnderTest> = {
  port: 'ResourceGateway',
  cases: [
    {
      name: 'describes fields, keys, relations, the tenant and the version, of entities alone',
      check: describes,
    },
    { name: 'finds nothing unsafe in a database that is safe', check: findsNothing },
    ...READING,
    {
      name: 'keeps tenants apart in finds, counts, aggregates and relations',
      check: separatesTenants,
    },
    { name: 'writes no row of another tenant, whatever the values say', check: writesOwnRows },
    { name: 'keeps tenants apart when they work at once', check: separatesAtOnce },
    {
      name: 'counts the version of what is changed, and reads what the database has set',
      check: countsVersions,
    },
    { name: 'removes rows', check: removes },
    {
      name: 'says which unique key is violated, and keeps nothing of the transaction',
      check: refusesDuplicates,
    },
  ],
  restart: {
    before: async (trial) => void (await shelve(trial, [{ title: 'kept' }])),
    after: async ({ gateway, book }, { tenant }) => {
      const model = modelOf(gateway, book);
      const count = await gateway.read(scopeOf(tenant), (session) =>
        session.count(model, eq('title', 'kept')),
      );
      assert.equal(count, 1);
    },
  },
};

function describes(trial: GatewayTrial): Promise<void> {
  return within(trial, async (_, { book, author }) => {
    const kinds = Object.fromEntries(
      [...book.fields.values()].map(({ name, kind }) => [name, kind]),
    );
    const { id, title, pages, price, isOut, printedOn, soldAt, genre } = kinds;
    const expected = [
      'integer',
      'text',
      'integer',
      'decimal',
      'boolean',
      'date',
      'datetime',
      'enum',
    ];
    assert.deepEqual([id, title, pages, price, isOut, printedOn, soldAt, genre], expected);
    assert.deepEqual([book.key, book.tenant, book.version], ['id', 'tenant', 'version']);
    assert.deepEqual(book.uniqueKeys.get('books_title'), ['title']);
    assert.deepEqual(fieldOf(book, 'genre').values?.toSorted(), ['essay', 'novel']);
    assert.equal(fieldOf(book, 'title').maxLength, 200);
    assert.deepEqual(
      [fieldOf(book, 'pages').nullable, fieldOf(book, 'title').nullable],
      [true, false],
    );
    assert.deepEqual(
      [fieldOf(book, 'remark').hidden, fieldOf(book, 'title').hidden],
      [true, false],
    );
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

async function separatesTenants(trial: GatewayTrial): Promise<void> {
  const { otherTenant } = trial;
  await write(trial, 'Ann', ['mine']);
  await write(trial, 'Ann', ['foreign'], otherTenant);
  assert.deepEqual(await titles(trial, {}), ['mine']);
  assert.deepEqual(await titles(trial, {}, otherTenant), ['foreign']);
  const any: Condition = {
    kind: 'any',
    of: [eq('title', 'foreign'), eq('tenant', otherTenant), EVERYTHING],
  };
  assert.deepEqual(await titles(trial, { where: any }), ['mine']);
  assert.deepEqual(await titles(trial, { where: related('author') }), ['mine']);
  await within(trial, async (session, { book, author }) => {
    assert.deepEqual(
      [await session.count(book, any), await session.exists(book, eq('title', 'foreign'))],
      [1, false],
    );
    assert.equal(await session.count(author, related('books')), 1);
    const listed = await session.aggregate(book, any, {
      kind: 'list',
      field: fieldOf(book, 'title'),
      limit: 9,
    });
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
  const found = await Promise.all(
    Array.from({ length: 12 }, (_, index) => titles(trial, {}, tenants[index % 2])),
  );
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
  assert.deepEqual(
    [changed['version'], changed['pages'], changed['genre'], changed['title']],
    [2, null, 'essay', 'a'],
  );
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
