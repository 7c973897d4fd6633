import assert from 'node:assert/strict';
import type { Type } from '@nestjs/common';
import type {
  ComparisonOperator,
  Condition,
  EntityModel,
  ResourceField,
  ResourceGateway,
  ResourceQuery,
  ResourceSession,
  ResourceValue,
} from '@toolloop/resources';
import type { Trial } from '../contracts/contract.js';

/**
 * A gateway over two empty tables, and the entities of them. Both have an `id` that the database
 * counts and a `tenant` of 60 characters. An author has a `name` and many `books`; a book has many
 * `readers`, which are authors, over a table of its own, and these have many `favourites`; both are
 * exposed. A book has a `title` of 200 characters that is unique within the tenant (key
 * `books_title`), `pages` (a whole number), `price` (a decimal of two places), `isOut` (false by
 * default), `printedOn` (a day), `soldAt` (a moment, to the millisecond), `genre` (`novel` or
 * `essay`), a hidden `remark`, the `author` and a `version`. All but `id`, `tenant`, `title`,
 * `price`, `isOut`, `version` and `name` may be null.
 */
export interface GatewayUnderTest {
  readonly gateway: ResourceGateway;
  readonly author: Type;
  readonly book: Type;
  /** Relates a book to a reader by their ids, with rights to every row. */
  readonly link: (bookId: unknown, authorId: unknown) => Promise<void>;
}

export type GatewayTrial = Trial<GatewayUnderTest>;

export const EVERYTHING: Condition = { kind: 'all', of: [] };
export const BY_ID = [{ field: 'id', descending: false }] as const;

export function compare(
  field: string,
  operator: ComparisonOperator,
  value: ResourceValue | readonly ResourceValue[] = null,
): Condition {
  return { kind: 'field', field, operator, value };
}

export const eq = (field: string, value: ResourceValue): Condition => compare(field, 'eq', value);

export function related(relation: string, where: Condition = EVERYTHING, has = true): Condition {
  return { kind: 'related', relation, has, where };
}

export function modelOf(gateway: ResourceGateway, entity: Type): EntityModel {
  const model = gateway.describe(entity);
  assert.ok(model, `The gateway does not know ${entity.name}.`);
  return model;
}

export function fieldOf({ fields, entity }: EntityModel, name: string): ResourceField {
  const field = fields.get(name);
  assert.ok(field, `${entity.name} has no field "${name}".`);
  return field;
}

export function scopeOf(tenant: string): {
  readonly actor: { readonly id: string };
  readonly tenant: string;
} {
  return { actor: { id: 'ada' }, tenant };
}

export type Values = Readonly<Record<string, unknown>>;

/** Runs work in a transaction of the trial's tenant, or of another. */
export function within<Result>(
  { store, tenant }: GatewayTrial,
  work: (
    session: ResourceSession,
    models: { readonly author: EntityModel; readonly book: EntityModel },
  ) => Promise<Result>,
  of = tenant,
): Promise<Result> {
  const { gateway } = store;
  return gateway.transaction(scopeOf(of), (session) =>
    work(session, { author: modelOf(gateway, store.author), book: modelOf(gateway, store.book) }),
  );
}

/** Creates books, and resolves to them as they were written. */
export function shelve(
  trial: GatewayTrial,
  books: readonly Values[],
  tenant = trial.tenant,
): Promise<readonly Values[]> {
  return within(
    trial,
    async (session, { book }) => {
      const rows = books.map((values) =>
        session.create(book, new Map(Object.entries({ price: '1.00', ...values }))),
      );
      await session.flush();
      return rows.map((row) => valuesOf(session, book, row));
    },
    tenant,
  );
}

export function valuesOf(session: ResourceSession, model: EntityModel, row: object): Values {
  const names = [...model.fields.keys(), 'author'];
  return Object.fromEntries(names.map((name) => [name, session.valueOf(model, row, name) ?? null]));
}

export function query(parts: Partial<ResourceQuery>): ResourceQuery {
  return { where: EVERYTHING, order: BY_ID, limit: 100, offset: 0, ...parts };
}

/** The titles of the books that meet a condition, in the order of their ids. */
export function titles(
  trial: GatewayTrial,
  parts: Partial<ResourceQuery>,
  tenant = trial.tenant,
): Promise<readonly unknown[]> {
  return within(
    trial,
    async (session, { book }) => {
      const rows = await session.find(book, query(parts));
      return rows.map((row) => session.valueOf(book, row, 'title'));
    },
    tenant,
  );
}

/** Creates an author with books. */
export function write(
  trial: GatewayTrial,
  name: string,
  books: readonly string[],
  tenant = trial.tenant,
): Promise<void> {
  return within(
    trial,
    async (session, { author, book }) => {
      const writer = session.create(author, new Map([['name', name]]));
      await session.flush();
      for (const title of books)
        session.create(
          book,
          new Map<string, unknown>(Object.entries({ title, price: '1.00', author: writer })),
        );
      await session.flush();
    },
    tenant,
  );
}
