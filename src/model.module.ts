import { Module } from '@nestjs/common';
import { LanguageModel } from '@toolloop/core';
import { offline } from '@toolloop/offline';
import { openai } from '@toolloop/openai';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';

/**
 * A model of OpenAI, or of a server that speaks like it, where the environment names one; else the
 * offline model, which needs neither key nor network.
 */
function chooseModel({ openai: chosen }: Settings): LanguageModel {
  if (!chosen) return offline();
  const { model, ...access } = chosen;
  return openai(model, access);
}

@Module({
  imports: [SettingsModule],
  providers: [{ provide: LanguageModel, useFactory: chooseModel, inject: [SETTINGS] }],
  exports: [LanguageModel],
})
export class ModelModule {}
