import type { DurableOptions } from '@toolloop/durable';
import type { Settings } from '../settings.js';

/** A server before a folder, and a folder before memory. */
export function storageOf({ databaseUrl, dataDir }: Settings): DurableOptions {
  if (databaseUrl !== undefined) return { url: databaseUrl };
  return dataDir === undefined ? { memory: true } : { dataDir };
}

/** Where things are kept, in a few words and without the address of a server: there is a password in it. */
export function placeOf({ databaseUrl, dataDir }: Settings): string {
  if (databaseUrl !== undefined) return 'on the server of DATABASE_URL';
  return dataDir === undefined ? 'in memory' : `in ${dataDir}`;
}
