import { describe, expect, it } from '@jest/globals';
import { UniqueConstraintViolationException } from '@mikro-orm/core';
import { findRange, type IntegerDialect } from '../src/integer-range.js';
import { toWriteError } from '../src/mikro-orm/to-write-error.js';
import { ResourceWriteError } from '../src/resource-write-error.js';

describe('the range of a column', () => {
  it.each<[dialect: IntegerDialect, type: string, least: bigint, most: bigint]>([
    ['postgres', 'smallint', -32_768n, 32_767n],
    ['postgres', 'int2', -32_768n, 32_767n],
    ['postgres', 'INTEGER', -2_147_483_648n, 2_147_483_647n],
    ['postgres', 'serial', -2_147_483_648n, 2_147_483_647n],
    ['postgres', 'bigserial', -(2n ** 63n), 2n ** 63n - 1n],
    ['mysql', 'tinyint', -128n, 127n],
    ['mysql', 'tinyint(3) unsigned', 0n, 255n],
    ['mysql', 'smallint unsigned', 0n, 65_535n],
    ['mysql', 'mediumint', -8_388_608n, 8_388_607n],
    ['mysql', 'mediumint(8) unsigned', 0n, 16_777_215n],
    ['mysql', 'int(11)', -2_147_483_648n, 2_147_483_647n],
    ['mysql', 'int(10) unsigned zerofill', 0n, 4_294_967_295n],
    ['mysql', 'bigint unsigned', 0n, 2n ** 64n - 1n],
  ])('is found by its type in %s (%s)', (dialect, type, least, most) => {
    expect(findRange(type, dialect)).toEqual({ least, most });
  });

  it.each<[dialect: IntegerDialect, type: string]>([
    ['postgres', 'tinyint'],
    ['postgres', 'positive_int'],
    ['postgres', 'int[]'],
    ['postgres', 'int unsigned'],
    ['postgres', 'numeric(5,2)'],
    ['postgres', 'oid'],
    ['postgres', ''],
    ['mysql', 'serial'],
    ['mysql', 'decimal(5,2)'],
    ['mysql', 'int generated always as (1)'],
  ])('is unknown in %s for the type "%s"', (dialect, type) => {
    expect(findRange(type, dialect)).toBeUndefined();
  });
});

describe('an error of MariaDB with MikroORM', () => {
  it.each([
    [1264, "Out of range value for column 'pieces' at row 1", 'range', 'pieces'],
    [1406, "Data too long for column 'note' at row 1", 'check', 'note'],
  ] as const)('names the column by the number %d', (errno, sqlMessage, reason, subject) => {
    const error = Object.assign(new Error(`insert into a values ('column 'no'') - ${sqlMessage}`), {
      code: 'ER_OF_VALUE',
      errno,
      sqlMessage,
    });
    const told = toWriteError(error);
    expect(told).toBeInstanceOf(ResourceWriteError);
    expect(told).toMatchObject({ reason, subject });
  });

  it('names a unique key as before', () => {
    const error = new UniqueConstraintViolationException(new Error('x'));
    expect(toWriteError(error)).toMatchObject({ reason: 'unique' });
  });
});
