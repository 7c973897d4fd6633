import { Module } from '@nestjs/common';
import { DurableModule, type DurableOptions } from '@toolloop/durable';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';

/** A server before a folder, and a folder before memory. */
export function storageOf({ databaseUrl, dataDir }: Settings): DurableOptions {
  if (databaseUrl !== undefined) return { url: databaseUrl };
  return dataDir === undefined ? { memory: true } : { dataDir };
}

/** Where things are kept, in a few words and without the address of a server: there is a password in it. */
export function placeOf({ databaseUrl, dataDir }: Settings): string {
  if (databaseUrl !== undefined) return 'on the server of DATABASE_URL';
  return dataDir === undefined ? 'in memory, until it closes (DATA_DIR=./data keeps it)' : `in ${dataDir}`;
}

/** Runs, approvals, the audit and the rest that is to outlive a request, wherever the environment says. */
@Module({ imports: [DurableModule.forRootAsync({ imports: [SettingsModule], inject: [SETTINGS], useFactory: storageOf })] })
export class StorageModule {}
