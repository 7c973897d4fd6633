import type { PGlite, PGliteInterface, QueryOptions, Results, Transaction } from '@electric-sql/pglite';
import { types as defaults, type CustomTypesConfig, type QueryConfig, type QueryResult } from 'pg';
import type { SqlAnswer } from './database-driver.js';

type Parsers = NonNullable<QueryOptions['parsers']>;

const parsersOf = new WeakMap<object, Parsers>();

/** Asks PGlite as a library asks pg: several statements at once where there are no values, and values as that library reads them. */
export async function askPglite(
  pglite: PGlite,
  to: Pick<PGliteInterface | Transaction, 'exec' | 'query'>,
  statement: QueryConfig,
): Promise<SqlAnswer> {
  const { text, values = [], types = defaults } = statement;
  const options: QueryOptions = { parsers: parsersFor(pglite, types), ...('rowMode' in statement && { rowMode: 'array' }) };
  if (values.length > 0) return toResult(await to.query(text, values, options));
  const results = (await to.exec(text, options)).map(toResult);
  const [result] = results;
  return result && results.length === 1 ? result : results;
}

function parsersFor({ parsers }: PGlite, types: CustomTypesConfig): Parsers {
  const made = parsersOf.get(types);
  if (made) return made;
  const own = Object.fromEntries(Object.keys(parsers).map((id) => [id, types.getTypeParser(Number(id), 'text')]));
  parsersOf.set(types, own);
  return own;
}

function toResult({ command = '', rowCount, rows, fields }: Results): QueryResult {
  return { command, rowCount: rowCount ?? null, oid: 0, rows, fields: fields as QueryResult['fields'] };
}
