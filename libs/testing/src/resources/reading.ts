import assert from 'node:assert/strict';
import type { ComparisonOperator, Condition } from '@toolloop/resources';
import { AWKWARD_TEXTS, type Contract } from '../contracts/contract.js';
import {
  compare,
  eq,
  EVERYTHING,
  BY_ID,
  fieldOf,
  type GatewayTrial,
  type GatewayUnderTest,
  query,
  related,
  shelve,
  titles,
  valuesOf,
  within,
  write,
} from './trial.js';

/** The cases of reading: the rows that a gateway finds, and their form. */
export const READING: Contract<GatewayUnderTest>['cases'] = [
  { name: 'finds by every operator what it means, nulls apart', check: compares },
  {
    name: 'compares text by its characters, and without regard to case by contains and starts_with alone',
    check: comparesText,
  },
  { name: 'keeps awkward texts, and finds them again', check: keepsAwkwardTexts },
  { name: 'orders with nulls last in either direction, and pages', check: orders },
  { name: 'reads the fields that are named', check: readsFields },
  { name: 'tells values without instances as it tells those of instances', check: tellsValues },
  { name: 'finds by related rows, and by there being none', check: followsRelations },
  {
    name: 'follows the links of a table between two entities from either side, and to no row of another tenant',
    check: followsLinks,
  },
  { name: 'aggregates exactly', check: aggregates },
];

async function compares(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [
    {
      title: 'a',
      pages: 1,
      price: '9.99',
      printedOn: '2026-01-31',
      soldAt: new Date('2026-01-01T00:00:00.001Z'),
      genre: 'novel',
    },
    {
      title: 'b',
      pages: 2,
      price: '10.00',
      printedOn: '2026-02-01',
      soldAt: new Date('2026-01-01T00:00:00.002Z'),
      isOut: true,
    },
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
    assert.deepEqual(
      [count, exists],
      [expected.length, expected.length > 0],
      JSON.stringify(where),
    );
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
    assert.deepEqual(
      await titles(trial, { where: compare('remark', operator, value) }),
      places.map(String),
      `${operator} ${value}`,
    );
}

async function keepsAwkwardTexts(trial: GatewayTrial): Promise<void> {
  const texts = AWKWARD_TEXTS.filter(
    (text) => !/[\0\p{Surrogate}]/u.test(text) && text.length <= 200,
  );
  await shelve(
    trial,
    texts.map((title) => ({ title })),
  );
  for (const title of texts)
    assert.deepEqual(await titles(trial, { where: eq('title', title) }), [title]);
}

async function orders(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [
    { title: 'a', pages: 2 },
    { title: 'b' },
    { title: 'c', pages: 1 },
    { title: 'd', pages: 2 },
  ]);
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
    assert.deepEqual(
      [
        session.valueOf(book, named ?? {}, 'title'),
        session.valueOf(book, named ?? {}, 'price') ?? null,
      ],
      ['a', null],
    );
    const [whole] = await session.find(book, query({}));
    const { remark, price, soldAt } = valuesOf(session, book, whole ?? {});
    assert.deepEqual([remark, price, soldAt], ['hidden', '1.00', new Date(0)]);
  });
}

async function tellsValues(trial: GatewayTrial): Promise<void> {
  await shelve(trial, [
    {
      title: 'a',
      pages: 1,
      price: '9.90',
      printedOn: '2026-01-31',
      soldAt: new Date('2026-01-01T00:00:00.001Z'),
      genre: 'novel',
      isOut: true,
    },
    { title: 'b', remark: 'hidden' },
    { title: 'c' },
  ]);
  await shelve(trial, [{ title: 'foreign' }], trial.otherTenant);
  await within(trial, async (session, { book }) => {
    const names = [...book.fields.keys()];
    const asked = query({
      where: related('author', EVERYTHING, false),
      order: [{ field: 'title', descending: true }],
      limit: 2,
      offset: 1,
    });
    const told = await session.values(book, asked, names);
    const rows = await session.find(book, asked);
    assert.deepEqual(
      told.map((values) => Object.fromEntries(Object.entries(values))),
      rows.map((row) =>
        Object.fromEntries(names.map((name) => [name, session.valueOf(book, row, name)])),
      ),
    );
    assert.deepEqual(
      told.map(({ title, remark }) => [title, remark]),
      [
        ['b', 'hidden'],
        ['a', null],
      ],
    );
    const [few] = await session.values(book, query({}), ['title']);
    assert.deepEqual(Object.entries(few ?? {}), [['title', 'a']]);
    assert.ok(few);
    few['title'] = 'the caller may do with it what it likes';
    await session.flush();
    assert.equal(await session.count(book, eq('title', 'a')), 1);
  });
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

/** Two authors, three books of theirs and their keys, in one tenant. */
async function shelfOf(
  trial: GatewayTrial,
  of: string,
): Promise<Readonly<Record<'a' | 'b' | 'c' | 'Ann' | 'Bob', unknown>>> {
  await write(trial, 'Ann', ['a', 'b'], of);
  await write(trial, 'Bob', ['c'], of);
  return within(
    trial,
    async (session, { book, author }) => {
      const [books, authors] = [
        await session.find(book, query({})),
        await session.find(author, query({})),
      ];
      const [a, b, c] = books.map((row) => session.valueOf(book, row, 'id'));
      const [Ann, Bob] = authors.map((row) => session.valueOf(author, row, 'id'));
      return { a, b, c, Ann, Bob };
    },
    of,
  );
}

async function followsLinks(trial: GatewayTrial): Promise<void> {
  const { link } = trial.store;
  const own = await shelfOf(trial, trial.tenant);
  const foreign = await shelfOf(trial, trial.otherTenant);
  const { a, b, c, Ann, Bob } = own;
  for (const [book, author] of [
    [a, Bob],
    [a, Ann],
    [b, Bob],
    [a, foreign.Ann],
    [foreign.a, Ann],
    [foreign.a, foreign.Bob],
  ] as const)
    await link(book, author);
  const links = (
    side: 'book' | 'author',
    keys: readonly unknown[],
    where: Condition = EVERYTHING,
    limit = 100,
  ): Promise<readonly unknown[]> =>
    within(trial, (session, models) =>
      session.links(models[side], side === 'book' ? 'readers' : 'favourites', {
        keys: keys.filter(isLinkKey),
        where,
        limit,
      }),
    );
  assert.deepEqual(await links('book', [a, b, c]), [
    [a, Ann],
    [a, Bob],
    [b, Bob],
  ]);
  assert.deepEqual(await links('author', [Ann, Bob]), [
    [Ann, a],
    [Bob, a],
    [Bob, b],
  ]);
  assert.deepEqual(await links('book', [a, b, c], eq('name', 'Bob')), [
    [a, Bob],
    [b, Bob],
  ]);
  assert.deepEqual(await links('book', [a, b, c], EVERYTHING, 1), [[a, Ann]]);
  assert.deepEqual(await links('book', [c]), []);
  assert.deepEqual(await links('book', [a], { kind: 'any', of: [] }), []);
  assert.deepEqual(await links('author', [Bob], related('author', eq('name', 'Ann'))), [
    [Bob, a],
    [Bob, b],
  ]);
  await filtersByLinks(trial, foreign.Ann);
}

async function filtersByLinks(trial: GatewayTrial, foreignAuthor: unknown): Promise<void> {
  assert.deepEqual(await titles(trial, { where: related('readers', eq('name', 'Bob')) }), [
    'a',
    'b',
  ]);
  assert.deepEqual(await titles(trial, { where: related('readers', eq('name', 'Bob'), false) }), [
    'c',
  ]);
  assert.deepEqual(
    await titles(trial, {
      where: related('readers', compare('id', 'in', [foreignAuthor].filter(isLinkKey))),
    }),
    [],
  );
}

function isLinkKey(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number';
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
      const value = await session.aggregate(book, EVERYTHING, {
        kind,
        field: fieldOf(book, name),
        limit: 100,
      });
      assert.deepEqual(value, expected, `${kind} of ${name}`);
    }
    const none = await session.aggregate(book, eq('title', 'none'), {
      kind: 'sum',
      field: fieldOf(book, 'price'),
      limit: 1,
    });
    assert.equal(none, null);
    const more = await session.aggregate(book, EVERYTHING, {
      kind: 'list',
      field: fieldOf(book, 'title'),
      limit: 1,
    });
    assert.deepEqual(more, ['a', 'b']);
  });
}
