import type { Collection } from '@mikro-orm/core';
import * as M from '@mikro-orm/decorators/legacy';
import { ToolResource } from '@toolloop/resources';
import { Expose, Type } from 'class-transformer';
import * as T from 'typeorm';

/** A list as TypeORM or MikroORM has it. */
type Many<Row extends object> = Collection<Row> | Row[];

const TENANT = { type: 'varchar', length: 40 } as const;

/** A word for books: many to many, over a table without columns of its own. */
@T.Entity('labels')
@M.Entity({ tableName: 'labels' })
export class Label {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() word!: string;
  @T.ManyToMany(() => Book, 'labels')
  @M.ManyToMany({ entity: () => Book, mappedBy: 'labels' })
  @Expose()
  @Type(() => Book)
  books!: Many<Book>;
}

@T.Entity('writers')
@M.Entity({ tableName: 'writers' })
export class Writer {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() name!: string;
  @T.OneToMany(() => Book, 'writer')
  @M.OneToMany({ entity: () => Book, mappedBy: 'writer' })
  @Expose()
  @Type(() => Book)
  books!: Many<Book>;
}

/** A book with every kind of relation. */
@T.Entity('books')
@M.Entity({ tableName: 'books' })
export class Book {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() title!: string;
  @T.ManyToOne(() => Writer, 'books', { nullable: true })
  @T.JoinColumn({ name: 'writer_id' })
  @M.ManyToOne({ entity: () => Writer, nullable: true, fieldName: 'writer_id' })
  @Expose()
  @Type(() => Writer)
  writer?: Writer | null;
  /** The column of the relation, beside it. */
  @T.Column({ name: 'writer_id', type: 'int', nullable: true })
  @M.Property({ type: 'integer', fieldName: 'writer_id', nullable: true, persist: false })
  @Expose()
  writerId?: number | null;
  /** To rows of the same table. */
  @T.ManyToOne(() => Book, { nullable: true })
  @T.JoinColumn({ name: 'sequel_of_id' })
  @M.ManyToOne({ entity: () => Book, nullable: true, fieldName: 'sequel_of_id' })
  @Expose()
  @Type(() => Book)
  sequelOf?: Book | null;
  @T.ManyToMany(() => Label, 'books')
  @T.JoinTable({
    name: 'books_labels',
    joinColumn: { name: 'book_id' },
    inverseJoinColumn: { name: 'label_id' },
  })
  @M.ManyToMany({
    entity: () => Label,
    inversedBy: 'books',
    pivotTable: 'books_labels',
    joinColumn: 'book_id',
    inverseJoinColumn: 'label_id',
  })
  @Expose()
  @Type(() => Label)
  labels!: Many<Label>;
  /** Many to many, to rows of the same table. */
  @T.ManyToMany(() => Book)
  @T.JoinTable({
    name: 'books_like',
    joinColumn: { name: 'book_id' },
    inverseJoinColumn: { name: 'like_id' },
  })
  @M.ManyToMany({
    entity: () => Book,
    pivotTable: 'books_like',
    joinColumn: 'book_id',
    inverseJoinColumn: 'like_id',
  })
  @Expose()
  @Type(() => Book)
  like!: Many<Book>;
  @T.OneToMany(() => Loan, 'book')
  @M.OneToMany({ entity: () => Loan, mappedBy: 'book' })
  @Expose()
  @Type(() => Loan)
  loans!: Many<Loan>;
  @T.OneToOne(() => Cover, 'book')
  @M.OneToOne({ entity: () => Cover, mappedBy: 'book', nullable: true })
  @Expose()
  @Type(() => Cover)
  cover?: Cover | null;
}

/** One to one; the key is here. */
@T.Entity('covers')
@M.Entity({ tableName: 'covers' })
export class Cover {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'varchar' }) @M.Property({ type: 'string' }) @Expose() colour!: string;
  @T.OneToOne(() => Book, 'cover', { nullable: true })
  @T.JoinColumn({ name: 'book_id' })
  @M.OneToOne({ entity: () => Book, inversedBy: 'cover', nullable: true, fieldName: 'book_id' })
  @Expose()
  @Type(() => Book)
  book?: Book | null;
}

/** Many to many with columns of its own: an entity. */
@T.Entity('loans')
@M.Entity({ tableName: 'loans' })
export class Loan {
  @T.PrimaryGeneratedColumn()
  @M.PrimaryKey({ type: 'integer', autoincrement: true })
  @Expose()
  id!: number;
  @T.Column(TENANT) @M.Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @T.Column({ type: 'int' }) @M.Property({ type: 'integer' }) @Expose() days!: number;
  @T.ManyToOne(() => Book, 'loans')
  @T.JoinColumn({ name: 'book_id' })
  @M.ManyToOne({ entity: () => Book, fieldName: 'book_id' })
  @Expose()
  @Type(() => Book)
  book!: Book;
  @T.ManyToOne(() => Label)
  @T.JoinColumn({ name: 'label_id' })
  @M.ManyToOne({ entity: () => Label, fieldName: 'label_id' })
  @Expose()
  @Type(() => Label)
  label!: Label;
}

const ALL = ['read', 'create', 'update', 'destroy'] as const;

@ToolResource(Book, { namespace: 'books', actions: [...ALL] })
class BookTools {}
@ToolResource(Label, { namespace: 'labels', actions: [...ALL] })
class LabelTools {}
@ToolResource(Writer, { namespace: 'writers', actions: [...ALL] })
class WriterTools {}
@ToolResource(Cover, { namespace: 'covers', actions: [...ALL] })
class CoverTools {}
@ToolResource(Loan, { namespace: 'loans', actions: [...ALL] })
class LoanTools {}

export const SHELF_ENTITIES = [Label, Writer, Book, Cover, Loan];
export const SHELF_TOOLS = [BookTools, LabelTools, WriterTools, CoverTools, LoanTools];

/**
 * Both tenants have the same rows; that of globex are named after it. Ids: 1 to 3 are acme's, 4 to
 * 6 globex's.
 */
export const SHELF_ROWS: readonly string[] = ['acme', 'globex'].flatMap((tenant, index) => {
  const [a, b, c] = [1, 2, 3].map((id) => id + index * 3);
  return [
    `insert into labels (tenant, word) values ('${tenant}', 'sea ${tenant}'), ('${tenant}', 'war ${tenant}'), ('${tenant}', 'cat ${tenant}')`,
    `insert into writers (tenant, name) values ('${tenant}', 'Ann ${tenant}'), ('${tenant}', 'Bob ${tenant}'), ('${tenant}', 'Cy ${tenant}')`,
    `insert into books (tenant, title, writer_id, sequel_of_id) values ('${tenant}', 'one ${tenant}', ${a}, null), ('${tenant}', 'two ${tenant}', ${a}, ${a}), ('${tenant}', 'three ${tenant}', null, null)`,
    `insert into books_labels (book_id, label_id) values (${a}, ${a}), (${a}, ${b}), (${b}, ${b})`,
    `insert into books_like (book_id, like_id) values (${a}, ${b}), (${c}, ${a})`,
    `insert into covers (tenant, colour, book_id) values ('${tenant}', 'red ${tenant}', ${b}), ('${tenant}', 'blue ${tenant}', null)`,
    `insert into loans (tenant, days, book_id, label_id) values ('${tenant}', 7, ${a}, ${a}), ('${tenant}', 9, ${a}, ${c})`,
  ];
});

/** References that reach across tenants, which a foreign key allows. */
export const FOREIGN_LINKS: readonly string[] = [
  'insert into books_labels (book_id, label_id) values (1, 4), (4, 1)',
  'insert into books_like (book_id, like_id) values (2, 5)',
];
