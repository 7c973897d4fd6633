import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { JsonObject } from '@toolloop/core';
import { type Orm, OrmApp } from './orm-app.js';
import { FOREIGN_LINKS, SHELF_ENTITIES, SHELF_ROWS, SHELF_TOOLS } from './shelf.js';

interface Page {
  readonly rows: readonly JsonObject[];
  readonly count?: number;
}

/** What the application would be told at its start after a statement of the owner. */
async function findingsAfter(app: OrmApp, statement: string): Promise<string> {
  await app.sql(statement);
  const models = SHELF_ENTITIES.flatMap((entity) => app.gateway.describe(entity) ?? []);
  return (await app.gateway.findings(models))
    .map(({ at, problem }) => `${at}: ${problem}`)
    .join('\n');
}

/** What every kind of relation does in a tool, whatever the ORM. */
export function followsRelations(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: SHELF_ENTITIES,
      resources: SHELF_TOOLS,
      prepare: async (sql) => {
        for (const statement of [...SHELF_ROWS, ...FOREIGN_LINKS]) await sql(statement);
      },
    });
  });
  afterAll(() => app?.close());

  const rowsOf = async (tool: string, args: JsonObject): Promise<readonly JsonObject[]> =>
    (await app.read<Page>(`${tool}__read`, args)).rows;

  describe('a relation', () => {
    it.each<[kind: string, tool: string, relation: string, expected: readonly unknown[]]>([
      [
        'to one',
        'books',
        'writer',
        [{ id: 1, name: 'Ann acme' }, { id: 1, name: 'Ann acme' }, null],
      ],
      ['to many', 'writers', 'books', [[1, 2], [], []]],
      ['over a table of its own', 'books', 'labels', [[1, 2], [2], []]],
      ['over a table of its own, from the other side', 'labels', 'books', [[1], [1, 2], []]],
      ['over a table of its own to the same entity', 'books', 'like', [[2], [], [1]]],
      ['to the same entity', 'books', 'sequelOf', [null, expect.objectContaining({ id: 1 }), null]],
      ['to one that has the key', 'books', 'cover', [null, { id: 1, colour: 'red acme' }, null]],
      ['to one whose key it has', 'covers', 'book', [expect.objectContaining({ id: 2 }), null]],
      ['to an entity between two', 'books', 'loans', [[1, 2], [], []]],
    ])('%s is loaded with the rows of its tenant (%s, %s)', async (_, tool, relation, expected) => {
      const rows = await rowsOf(tool, { load: [relation], sort: [{ field: 'id' }] });
      const found = rows.map((row) => {
        const value = row[relation];
        return Array.isArray(value) ? value.map((one) => (one as JsonObject)['id']) : value;
      });
      expect(found).toEqual(expected);
      expect(JSON.stringify(rows)).not.toContain('globex');
    });

    it.each<
      [
        kind: string,
        tool: string,
        filter: JsonObject,
        ids: readonly number[],
        others: readonly number[],
      ]
    >([
      ['to one', 'books', { writer: { name: { eq: 'Ann acme' } } }, [1, 2], [3]],
      ['to many', 'writers', { books: { title: { starts_with: 'two' } } }, [1], [2, 3]],
      [
        'over a table of its own',
        'books',
        { labels: { word: { starts_with: 'war' } } },
        [1, 2],
        [3],
      ],
      [
        'over a table of its own, from the other side',
        'labels',
        { books: { title: { starts_with: 'one' } } },
        [1, 2],
        [3],
      ],
      [
        'over a table of its own to the same entity',
        'books',
        { like: { id: { eq: 1 } } },
        [3],
        [1, 2],
      ],
      [
        'over a table of its own to a row of another tenant',
        'books',
        { labels: { id: { eq: 4 } } },
        [],
        [1, 2, 3],
      ],
      ['to the same entity', 'books', { sequelOf: { id: { eq: 1 } } }, [2], [1, 3]],
      [
        'to one that has the key',
        'books',
        { cover: { colour: { starts_with: 'red' } } },
        [2],
        [1, 3],
      ],
      ['to one whose key it has', 'covers', { book: { id: { eq: 2 } } }, [1], [2]],
      ['to an entity between two', 'books', { loans: { days: { gt: 8 } } }, [1], [2, 3]],
      ['by the column of a relation', 'books', { writerId: { eq: 1 } }, [1, 2], [3]],
    ])(
      '%s is filtered by, and its negation has all other rows (%s, %j)',
      async (_, tool, filter, ids, others) => {
        const found = async (given: JsonObject): Promise<unknown> =>
          (await rowsOf(tool, { filter: given, sort: [{ field: 'id' }] })).map(({ id }) => id);
        expect(await found(filter)).toEqual(ids);
        expect(await found({ not: filter })).toEqual(others);
        expect(await app.read(`${tool}__read`, { filter, result_type: 'count' })).toEqual({
          count: ids.length,
        });
      },
    );

    it('has its column shown, and rows are sorted by it', async () => {
      const rows = await rowsOf('books', {
        sort: [{ field: 'writerId' }, { field: 'id', descending: true }],
      });
      expect(rows.map(({ id, writerId }) => [id, writerId])).toEqual([
        [2, 1],
        [1, 1],
        [3, null],
      ]);
    });

    it('is loaded for an empty page, and beside selected fields', async () => {
      expect(
        await rowsOf('books', { load: ['labels', 'like'], filter: { id: { eq: 99 } } }),
      ).toEqual([]);
      expect(
        await rowsOf('books', { load: ['labels'], select: ['title'], filter: { id: { eq: 2 } } }),
      ).toEqual([{ id: 2, title: 'two acme', labels: [{ id: 2, word: 'war acme' }] }]);
    });

    it('is written by the key of its row, and no column beside it is', async () => {
      const made = await app.read<JsonObject>('books__create', {
        input: { title: 'four', writer: 2, sequelOf: 3 },
      });
      expect(
        await rowsOf('books', { load: ['writer', 'sequelOf'], filter: { title: { eq: 'four' } } }),
      ).toMatchObject([{ writer: { id: 2 }, writerId: 2, sequelOf: { id: 3 } }]);
      expect(made).toMatchObject({ writerId: 2 });
      expect(
        await app.error('books__create', { input: { title: 'five', writerId: 5 } }),
      ).toMatchObject({ status: '400' });
      expect(
        await app.error('books__create', { input: { title: 'five', writer: 5 } }),
      ).toMatchObject({
        source: { pointer: '/input/writer' },
      });
      const { id } = made;
      await app.read('books__destroy', { id: id ?? null });
    });

    it('is gone with its row where a table of its own had it', async () => {
      const { id } = await app.read<{ readonly id: number }>('labels__create', {
        input: { word: 'new' },
      });
      await app.sql(`insert into books_labels (book_id, label_id) values (3, ${id})`);
      expect(await rowsOf('books', { load: ['labels'], filter: { id: { eq: 3 } } })).toMatchObject([
        { labels: [{ word: 'new' }] },
      ]);
      await app.read('labels__destroy', { id });
      expect(await rowsOf('books', { load: ['labels'], filter: { id: { eq: 3 } } })).toMatchObject([
        { labels: [] },
      ]);
    });
  });

  if (!orm.hasRowSecurity) return;

  describe('the start', () => {
    it.each([
      [
        'revoke all on books_labels from toolloop_test_orm',
        'grant select, insert, update, delete on books_labels to toolloop_test_orm',
        'the grant is missing',
      ],
      [
        'alter table books_labels disable row level security',
        'alter table books_labels enable row level security',
        'not enabled and forced',
      ],
      [
        'revoke all on labels from toolloop_test_orm',
        'grant select, insert, update, delete on labels to toolloop_test_orm',
        'the grant is missing',
      ],
    ])('is refused with the name of the table after "%s"', async (breaks, mends, problem) => {
      expect(await findingsAfter(app, breaks)).toMatch(
        new RegExp(`table "(?:books_)?labels".*${problem}`),
      );
      expect(await findingsAfter(app, mends)).toBe('');
    });
  });
}
