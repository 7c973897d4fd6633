import { MikroOrmModule } from '@mikro-orm/nestjs';
import type { Opt } from '@mikro-orm/core';
import { Entity, ManyToOne, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import { MikroORM, PostgreSqlDriver } from '@mikro-orm/postgresql';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { type JsonObject, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { Database, DurableModule, openDatabase } from '@toolloop/durable';
import { ResourceToolsModule, ToolResource } from '@toolloop/resources';
import { MikroOrmGateway, mikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { TypeOrmGateway } from '@toolloop/resources/typeorm';
import { ScriptedModel } from '@toolloop/testing';
import { Expose, Type } from 'class-transformer';
import { DataSource, EntitySchema } from 'typeorm';
import { inMemory } from '../../durable/test/databases.js';
import { textOf } from './shop.js';

/** A row that its writer names. */
@Entity({ tableName: 'categories' })
class Category {
  @PrimaryKey({ type: 'string', length: 40 }) @Expose() slug!: string;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 80 }) @Expose() title!: string;
  @Property({ type: 'bigint', nullable: true }) @Expose() big?: bigint | null;
  @Property({ type: 'float', nullable: true }) @Expose() ratio?: number | null;
  @Property({ type: 'double', nullable: true }) @Expose() weight?: number | null;
  @Property({ type: 'datetime', length: 3, nullable: true }) @Expose() at?: Date | null;
  @ManyToOne({ entity: () => Category, nullable: true })
  @Expose()
  @Type(() => Category)
  parent?: Category | null;
}

@ToolResource(Category, { namespace: 'categories', actions: { read: true, create: true } })
class CategoryTools {}
@ToolResource(Category, { namespace: 'many', actions: { create: { bulk: 5 } } })
class ManyTools {}

interface Page {
  readonly rows: readonly { readonly slug: string }[];
  readonly cursor?: string;
}

function many(...inputs: readonly (JsonObject | undefined)[]): JsonObject {
  return { inputs: inputs.filter((input) => input !== undefined) };
}

@Injectable()
class Tables implements OnModuleInit {
  constructor(
    private readonly orm: MikroORM,
    private readonly gateway: MikroOrmGateway,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.orm.schema.update();
    for (const statement of this.gateway.statements([Category]))
      await this.orm.em.fork().execute(statement);
  }
}

describe('rows that their writers name', () => {
  let app: TestingModule;
  let loop: ToolLoopService;
  beforeAll(async () => {
    app = await Test.createTestingModule({
      imports: [
        DurableModule.forRoot(await inMemory()),
        MikroOrmModule.forRootAsync({
          driver: PostgreSqlDriver,
          inject: [Database],
          useFactory: ({ connection }: Database) => ({
            dbName: 'blog',
            ensureDatabase: false,
            driverOptions: connection,
            entities: [Category],
            schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
          }),
        }),
        ResourceToolsModule.forRoot({
          gateway: mikroOrmGateway({ tenancy: { role: 'toolloop_test_natural' } }),
        }),
        ResourceToolsModule.forFeature([CategoryTools, ManyTools]),
        ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: { allow: ['*'] } }),
      ],
      providers: [Tables],
    }).compile();
    app.useLogger(false);
    await app.init();
    loop = app.get(ToolLoopService);
  });
  afterAll(() => app?.close());

  const call = (tool: string, args: JsonObject) =>
    loop.call({ tool, args, argsOrigin: 'actor', actor: { id: 'ada' }, tenant: 'acme' });
  const sql = <Row>(statement: string): Promise<Row[]> =>
    app.get(MikroORM).em.fork().execute<Row[]>(statement);

  const errorOf = async (tool: string, args: JsonObject): Promise<unknown> => {
    const { record, content } = await call(tool, args);
    if (record.status === 'succeeded') return 'it succeeded';
    return (JSON.parse(textOf(content)) as { readonly errors: readonly unknown[] }).errors[0];
  };
  const stored = (): Promise<object[]> =>
    sql('select slug, title, parent_slug from categories order by slug');
  beforeEach(async () => {
    await sql('delete from categories');
    await sql(`insert into categories (slug, tenant, title) values ('a', 'acme', 'first')`);
  });

  it('are not created under a key that is taken, also where the row of that key was read for a relation', async () => {
    const before = await stored();
    const taken = { status: '400', source: { pointer: '/input/slug' } };
    expect(
      await errorOf('categories__create', { input: { slug: 'a', title: 'second', parent: 'a' } }),
    ).toMatchObject(taken);
    expect(
      await errorOf('categories__create', { input: { slug: 'a', title: 'second' } }),
    ).toMatchObject({
      detail: 'There is another row with this value.',
    });
    expect(await stored()).toEqual(before);
  });

  it('are all or none in one call, also where two have one key', async () => {
    const before = await stored();
    const [b, other, c]: readonly JsonObject[] = [
      { slug: 'b', title: 'one' },
      { slug: 'b', title: 'two' },
      { slug: 'c', title: 'three', parent: 'a' },
    ];
    const refused = { status: '400', source: { pointer: '/inputs' } };
    expect(await errorOf('many__create', many(b, other))).toMatchObject(refused);
    expect(await errorOf('many__create', many(c, { slug: 'a', title: 'two' }))).toMatchObject(
      refused,
    );
    expect(await stored()).toEqual(before);
    expect((await call('many__create', many(b, c))).record.status).toBe('succeeded');
  });

  it.each([
    ['big', ['n1', 'n2', 'n3', 'n4', 'n5']],
    ['weight', ['n5', 'n3', 'n4', 'n1', 'n2']],
  ])('are each on one page by %s, of which JSON has no numbers', async (field, expected) => {
    await sql(`insert into categories (slug, tenant, title, big, weight) values
      ('n1', 'acme', 'x', -9007199254740995, 'Infinity'), ('n2', 'acme', 'x', 9007199254740993, 'NaN'), ('n3', 'acme', 'x', 9007199254740994, 5),
      ('n4', 'acme', 'x', 9007199254740995, 6), ('n5', 'acme', 'x', 9223372036854775807, '-Infinity')`);
    const found: unknown[] = [];
    let cursor: string | undefined;
    do {
      const args = {
        sort: [{ field }],
        limit: 1,
        select: ['slug'],
        filter: { title: { eq: 'x' } },
        ...(cursor !== undefined && { cursor }),
      };
      const page = JSON.parse(textOf((await call('categories__read', args)).content)) as Page;
      found.push(...page.rows.map(({ slug }) => slug));
      cursor = page.cursor;
    } while (cursor !== undefined && found.length < 9);
    expect(found).toEqual(expected);
  });

  it('have no cursor in an order of single precision, whose numbers are read as others', async () => {
    await sql(
      `insert into categories (slug, tenant, title, ratio) values ('n1', 'acme', 'x', 0.1), ('n2', 'acme', 'x', 0.2)`,
    );
    const { content } = await call('categories__read', {
      sort: [{ field: 'ratio' }],
      limit: 1,
      select: ['slug'],
    });
    expect(JSON.parse(textOf(content))).toEqual({ rows: [{ slug: 'n1' }] });
  });

  it('are read by no value that their columns cannot hold, and the model is told so', async () => {
    const refused = {
      status: '400',
      detail: 'The value breaks a rule of the data.',
      source: { pointer: '/filter' },
    };
    expect(
      await errorOf('categories__read', { filter: { at: { eq: '0000-01-01T00:00:00Z' } } }),
    ).toMatchObject(refused);
  });
});

it('sees the numbers of single precision as TypeORM has them', async () => {
  class Measure {
    id = 0;
  }
  const schema = new EntitySchema({
    name: 'Measure',
    target: Measure,
    columns: {
      id: { type: 'int', primary: true },
      one: { type: 'real' },
      two: { type: 'double precision' },
    },
  });
  const database = await openDatabase(await inMemory());
  const source = new DataSource({
    type: 'postgres',
    installExtensions: false,
    extra: database.connection,
    entities: [schema],
  });
  await source.initialize();
  const { fields } =
    new TypeOrmGateway(source, { tenancy: { role: 'none' } }).describe(Measure) ?? {};
  await source.destroy();
  await database.close();
  expect(['one', 'two'].map((name) => fields?.get(name)?.imprecise ?? false)).toEqual([
    true,
    false,
  ]);
});
