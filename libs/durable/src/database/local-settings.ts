import type { QueryConfig } from 'pg';

const CHANGES = /^\s*(?:set|select\s+set_config\s*\()/i;
const BY_SET = /^\s*set\s+(?:local\s+)?(?:session\s+)?([\w.]+)/i;
const BY_CALL = /set_config\s*\(\s*(?:'((?:[^']|'')+)'|\$(\d+))/gi;

/**
 * The settings that a statement changes until the end of the transaction: a role, and what the policies of rows read. A library that has its own transaction for
 * them counts on their end with it; those of a savepoint would stay.
 */
export function settingsIn({ text, values = [] }: QueryConfig<unknown[]>): readonly string[] {
  if (!CHANGES.test(text)) return [];
  const set = BY_SET.exec(text)?.[1];
  if (set !== undefined) return [set.toLowerCase()];
  return [...text.matchAll(BY_CALL)].map(([, name, place]) => name?.replaceAll("''", "'") ?? String(values[Number(place) - 1]));
}
