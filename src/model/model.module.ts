import { Module } from '@nestjs/common';
import { LanguageModel } from '@toolloop/core';
import { SettingsModule } from '../settings.module.js';
import { SETTINGS } from '../settings.js';
import { chooseModel } from './choose-model.js';

@Module({
  imports: [SettingsModule],
  providers: [{ provide: LanguageModel, useFactory: chooseModel, inject: [SETTINGS] }],
  exports: [LanguageModel],
})
export class ModelModule {}
