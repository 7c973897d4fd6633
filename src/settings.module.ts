import { Module } from '@nestjs/common';
import { SETTINGS, settingsFrom } from './settings.js';

@Module({ providers: [{ provide: SETTINGS, useFactory: () => settingsFrom(process.env) }], exports: [SETTINGS] })
export class SettingsModule {}
