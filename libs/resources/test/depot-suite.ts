import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigurationError, type JsonObject } from '@toolloop/core';
import { DEPOT_ENTITIES, DEPOT_ROWS, DEPOT_TOOLS, DEPOT_TOOLS_WITHOUT_PARTS } from './depot.js';
import { type Orm, OrmApp } from './orm-app.js';

interface Page {
  readonly rows: readonly JsonObject[];
}

/**
 * The relations to rows that all tenants share, whose key has the tenant in it, and of a class that
 * has its table with others, whatever the ORM.
 */
export function followsSpecialRelations(
  orm: Orm,
  { isByParts }: { readonly isByParts: boolean },
): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({
      orm,
      entities: DEPOT_ENTITIES,
      resources: isByParts ? DEPOT_TOOLS : DEPOT_TOOLS_WITHOUT_PARTS,
      prepare: async (sql) => {
        for (const statement of DEPOT_ROWS) await sql(statement);
      },
    });
  });
  afterAll(() => app?.close());

  const rowsOf = async (
    tool: string,
    args: JsonObject,
    tenant?: string,
  ): Promise<readonly JsonObject[]> => (await app.read<Page>(`${tool}__read`, args, tenant)).rows;
  /**
   * The rows of a table that hold for the ORM: crates, and relations to them, have keys of several
   * columns.
   */
  const held = <Row extends readonly [string, string, string, unknown, ...unknown[]]>(
    rows: readonly Row[],
  ): readonly Row[] =>
    rows.filter(
      ([, tool, , relation]) =>
        isByParts || (tool !== 'crates' && !JSON.stringify(relation).includes('crates')),
    );

  describe('a relation', () => {
    it.each(
      held<
        [kind: string, tool: string, key: string, relation: string, expected: readonly unknown[]]
      >([
        [
          'to a row that is shared',
          'sites',
          'code',
          'country',
          [{ code: 'ch', name: 'Helvetia' }, null],
        ],
        [
          'to one whose key has the tenant',
          'crates',
          'number',
          'site',
          [{ code: 'a', size: 1 }, { code: 'a', size: 1 }, null],
        ],
        [
          'to many, by a key that has the tenant',
          'sites',
          'code',
          'crates',
          [[{ number: 1 }, { number: 2 }], []],
        ],
        [
          'over a table to rows that are shared',
          'crates',
          'number',
          'hazards',
          [
            [
              { id: 1, word: 'fire' },
              { id: 2, word: 'acid' },
            ],
            [{ id: 2, word: 'acid' }],
            [],
          ],
        ],
        [
          'to one of a class in a table of several',
          'trips',
          'id',
          'truck',
          [{ id: 1, plate: 'T acme', tons: 7 }, null, null, null],
        ],
      ]),
    )('%s is loaded (%s, %s)', async (_, tool, key, relation, expected) => {
      const rows = await rowsOf(tool, { load: [relation], sort: [{ field: key }] });
      expect(rows.map((row) => row[relation])).toEqual(expected);
    });

    it.each(
      held<
        [
          kind: string,
          tool: string,
          key: string,
          filter: JsonObject,
          found: readonly unknown[],
          others: readonly unknown[],
        ]
      >([
        [
          'to a row that is shared',
          'sites',
          'code',
          { country: { name: { eq: 'Helvetia' } } },
          ['a'],
          ['b'],
        ],
        [
          'to one whose key has the tenant',
          'crates',
          'number',
          { site: { size: { eq: 1 } } },
          [1, 2],
          [3],
        ],
        [
          'to one whose key has the tenant, of another tenant',
          'crates',
          'number',
          { site: { size: { eq: 11 } } },
          [],
          [1, 2, 3],
        ],
        [
          'to many, by a key that has the tenant',
          'sites',
          'code',
          { crates: { number: { eq: 2 } } },
          ['a'],
          ['b'],
        ],
        [
          'over a table to rows that are shared',
          'crates',
          'number',
          { hazards: { word: { eq: 'acid' } } },
          [1, 2],
          [3],
        ],
        [
          'to one of a class in a table of several',
          'trips',
          'id',
          { truck: { plate: { starts_with: 'T' } } },
          [1],
          [2, 3, 4],
        ],
      ]),
    )(
      '%s is filtered by, and its negation has all other rows (%s)',
      async (_, tool, key, filter, found, others) => {
        const keys = async (given: JsonObject): Promise<unknown> =>
          (await rowsOf(tool, { filter: given, sort: [{ field: key, descending: false }] })).map(
            (row) => row[key],
          );
        expect(await keys(filter)).toEqual(found);
        expect(await keys({ not: filter })).toEqual(others);
      },
    );

    it.each<[kind: string, tool: string, input: JsonObject, relation: string, expected: unknown]>([
      [
        'to a row that is shared',
        'sites',
        { code: 'n', size: 5, country: 'de' },
        'country',
        { code: 'de', name: 'Germania' },
      ],
      [
        'to one whose key has the tenant',
        'crates',
        { number: 9, site: 'b' },
        'site',
        { code: 'b', size: 2 },
      ],
      [
        'to one of a class in a table of several',
        'trips',
        { truck: 1 },
        'truck',
        { id: 1, plate: 'T acme', tons: 7 },
      ],
    ])('%s is written by its key (%s)', async (_, tool, input, relation, expected) => {
      const key = { sites: 'code', crates: 'number', trips: 'id' }[tool] ?? '';
      const made = await app.read<JsonObject>(`${tool}__create`, { input });
      const filter = { [key]: { eq: made[key] ?? null } };
      const load = isByParts || tool !== 'crates' ? [relation] : undefined;
      expect(await rowsOf(tool, { filter, ...(load && { load }) })).toMatchObject([
        load ? { [relation]: expected } : {},
      ]);
      expect(await rowsOf(tool, { filter }, 'globex')).toEqual([]);
      await app.read(`${tool}__destroy`, { [key]: made[key] ?? null });
      expect(await rowsOf(tool, { filter })).toEqual([]);
    });

    it.each<[kind: string, tool: string, input: JsonObject, pointer: string]>([
      ['that is not there', 'sites', { code: 'n', size: 5, country: 'xx' }, '/input/country'],
      [
        'that is not there, by a key that has the tenant',
        'crates',
        { number: 9, site: 'z' },
        '/input/site',
      ],
      ['of another tenant', 'trips', { truck: 3 }, '/input/truck'],
      ['of another class in the same table', 'trips', { truck: 2 }, '/input/truck'],
    ])('is not written to a row %s (%s)', async (_, tool, input, pointer) => {
      expect(await app.error(`${tool}__create`, { input })).toMatchObject({ source: { pointer } });
    });
  });

  describe('a class that has its table with others', () => {
    it('has its own rows alone, whatever is done', async () => {
      expect(await rowsOf('trucks', {})).toEqual([{ id: 1, plate: 'T acme', tons: 7 }]);
      expect(await rowsOf('vans', { sort: [{ field: 'plate' }] })).toEqual([
        { id: 2, plate: 'V acme', seats: 9 },
      ]);
      expect(await app.read('vans__read', { result_type: 'count' })).toEqual({ count: 1 });
      const aggregate = { kind: 'list', field: 'plate' };
      expect(
        JSON.stringify(
          await app.read('trucks__read', { result_type: { aggregate } }).catch(() => 'refused'),
        ),
      ).not.toContain('V acme');
      expect(
        await app.error('trucks__update', { id: 2, input: { plate: 'changed' } }),
      ).toMatchObject({
        status: '400',
        source: { pointer: '/id' },
      });
      expect(await app.error('trucks__destroy', { id: 2 })).toMatchObject({
        status: '400',
        source: { pointer: '/id' },
      });
    });

    it('is created, changed and removed as what it is', async () => {
      const { id } = await app.read<{ readonly id: number }>('trucks__create', {
        input: { plate: 'new', tons: 3 },
      });
      expect(await app.sql(`select kind, tenant from vehicles where id = ${id}`)).toEqual([
        { kind: 'truck', tenant: 'acme' },
      ]);
      await app.read('trucks__update', { id, input: { tons: 4 } });
      expect(await rowsOf('trucks', { filter: { tons: { eq: 4 } } })).toEqual([
        { id, plate: 'new', tons: 4 },
      ]);
      expect(await rowsOf('vans', { filter: { id: { eq: id } } })).toEqual([]);
      await app.read('trucks__destroy', { id });
      expect(await rowsOf('trucks', { filter: { id: { eq: id } } })).toEqual([]);
    });
  });

  if (isByParts) return;

  it('stops the start for a resource that follows a relation by a key of several columns', async () => {
    const starting = OrmApp.start({ orm, entities: DEPOT_ENTITIES, resources: DEPOT_TOOLS }).then(
      (one) => one.close(),
    );
    await expect(starting).rejects.toThrow(ConfigurationError);
    await expect(starting).rejects.toThrow(/"site"[^]*"hazards"|"crates"[^]*"site"/);
  });
}
