import type { QueryConfig } from 'pg';

const CHANGES = /^\s*(?:set|select\s+set_config\s*\()/i;
const BY_SET = /^\s*set\s+(?:local\s+)?(?:(role)\b|([\w.]+)\s*(?:=|to\b))/i;
const BY_CALL = /set_config\s*\(\s*(?:'((?:[^']|'')+)'|\$(\d+))/gi;

/**
 * The settings that a statement changes until the end of the transaction: a role, and what the policies of rows read. A library that has its own transaction for
 * them counts on their end with it; those of a savepoint would stay.
 */
export function settingsIn({ text, values = [] }: QueryConfig<unknown[]>): readonly string[] {
  if (!CHANGES.test(text)) return [];
  const [, role, set = role] = BY_SET.exec(text) ?? [];
  if (set !== undefined) return [set.toLowerCase()];
  return [...text.matchAll(BY_CALL)].map(([, name, place]) => name?.replaceAll("''", "'") ?? String(values[Number(place) - 1]));
}

const FOR_SESSION = /^\s*set\s+(?:session\s+)?(?:role|session\s+authorization)\b|set_config\s*\([^()]*,\s*false\s*\)/i;

/** Whether a statement gives the whole session a role, or settings that outlast the transaction: whoever has the connection next would have them, too. */
export function isForSession({ text }: QueryConfig): boolean {
  return CHANGES.test(text) && FOR_SESSION.test(text);
}

/** What to say of one where the session is everybody's. */
export const FOR_SESSION_REFUSED =
  'This would leak its role or settings to the next user of the connection. Set them for a transaction: set local, set_config(…, true).';
