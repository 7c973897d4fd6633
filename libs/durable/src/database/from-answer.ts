import type { SqlAnswer } from './database-driver.js';

/** The text in the column `value` of an answer's row. */
export function valueOf(answer: SqlAnswer): string {
  const { rows } = answer as { readonly rows: readonly { readonly value: string }[] };
  return rows[0]?.value ?? '';
}
