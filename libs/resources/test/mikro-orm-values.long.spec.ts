import { type Opt, type Platform, Type as ColumnType } from '@mikro-orm/core';
import {
  Embeddable,
  Embedded,
  Entity,
  ManyToOne,
  OnLoad,
  PrimaryKey,
  Property,
} from '@mikro-orm/decorators/legacy';
import { MikroORM } from '@mikro-orm/postgresql';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import { openDatabase } from '@toolloop/durable';
import type { EntityModel, ResourceSession } from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { inMemory } from '../../durable/test/databases.js';

/** A text that is stored the other way round. */
class Reversed extends ColumnType<string, string> {
  override convertToDatabaseValue(value: string): string {
    return value.split('').toReversed().join('');
  }

  override convertToJSValue(value: string, _platform: Platform): string {
    return value.split('').toReversed().join('');
  }

  override getColumnType(): string {
    return 'varchar(40)';
  }
}

@Embeddable()
class Address {
  @Property({ type: 'string', length: 40 }) town!: string;
}

@Entity({ tableName: 'plain' })
class Plain {
  @PrimaryKey({ type: 'bigint', autoincrement: true }) id!: bigint;
  @Property({ type: 'string', length: 40 }) tenant!: Opt<string>;
  @Property({ type: Reversed, nullable: true }) reversed?: string | null;
  @Property({ type: 'json', nullable: true }) data?: object | null;
  @Property({ type: 'array', nullable: true }) tags?: string[] | null;
  @Property({ type: 'datetime', nullable: true }) at?: Date | null;
  @Property({ type: 'double', nullable: true }) weight?: number | null;
  @Property({ type: 'text', lazy: true, nullable: true }) story?: string | null;
}

/** Each has a value that no column has. */
@Entity({ tableName: 'loaded' })
class Loaded {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 40 }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 40 }) name!: string;

  @OnLoad()
  greet(): void {
    this.name = `dear ${this.name}`;
  }
}

@Entity({ tableName: 'constructed', forceConstructor: true })
class Constructed {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 40 }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 40 }) name: string;
  @Property({ type: 'string', length: 40, nullable: true }) other?: string | null;

  constructor(name: string) {
    this.name = name.toUpperCase();
  }
}

@Entity({ tableName: 'accessed' })
class Accessed {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 40 }) tenant!: Opt<string>;
  private kept!: string;

  @Property({ type: 'string', length: 40, accessor: 'kept' as never })
  get name(): string {
    return `dear ${this.kept}`;
  }

  set name(name: string) {
    this.kept = name;
  }
}

@Entity({ tableName: 'housed' })
class Housed {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 40 }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 40 }) name!: string;
  @Embedded({ entity: () => Address }) address!: Address;
  @ManyToOne({ entity: () => Loaded, nullable: true }) friend?: Loaded | null;
}

const ENTITIES: readonly Type[] = [Plain, Loaded, Constructed, Accessed, Housed];

describe('the values of MikroORM without instances', () => {
  let gateway: MikroOrmGateway;
  let orm: MikroORM;
  let close: () => Promise<void>;
  const statements: string[] = [];
  beforeAll(async () => {
    const database = await openDatabase(await inMemory());
    orm = await MikroORM.init({
      dbName: 'values',
      driverOptions: database.connection,
      entities: [...ENTITIES],
      schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
      debug: ['query'],
      logger: (message) => void statements.push(message),
    });
    await orm.schema.update();
    gateway = new MikroOrmGateway(orm, { tenancy: { role: 'toolloop_test_values' } });
    const em = orm.em.fork();
    for (const statement of gateway.statements(ENTITIES)) await em.execute(statement);
    for (const tenant of ['acme', 'globex']) {
      const row = (values: object): never => ({ tenant, ...values }) as never;
      em.create(
        Plain,
        row({
          reversed: 'abc',
          data: { a: [1, { b: null }] },
          tags: ['x', 'y'],
          at: new Date(5),
          weight: 0.1,
          story: 'long',
        }),
      );
      em.create(Plain, row({}));
      const loaded = em.create(Loaded, row({ name: 'Ann' }));
      em.create(Constructed, row({ name: 'ann', other: 'x' }));
      em.create(Accessed, row({ name: 'Ann' }));
      em.create(Housed, row({ name: 'Ann', address: { town: 'Bath' }, friend: loaded }));
    }
    await em.flush();
    close = async () => {
      await orm.close();
      await database.close();
    };
  });
  afterAll(() => close?.());

  const asked = {
    where: { kind: 'all', of: [] },
    order: [{ field: 'id', descending: false }],
    limit: 9,
    offset: 0,
  } as const;
  const modelOf = (entity: Type): EntityModel => gateway.describe(entity) as EntityModel;
  const within = <Result>(work: (session: ResourceSession) => Promise<Result>): Promise<Result> =>
    gateway.read({ actor: { id: 'ada' }, tenant: 'acme' }, work);
  /** The values by instances, each found in a transaction of its own. */
  const byInstances = (model: EntityModel, names: readonly string[]): Promise<readonly object[]> =>
    within(async (session) => {
      const rows = await session.find(model, { ...asked, fields: names });
      return rows.map((row) =>
        Object.fromEntries(names.map((name) => [name, session.valueOf(model, row, name)])),
      );
    });

  const first = (entity: Type, names: readonly string[]): Promise<object | undefined> =>
    within(async (session) => (await session.values(modelOf(entity), asked, names))[0]);

  it.each(ENTITIES.map((entity) => [entity.name, entity] as const))(
    'tells of a %s what an instance tells',
    async (_, entity) => {
      const model = modelOf(entity);
      const names = [...model.fields.keys()];
      const told = await within((session) => session.values(model, asked, names));
      expect(told.length).toBeGreaterThan(0);
      expect(told.map((values) => Object.assign({}, values))).toEqual(
        await byInstances(model, names),
      );
    },
  );

  it('tells what a type, a hook, a constructor and an accessor make of a column', async () => {
    expect({
      ...(await first(Plain, ['id', 'reversed', 'data', 'tags', 'at', 'weight', 'story'])),
    }).toEqual({
      id: 1n,
      reversed: 'abc',
      data: { a: [1, { b: null }] },
      tags: ['x', 'y'],
      at: new Date(5),
      weight: 0.1,
      story: 'long',
    });
    expect(await first(Loaded, ['name'])).toEqual({ name: 'dear Ann' });
    expect(await first(Constructed, ['name'])).toEqual({ name: 'ANN' });
    expect(await first(Accessed, ['name'])).toEqual({ name: 'dear Ann' });
    expect(await first(Housed, ['address'])).toMatchObject({ address: { town: 'Bath' } });
  });

  it('asks for the columns of the fields alone, in the tenant, with the filters of the application', async () => {
    orm.em.addFilter({ name: 'none', cond: { id: { $lt: 0 } } as never, entity: [Plain] as never });
    statements.length = 0;
    const told = await within((session) => session.values(modelOf(Plain), asked, ['id', 'weight']));
    orm.em.addFilter({ name: 'none', cond: {}, entity: [Plain] as never });
    expect(told).toEqual([]);
    const select = statements.find((statement) => statement.includes('from "plain"'));
    expect(select).toContain('select "e"."id", "e"."weight" from');
    expect(select).toContain('where "e"."tenant" = ? and "e"."id" < ?');
  });
});
