import { type Collection, MikroORM, type Opt } from '@mikro-orm/core';
import {
  Entity,
  Enum,
  ManyToMany,
  ManyToOne,
  OneToMany,
  PrimaryKey,
  Property,
  Unique,
} from '@mikro-orm/decorators/legacy';
import { PostgreSqlDriver } from '@mikro-orm/postgresql';
import { type DurableOptions, openDatabase } from '@toolloop/durable';
import type { ResourceGateway, SqlResourceGateway } from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { TypeOrmGateway } from '@toolloop/resources/typeorm';
import type { StoreUnderTest } from '@toolloop/testing';
import type { GatewayUnderTest } from '@toolloop/testing/resources';
import { Expose } from 'class-transformer';
import { DataSource, type DataSourceOptions, EntitySchema } from 'typeorm';

enum Genre {
  Novel = 'novel',
  Essay = 'essay',
}

@Entity({ tableName: 'authors' })
export class Author {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 60 }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 80 }) name!: string;
  @OneToMany({ entity: () => Book, mappedBy: 'author' }) books!: Collection<Book>;
  @ManyToMany({ entity: () => Book, mappedBy: 'readers' }) @Expose() favourites!: Collection<Book>;
}

@Entity({ tableName: 'books' })
@Unique({ name: 'books_title', properties: ['tenant', 'title'] })
export class Book {
  @PrimaryKey({ type: 'integer', autoincrement: true }) id!: number;
  @Property({ type: 'string', length: 60 }) tenant!: Opt<string>;
  @Property({ type: 'string', length: 200 }) title!: string;
  @Property({ type: 'integer', nullable: true }) pages?: number | null;
  @Property({ type: 'decimal', precision: 12, scale: 2 }) price!: string;
  @Property({ type: 'boolean', default: false }) isOut!: Opt<boolean>;
  @Property({ type: 'date', nullable: true }) printedOn?: string | null;
  @Property({ type: 'datetime', length: 3, nullable: true }) soldAt?: Date | null;
  @Enum({ items: () => Genre, nullable: true }) genre?: Genre | null;
  @Property({ type: 'string', length: 80, nullable: true, hidden: true }) remark?: string | null;
  @Property({ type: 'integer', version: true }) version!: Opt<number>;
  @ManyToOne({ entity: () => Author, nullable: true }) author?: Author | null;
  @ManyToMany({
    entity: () => Author,
    inversedBy: 'favourites',
    pivotTable: 'books_readers',
    joinColumn: 'book_id',
    inverseJoinColumn: 'author_id',
  })
  @Expose()
  readers!: Collection<Author>;
}

const ROLE = 'toolloop_test_library';
const ENTITIES = [Author, Book];

/** MikroORM over the library, on the database of the calls. */
export async function byMikroOrm(
  options: DurableOptions,
): Promise<StoreUnderTest<GatewayUnderTest>> {
  const database = await openDatabase(options);
  const orm = await MikroORM.init({
    driver: PostgreSqlDriver,
    dbName: 'library',
    driverOptions: database.connection,
    entities: ENTITIES,
    schemaGenerator: { ignoreSchema: ['toolloop', 'pgboss'] },
  });
  await orm.schema.update();
  const gateway = new MikroOrmGateway(orm, { tenancy: { role: ROLE } });
  for (const statement of gateway.statements(ENTITIES)) await orm.em.fork().execute(statement);
  return underTest(gateway, { sql: (statement) => orm.em.fork().execute(statement) }, async () => {
    await orm.close();
    await database.close();
  });
}

/** TypeORM over the library, on the database of the calls. */
export async function byTypeOrm(
  options: DurableOptions,
): Promise<StoreUnderTest<GatewayUnderTest>> {
  const database = await openDatabase(options);
  const opened = await openSource({
    type: 'postgres',
    installExtensions: false,
    extra: database.connection,
  });
  return underTest(
    opened.gateway,
    { sql: (statement) => opened.source.query(statement) },
    async () => {
      await opened.source.destroy();
      await database.close();
    },
  );
}

/** TypeORM over the library, on a database without row level security. */
export async function byTypeOrmOn(
  options: DataSourceOptions,
): Promise<StoreUnderTest<GatewayUnderTest>> {
  const { gateway, source } = await openSource(options);
  return underTest(gateway, { sql: (statement) => source.query(statement) }, () =>
    source.destroy(),
  );
}

function underTest(
  gateway: ResourceGateway,
  owner: { readonly sql: (statement: string) => Promise<unknown> },
  close: () => Promise<void>,
): StoreUnderTest<GatewayUnderTest> {
  const link = async (bookId: unknown, authorId: unknown): Promise<void> => {
    await owner.sql(
      `insert into books_readers (book_id, author_id) values (${Number(bookId)}, ${Number(authorId)})`,
    );
  };
  return { store: { gateway, author: Author, book: Book, link }, close };
}

async function openSource(
  options: DataSourceOptions,
): Promise<{ readonly source: DataSource; readonly gateway: SqlResourceGateway<unknown> }> {
  const moment = options.type === 'postgres' ? 'timestamptz' : 'datetime';
  const source = await new DataSource({ ...options, entities: [...schemas(moment)] }).initialize();
  await source.synchronize();
  const gateway = new TypeOrmGateway(source, { tenancy: { role: ROLE } });
  for (const statement of gateway.statements(ENTITIES)) await source.query(statement);
  return { source, gateway };
}

function schemas(moment: 'timestamptz' | 'datetime'): readonly EntitySchema[] {
  const authors = new EntitySchema<Author>({
    name: 'Author',
    target: Author,
    tableName: 'authors',
    columns: {
      id: { type: 'int', primary: true, generated: 'increment' },
      tenant: { type: 'varchar', length: '60' },
      name: { type: 'varchar', length: '80' },
    },
    relations: {
      books: { type: 'one-to-many', target: 'Book', inverseSide: 'author' },
      favourites: { type: 'many-to-many', target: 'Book', inverseSide: 'readers' },
    },
  });
  const books = new EntitySchema<Book>({
    name: 'Book',
    target: Book,
    tableName: 'books',
    columns: {
      id: { type: 'int', primary: true, generated: 'increment' },
      tenant: { type: 'varchar', length: '60' },
      title: { type: 'varchar', length: '200' },
      pages: { type: 'int', nullable: true },
      price: { type: 'decimal', precision: 12, scale: 2 },
      isOut: { type: Boolean, default: false },
      printedOn: { type: 'date', nullable: true },
      soldAt: { type: moment, precision: 3, nullable: true },
      genre: { type: 'enum', enum: Genre, nullable: true },
      remark: { type: 'varchar', length: '80', nullable: true, select: false },
      version: { type: 'int', version: true },
    },
    relations: {
      author: { type: 'many-to-one', target: 'Author', nullable: true, inverseSide: 'books' },
      readers: {
        type: 'many-to-many',
        target: 'Author',
        inverseSide: 'favourites',
        joinTable: {
          name: 'books_readers',
          joinColumn: { name: 'book_id' },
          inverseJoinColumn: { name: 'author_id' },
        },
      },
    },
    uniques: [{ name: 'books_title', columns: ['tenant', 'title'] }],
  });
  return [authors as EntitySchema, books as EntitySchema];
}
