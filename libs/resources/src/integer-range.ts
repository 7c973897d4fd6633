/** The whole numbers that a column takes. */
export interface IntegerRange {
  readonly least: bigint;
  readonly most: bigint;
}

/** The databases whose integer types are known by their names. */
export type IntegerDialect = 'postgres' | 'mysql';

/** The bits of the types of integers that have one width in each version of a database. */
const BITS: Readonly<Record<IntegerDialect, ReadonlyMap<string, number>>> = {
  postgres: new Map([
    ...widths(16, 'smallint int2 smallserial serial2'),
    ...widths(32, 'integer int int4 serial serial4'),
    ...widths(64, 'bigint int8 bigserial serial8'),
  ]),
  mysql: new Map([
    ...widths(8, 'tinyint int1'),
    ...widths(16, 'smallint int2'),
    ...widths(24, 'mediumint middleint int3'),
    ...widths(32, 'integer int int4'),
    ...widths(64, 'bigint int8'),
  ]),
};

function widths(bits: number, names: string): readonly (readonly [string, number])[] {
  return names.split(' ').map((name) => [name, bits] as const);
}

/** A type with the digits that are shown of it, and with its sign. */
const TYPE = /^(\w+)(?:\s*\(\d+\))?((?:\s+(?:unsigned|zerofill|signed))*)$/i;

/**
 * Finds the numbers that a column takes by its type, such as `int unsigned`. Undefined for a type
 * that does not say so everywhere: an integer of SQLite, a domain, a type of another database.
 */
export function findRange(type: string, dialect: IntegerDialect): IntegerRange | undefined {
  const [, name = '', sign = ''] = TYPE.exec(type.trim()) ?? [];
  const bits = BITS[dialect].get(name.toLowerCase());
  if (bits === undefined || (dialect === 'postgres' && sign !== '')) return undefined;
  return /unsigned|zerofill/i.test(sign)
    ? { least: 0n, most: 2n ** BigInt(bits) - 1n }
    : { least: -(2n ** BigInt(bits - 1)), most: 2n ** BigInt(bits - 1) - 1n };
}

/** The numbers of a column whose type says no range: those of the widest signed type. */
export const WIDEST_SIGNED: IntegerRange = { least: -(2n ** 63n), most: 2n ** 63n - 1n };

/** The numbers that some column can have. */
export const WIDEST: IntegerRange = { least: -(2n ** 63n), most: 2n ** 64n - 1n };

export function isWithin(number: bigint, { least, most }: IntegerRange): boolean {
  return least <= number && number <= most;
}
