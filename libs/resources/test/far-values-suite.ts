import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as M from '@mikro-orm/decorators/legacy';
import type { JsonObject } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';
import { type Orm, OrmApp } from './orm-app.js';

/**
 * A row whose numbers are larger than JSON's numbers can say, and whose moments may be without an
 * end.
 */
@T.Entity('tracks')
@M.Entity({ tableName: 'tracks' })
@M.Unique({ name: 'tracks_number', properties: ['tenant', 'number'] })
@T.Unique('tracks_number', ['tenant', 'number'])
export class Track {
  @T.PrimaryColumn({ type: 'bigint' })
  @M.PrimaryKey({ type: 'bigint', autoincrement: false })
  @Expose()
  @Type(() => String)
  id!: bigint;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'bigint' })
  @M.Property({ type: 'bigint' })
  @Expose()
  @Type(() => String)
  number!: bigint;
  @T.Column({ type: 'timestamptz', precision: 3, nullable: true })
  @M.Property({ type: 'datetime', length: 3, nullable: true })
  @Expose()
  @Type(() => Object)
  endsAt?: Date | null;
  @T.Column({ name: 'closes_at', type: 'timestamptz', precision: 3, nullable: true })
  @M.Property({ type: 'datetime', length: 3, nullable: true, fieldName: 'closes_at' })
  @Expose()
  @Type(() => Date)
  closesAt?: Date | null;
  @T.Column({ type: 'date', nullable: true })
  @M.Property({ type: 'date', nullable: true })
  @Expose()
  endsOn?: string | null;
  @T.ManyToOne(() => Track, { nullable: true })
  @T.JoinColumn({ name: 'after_id' })
  @M.ManyToOne({ entity: () => Track, nullable: true, fieldName: 'after_id' })
  @Expose()
  @Type(() => Track)
  after?: Track | null;
}

@ToolResource(Track, { namespace: 'tracks', actions: ['read', 'create', 'update', 'destroy'] })
class TrackTools {}

interface Page {
  readonly rows: readonly (JsonObject & { readonly id: string | number })[];
  readonly cursor?: string;
}

const FAR = '9007199254740993';
const NEXT = '9007199254740994';
const LAST = '9223372036854775807';

/** The ids of all rows in an order, one a page. */
async function pagesOf(
  app: OrmApp,
  field: string,
  descending: boolean,
): Promise<readonly string[]> {
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await app.read<Page>('tracks__read', {
      sort: [{ field, descending }],
      limit: 1,
      ...(cursor !== undefined && { cursor }),
    });
    found.push(...page.rows.map(({ id }) => String(id)));
    cursor = page.cursor;
  } while (cursor !== undefined && found.length < 9);
  return found;
}

/** What a tool does with numbers beyond 2^53, and with moments that come after all others. */
export function takesFarValues(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: [Track],
      resources: [TrackTools],
      prepare: async (sql) => {
        const columns = await sql<{ readonly name: string }>(
          `select column_name as name from information_schema.columns where table_name = 'tracks'`,
        );
        const at = columns.find(({ name }) => /ends_?at/i.test(name))?.name;
        const on = columns.find(({ name }) => /ends_?on/i.test(name))?.name;
        await sql(`insert into tracks (id, tenant, number, "${at}", "${on}", closes_at, after_id) values
          (1, 'acme', 1, '2026-01-01T00:00:00Z', '2026-01-01', '2026-01-01T00:00:00Z', null), (${FAR}, 'acme', ${FAR}, 'infinity', 'infinity', 'infinity', null),
          (${NEXT}, 'acme', ${NEXT}, '-infinity', '-infinity', '-infinity', ${FAR}), (${LAST}, 'acme', ${LAST}, null, null, null, ${NEXT})`);
      },
    });
  });
  afterAll(() => app?.close());
  const idsOf = async (args: JsonObject): Promise<readonly unknown[]> =>
    (await app.read<Page>('tracks__read', args)).rows.map(({ id }) => String(id));

  describe('a number beyond 2^53', () => {
    it.each<[string, JsonObject, readonly string[]]>([
      ['a key', { get_by: { id: FAR } }, [FAR]],
      ['a small key', { get_by: { id: 1 } }, ['1']],
      ['a small key as a text', { get_by: { id: '1' } }, ['1']],
      ['a unique key', { get_by: { number: NEXT } }, [NEXT]],
      ['the largest', { get_by: { number: LAST } }, [LAST]],
      ['eq', { filter: { number: { eq: FAR } } }, [FAR]],
      ['ne', { filter: { number: { ne: FAR } }, sort: [{ field: 'id' }] }, ['1', NEXT, LAST]],
      [
        'in',
        { filter: { id: { in: [1, NEXT, LAST] } }, sort: [{ field: 'id' }] },
        ['1', NEXT, LAST],
      ],
      ['gt', { filter: { number: { gt: FAR } }, sort: [{ field: 'id' }] }, [NEXT, LAST]],
      ['lte', { filter: { number: { lte: FAR } }, sort: [{ field: 'id' }] }, ['1', FAR]],
      ['a relation', { filter: { after: { id: { eq: FAR } } } }, [NEXT]],
    ])('finds its row alone by %s', async (_, args, ids) => {
      expect(await idsOf(args)).toEqual(ids);
    });

    it('is shown with each digit, and so are the rows that it leads to', async () => {
      expect(
        await app.read('tracks__read', { get_by: { id: LAST }, load: ['after'] }),
      ).toMatchObject({
        rows: [{ id: LAST, number: LAST, after: { id: NEXT } }],
      });
    });

    it('is refused as a number of JSON, which has lost its last digits', async () => {
      const asked: readonly JsonObject[] = [
        { get_by: { id: Number(FAR) + 1 } },
        { filter: { number: { eq: Number(LAST) } } },
      ];
      for (const args of asked)
        expect(await app.error('tracks__read', args)).toMatchObject({
          status: '400',
          detail: expect.stringContaining('as a text'),
        });
    });

    it.each(['9223372036854775808', '1e3', '0x10', '1.5', '', ' 1', '١'])(
      'is refused where it is none, or larger than its column (%j)',
      async (id) => {
        expect(await app.error('tracks__read', { get_by: { id } })).toMatchObject({
          status: '400',
        });
        expect(await app.error('tracks__create', { input: { id, number: 5 } })).toMatchObject({
          status: '400',
        });
      },
    );

    it('is written, named and related to', async () => {
      const id = '9007199254740995';
      expect(
        await app.read('tracks__create', { input: { id, number: id, after: 1 } }),
      ).toMatchObject({ id, number: id });
      expect(
        await app.read('tracks__update', {
          id,
          input: { number: '9007199254740997', after: LAST },
        }),
      ).toMatchObject({
        number: '9007199254740997',
      });
      expect(await idsOf({ filter: { after: { id: { eq: LAST } } } })).toEqual([id]);
      await app.read('tracks__destroy', { id });
      expect(await idsOf({ get_by: { id } })).toEqual([]);
    });
  });

  describe('a moment without an end', () => {
    it.each(['endsAt', 'endsOn', 'closesAt'])(
      'has its place in an order of pages (%s)',
      async (field) => {
        expect(await pagesOf(app, field, false)).toEqual([NEXT, '1', FAR, LAST]);
        expect(await pagesOf(app, field, true)).toEqual([FAR, '1', NEXT, LAST]);
      },
    );

    it('is shown as the word that the database has for it, and as null where a date is declared', async () => {
      const page = await app.read<Page>('tracks__read', { sort: [{ field: 'id' }] });
      const shown = page.rows.map(({ endsAt, endsOn, closesAt }) => [endsAt, endsOn, closesAt]);
      expect(shown).toEqual([
        ['2026-01-01T00:00:00.000Z', '2026-01-01', '2026-01-01T00:00:00.000Z'],
        ['infinity', 'infinity', null],
        ['-infinity', '-infinity', null],
        [null, null, null],
      ]);
    });
  });
}
