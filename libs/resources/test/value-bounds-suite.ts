import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import * as M from '@mikro-orm/decorators/legacy';
import type { JsonObject, JsonValue } from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';
import { type Orm, OrmApp } from './orm-app.js';

/** A row whose columns take less than JSON can say. */
@T.Entity('gauges')
@M.Entity({ tableName: 'gauges' })
class Gauge {
  @T.PrimaryColumn({ type: 'int' })
  @M.PrimaryKey({ type: 'integer', autoincrement: false })
  @Expose()
  id!: number;
  @T.Column({ type: 'varchar', length: 40 })
  @M.Property({ type: 'string', length: 40, hidden: true })
  tenant!: string;
  @T.Column({ type: 'smallint', nullable: true })
  @M.Property({ type: 'smallint', nullable: true })
  @Expose()
  small?: number | null;
  @T.Column({ type: 'int', nullable: true })
  @M.Property({ type: 'integer', nullable: true })
  @Expose()
  plain?: number | null;
  @T.Column({ type: 'bigint', nullable: true })
  @M.Property({ type: 'bigint', nullable: true })
  @Expose()
  @Type(() => String)
  wide?: string | bigint | null;
  @T.Column({ type: 'decimal', precision: 5, scale: 2, nullable: true })
  @M.Property({ type: 'decimal', precision: 5, scale: 2, nullable: true })
  @Expose()
  amount?: string | null;
  @T.Column({ type: 'uuid', nullable: true })
  @M.Property({ type: 'uuid', nullable: true, comment: 'The sensor.' })
  @Expose()
  token?: string | null;
  @T.ManyToOne(() => Gauge, { nullable: true })
  @T.JoinColumn({ name: 'next_id' })
  @M.ManyToOne({ entity: () => Gauge, nullable: true, fieldName: 'next_id' })
  @Expose()
  @Type(() => Gauge)
  next?: object | null;
}

@ToolResource(Gauge, { namespace: 'gauges', actions: ['read', 'create', 'update', 'destroy'] })
class GaugeTools {}

const ENDS: readonly (readonly [field: string, least: JsonValue, most: JsonValue])[] = [
  ['small', -32_768, 32_767],
  ['plain', -2_147_483_648, 2_147_483_647],
  ['wide', '-9223372036854775808', '9223372036854775807'],
];

const BEYOND: readonly (readonly [field: string, value: JsonValue, detail: string])[] = [
  ['small', 32_768, 'must be at most 32767'],
  ['small', -32_769, 'must be at least -32768'],
  ['plain', 2_147_483_648, 'must be at most 2147483647'],
  ['plain', -2_147_483_649, 'must be at least -2147483648'],
  ['next', 2_147_483_648, 'must be at most 2147483647'],
  ['wide', '9223372036854775808', 'must be a whole number from -9223372036854775808'],
];

const TOKEN = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';

/** Spellings of one UUID that PostgreSQL reads. */
const SPELLINGS = [
  TOKEN,
  TOKEN.toUpperCase(),
  TOKEN.replaceAll('-', ''),
  `{${TOKEN}}`,
  '{A0EE-BC99-9C0B-4EF8-BB6D-6BB9-BD38-0A11}',
  'a0eebc999c0b4ef8-bb6d6bb9bd380a11',
];

/** UUIDs of no version, or of none that is known. */
const OTHERS = [
  '00000000-0000-0000-0000-000000000000',
  'ffffffff-ffff-ffff-ffff-ffffffffffff',
  'a0eebc99-9c0b-0ef8-0b6d-6bb9bd380a11',
];

/** Texts that PostgreSQL refuses as UUIDs. */
const NONE = [
  '',
  ` ${TOKEN}`,
  `${TOKEN}\n`,
  `{${TOKEN}`,
  `${TOKEN}}`,
  `{{${TOKEN}}}`,
  `urn:uuid:${TOKEN}`,
  `${TOKEN}-`,
  `-${TOKEN}`,
  TOKEN.replace('-', '--'),
  TOKEN.replace('a0e', 'a0-e'),
  TOKEN.replace('a', 'g'),
  TOKEN.slice(1),
];

/** A value that a column cannot take is refused at its place, and any other is taken. */
export function boundsValues(orm: Orm): void {
  let app: OrmApp;
  beforeAll(async () => {
    app = await OrmApp.start({ orm, entities: [Gauge], resources: [GaugeTools] });
  });
  beforeEach(async () => {
    await app.sql('delete from gauges');
  });
  afterAll(() => app?.close());

  const create = (input: JsonObject): Promise<JsonObject> =>
    app.read<JsonObject>('gauges__create', { input: { id: 1, ...input } });
  const found = async (filter: JsonObject): Promise<readonly unknown[]> => {
    const page = await app.read<{ readonly rows: readonly JsonObject[] }>('gauges__read', {
      filter,
    });
    return page.rows.map(({ id }) => id);
  };

  describe('a whole number', () => {
    it.each(ENDS)('is written and found at both ends of %s', async (field, least, most) => {
      await create({ id: 1, [field]: least });
      await create({ id: 2, [field]: most });
      expect(await found({ [field]: { eq: least } })).toEqual([1]);
      expect(await found({ [field]: { gte: most } })).toEqual([2]);
    });

    it.each(BEYOND)('is refused at its place beyond %s (%j)', async (field, value, detail) => {
      await create({ id: 1 });
      const refused = {
        code: 'invalid_args',
        source: { pointer: `/input/${field}` },
        detail: expect.stringContaining(detail),
      };
      const input = { [field]: value };
      expect(await app.error('gauges__create', { input: { id: 2, ...input } })).toMatchObject(
        refused,
      );
      expect(await app.error('gauges__update', { id: 1, input })).toMatchObject(refused);
    });

    it.each<[filter: JsonObject, pointer: string]>([
      [{ small: { lt: 32_768 } }, '/small/lt'],
      [{ plain: { in: [1, 2_147_483_648] } }, '/plain/in/1'],
      [{ plain: { eq: '-2147483649' } }, '/plain/eq'],
      [{ not: { plain: { ne: 2_147_483_648 } } }, '/not/plain/ne'],
      [{ wide: { gt: '-9223372036854775809' } }, '/wide/gt'],
      [{ next: { plain: { gt: 2_147_483_648 } } }, '/next/plain/gt'],
    ])('is refused at its place in a filter (%j)', async (filter, pointer) => {
      expect(await app.error('gauges__read', { filter })).toMatchObject({
        code: 'invalid_args',
        source: { pointer: `/filter${pointer}` },
        detail: expect.stringMatching(/must be a whole number from -\d+ to \d+/),
      });
    });

    it('is refused where it names a row', async () => {
      const far = 2_147_483_648;
      const refused = { detail: expect.stringContaining('from -2147483648 to 2147483647') };
      expect(await app.error('gauges__read', { get_by: { id: far } })).toMatchObject(refused);
      expect(await app.error('gauges__destroy', { id: far })).toMatchObject({
        ...refused,
        source: { pointer: '/id' },
      });
    });
  });

  it('a number that the database alone refuses is told as such', async () => {
    const error = await app.error('gauges__create', { input: { id: 1, amount: '12345.6' } });
    expect(error).toMatchObject({
      status: '400',
      detail: expect.stringContaining('too large or too small for its column'),
      source: { pointer: orm.hasRowSecurity ? '/input' : '/input/amount' },
    });
  });

  describe('a UUID', () => {
    it.each(SPELLINGS)('is written and found by the spelling %s', async (spelling) => {
      await create({ token: spelling });
      for (const one of SPELLINGS) expect(await found({ token: { eq: one } })).toEqual([1]);
      expect(await app.sql('select token from gauges')).toEqual([{ token: TOKEN }]);
    });

    it.each(OTHERS)('is of any version (%s)', async (token) => {
      await create({ token });
      expect(await found({ token: { in: [token] } })).toEqual([1]);
    });

    it.each(NONE)('is not %j, which is refused at its place', async (token) => {
      const detail = expect.stringContaining('must be a UUID');
      expect(await app.error('gauges__read', { filter: { token: { eq: token } } })).toMatchObject({
        source: { pointer: '/filter/token/eq' },
        detail,
      });
      expect(await app.error('gauges__create', { input: { id: 1, token } })).toMatchObject({
        source: { pointer: '/input/token' },
        detail,
      });
    });
  });
}
