import type { LanguageModel } from '@toolloop/core';
import { offline } from '@toolloop/offline';
import { openai } from '@toolloop/openai';
import type { Settings } from '../settings.js';

/** A model of OpenAI, or of a server that speaks like it, where the environment names one; else the offline model, which needs neither key nor network. */
export function chooseModel({ openai: chosen }: Settings): LanguageModel {
  if (!chosen) return offline();
  const { model, ...access } = chosen;
  return openai(model, access);
}
