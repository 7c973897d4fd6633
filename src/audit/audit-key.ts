import { randomBytes } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { Settings } from '../settings.js';

const KEY_BYTES = 32;

/** What signs the audit: the environment's secret, or one of this start, with which nobody can check the audit once the desk has closed. */
export function auditKeyOf({ auditKey }: Settings): string | Uint8Array {
  if (auditKey !== undefined) return auditKey;
  new Logger('Audit').warn('AUDIT_KEY is not set: a random key signs the audit until the desk closes.');
  return randomBytes(KEY_BYTES);
}
