import { randomBytes } from 'node:crypto';
import { Logger, Module } from '@nestjs/common';
import { DurableModule, type DurableOptions } from '@toolloop/durable';
import { databaseTemplate } from './database-template.js';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';

/** Chooses a server before a folder, and a folder before memory. */
export function storageOf({ databaseUrl, dataDir }: Settings): DurableOptions {
  if (databaseUrl !== undefined) return { url: databaseUrl, retention: RETENTION };
  if (dataDir !== undefined) return { dataDir, retention: RETENTION };
  const template = databaseTemplate();
  return { memory: true, retention: RETENTION, ...(template && { template }) };
}

/** Days. Keys of calls and directives are kept for longer than any client repeats a request. */
const RETENTION = {
  calls: 30,
  conversations: 90,
  directives: 30,
  pending: 90,
  runs: 30,
  suspendedRuns: 30,
};

/** Names the storage in a few words, without the address of a server, which contains a password. */
export function placeOf({ databaseUrl, dataDir }: Settings): string {
  if (databaseUrl !== undefined) return 'on the server of DATABASE_URL';
  return dataDir === undefined ? 'in memory' : `in ${dataDir}`;
}

const KEY_BYTES = 32;
const REMEDY =
  'Set AUDIT_KEY to a secret of at least 32 bytes, such as what `openssl rand -hex 32` prints';

/**
 * The key that signs the audit: the environment's, or a random one, without which the audit cannot
 * be checked after the desk has closed.
 */
export function auditKeyOf({ auditKey, databaseUrl, dataDir }: Settings): string | Uint8Array {
  if (auditKey !== undefined) return auditKey;
  const consequence = consequenceOf({ databaseUrl, dataDir });
  if (consequence !== '')
    new Logger('Audit').warn(
      `AUDIT_KEY is not set: a random key signs the audit until the desk closes.${consequence}`,
    );
  return randomBytes(KEY_BYTES);
}

/** The consequence of a random key where the audit outlives the process that signs it. */
function consequenceOf({
  databaseUrl,
  dataDir,
}: Record<'databaseUrl' | 'dataDir', string | undefined>): string {
  if (databaseUrl !== undefined)
    return ` The audit on the server of DATABASE_URL outlives it, and every desk there signs the same chain with a key of its own, so that no one can check it. ${REMEDY}, and to the same for every desk.`;
  return dataDir === undefined
    ? ''
    : ` The audit in DATA_DIR outlives it, and no one can check it then. ${REMEDY}.`;
}

/**
 * The storage of runs, approvals, the audit and everything else that outlives a request, as the
 * environment says.
 */
@Module({
  imports: [
    DurableModule.forRootAsync({
      imports: [SettingsModule],
      inject: [SETTINGS],
      useFactory: storageOf,
    }),
  ],
})
export class StorageModule {}
