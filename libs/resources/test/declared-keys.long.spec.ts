import { afterAll, expect, it, jest } from '@jest/globals';
import type { Opt } from '@mikro-orm/core';
import { Entity, ManyToOne, PrimaryKey, Property, Unique } from '@mikro-orm/decorators/legacy';
import { Logger } from '@nestjs/common';
import { ToolCatalog } from '@toolloop/core';
import { openDatabase } from '@toolloop/durable';
import { ToolResource } from '@toolloop/resources';
import { TypeOrmGateway } from '@toolloop/resources/typeorm';
import { Expose, Type } from 'class-transformer';
import { DataSource, EntitySchema } from 'typeorm';
import { inMemory } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { Customer, Order, Shop } from './shop.js';

/** A row that two of its own fields identify. */
@Entity({ tableName: 'shelves' })
class Shelf {
  @PrimaryKey({ type: 'string', length: 20 }) @Expose() hall!: string;
  @PrimaryKey({ type: 'integer' }) @Expose() place!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: Opt<string>;
}

@Entity({ tableName: 'boxes' })
@Unique({ name: 'boxes_seal', properties: ['seal'] })
@Unique({ properties: ['tenant', 'number'] })
class Box {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 20, unique: true }) @Expose() code!: string;
  @Property({ type: 'string', length: 20 }) @Expose() seal!: string;
  @Property({ type: 'string', length: 20 }) @Expose() number!: string;
  @ManyToOne({ entity: () => Shelf, nullable: true })
  @Expose()
  @Type(() => Shelf)
  shelf?: Shelf | null;
}

@ToolResource(Shelf, { namespace: 'shelves', actions: { read: true, update: true } })
class ShelfTools {}
@ToolResource(Shelf, { namespace: 'shelves', actions: ['read'] })
class ReadShelves {}
@ToolResource(Box, { namespace: 'boxes', actions: { read: true, create: true } })
class BoxTools {}
@ToolResource(Box, { namespace: 'boxes', actions: { read: { relations: [] }, create: true } })
class LooseBoxes {}

const storing = mikroOrm(inMemory);
const entities = [Customer, Order, Shelf, Box];
const shops: Shop[] = [];
afterAll(async () => {
  for (const shop of shops) await shop.close();
});

async function start(...resources: readonly (new () => object)[]): Promise<Shop> {
  const shop = await Shop.start({ storing, entities, resources });
  shops.push(shop);
  return shop;
}

it('does not start where a relation or an identity needs a key of one field and there is none', async () => {
  const starting = start(ShelfTools, BoxTools);
  await expect(starting).rejects.toThrow(
    /ShelfTools update: Its entity has no key of one field beside the tenant[^]*BoxTools read: It follows "shelf", whose rows MikroORM refers to by several columns[^]*relations: \[…\]/,
  );
});

it('offers no cursor where rows have no key of one field', async () => {
  const shop = await start(ReadShelves);
  const properties = shop.module.get(ToolCatalog).find('shelves__read')?.spec.inputSchema?.[
    'properties'
  ];
  expect(Object.keys(properties as object)).toEqual(expect.arrayContaining(['filter', 'offset']));
  expect(properties).not.toHaveProperty('cursor');
});

it('warns of each unique key of a model’s that holds over all tenants', async () => {
  const warned = jest.spyOn(Logger.prototype, 'warn');
  await start(LooseBoxes);
  const told = warned.mock.calls
    .map(([text]) => String(text))
    .filter((text) => text.startsWith('Box:'));
  warned.mockRestore();
  expect(told).toEqual([
    expect.stringContaining('its key "code" is unique over all tenants'),
    expect.stringContaining('its key "boxes_seal" is unique over all tenants'),
  ]);
});

it('finds those of TypeORM as well, which has them as indexes on MariaDB', async () => {
  class Crate {
    id = 0;
  }
  const schema = new EntitySchema({
    name: 'Crate',
    target: Crate,
    columns: {
      id: { type: 'int', primary: true },
      tenant: { type: 'varchar' },
      code: { type: 'varchar' },
      number: { type: 'varchar' },
    } as never,
    uniques: [{ columns: ['tenant', 'number'] as never }],
    indices: [{ name: 'crates_code', columns: ['code'] as never, unique: true }],
  });
  const database = await openDatabase(await inMemory());
  const source = new DataSource({
    type: 'postgres',
    installExtensions: false,
    extra: database.connection,
    entities: [schema],
  });
  await source.initialize();
  const { keysOfAllTenants, uniqueKeys } =
    new TypeOrmGateway(source, { tenancy: { role: 'none' } }).describe(Crate) ?? {};
  await source.destroy();
  await database.close();
  expect(uniqueKeys).toEqual(
    new Map([
      ['number', ['number']],
      ['crates_code', ['code']],
    ]),
  );
  expect(keysOfAllTenants).toEqual(['crates_code']);
});
