import { Module } from '@nestjs/common';
import { DurableModule, type DurableOptions } from '@toolloop/durable';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';

/** Chooses a server before a folder, and a folder before memory. */
export function storageOf({ databaseUrl, dataDir }: Settings): DurableOptions {
  if (databaseUrl !== undefined) return { url: databaseUrl, retention: RETENTION };
  return dataDir === undefined ? { memory: true, retention: RETENTION } : { dataDir, retention: RETENTION };
}

/** Days. Keys of calls and directives are kept for longer than any client repeats a request. */
const RETENTION = { calls: 30, conversations: 90, directives: 30, pending: 90, runs: 30, suspendedRuns: 30 };

/** Names the storage in a few words, without the address of a server, which contains a password. */
export function placeOf({ databaseUrl, dataDir }: Settings): string {
  if (databaseUrl !== undefined) return 'on the server of DATABASE_URL';
  return dataDir === undefined ? 'in memory' : `in ${dataDir}`;
}

/** The storage of runs, approvals, the audit and everything else that outlives a request, as the environment says. */
@Module({ imports: [DurableModule.forRootAsync({ imports: [SettingsModule], inject: [SETTINGS], useFactory: storageOf })] })
export class StorageModule {}
