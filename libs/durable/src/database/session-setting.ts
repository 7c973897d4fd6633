import type { QueryConfig } from 'pg';
import { CHANGES } from './database-driver.js';

/**
 * Tells if a statement gives the whole session a role, or settings that outlast the transaction:
 * the next user of the connection would have them, too.
 */
export function isForSession({ text }: QueryConfig): boolean {
  return CHANGES.test(text) && FOR_SESSION.test(text);
}

const FOR_SESSION =
  /^\s*set\s+(?:session\s+)?(?:role|session\s+authorization)\b|set_config\s*\([^()]*,\s*false\s*\)/i;

/** The message for one where the session is everybody's. */
export const FOR_SESSION_REFUSED =
  'This would leak its role or settings to the next user of the connection. Set them for a transaction: set local, set_config(…, true).';
