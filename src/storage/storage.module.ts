import { Module } from '@nestjs/common';
import { DurableModule } from '@toolloop/durable';
import { SettingsModule } from '../settings.module.js';
import { SETTINGS } from '../settings.js';
import { storageOf } from './storage.js';

/** Runs, approvals, the audit and the rest that is to outlive a request, wherever the environment says. */
@Module({ imports: [DurableModule.forRootAsync({ imports: [SettingsModule], inject: [SETTINGS], useFactory: storageOf })] })
export class StorageModule {}
