import type { Pool } from 'pg';
import type { Db } from 'pg-boss';
import type { Database } from '../database/database.js';
import type { SqlValue } from '../database/database-driver.js';

/** The way of pg-boss to a PostgreSQL server, over the connections we have. */
export function toBossDatabase(pool: Pool, database: Database): Db {
  return {
    // Several statements at once come without values; then there is a result for each.
    executeSql: async (text, values) => {
      const result: unknown = values?.length ? await pool.query(text, values) : await pool.query(text);
      const results = (Array.isArray(result) ? result : [result]) as { readonly rows: unknown[] }[];
      return { rows: results.flatMap(({ rows }) => rows) };
    },
    listen: async (channel, heard, again) => {
      const close = await database.listen(channel, heard);
      again();
      return { close };
    },
  };
}

/** The transaction that the caller is in, for pg-boss to be part of. */
export function toBossTransaction(database: Database): Db {
  return { executeSql: async (text, values = []) => ({ rows: [...(await database.query(text, values as SqlValue[]))] }) };
}
