import type { LanguageModel } from '@toolloop/core';
import type { Settings } from './settings.js';
import { placeOf } from './storage.module.js';

/** What is printed when the desk has opened: where it is, and a question to ask it. */
export function welcome(url: string, model: LanguageModel, settings: Settings): string {
  const ask = `-H 'authorization: Bearer demo-alice' -H 'content-type: application/json'`;
  return [
    `The order desk is open at ${url}, answered by ${model.provider}/${model.modelId}. It keeps runs and approvals ${placeOf(settings)}.`,
    `curl -N ${url}/chat ${ask} -d '{"message":"What is the average spend of John Smith?"}'`,
    '',
  ].join('\n');
}

/** Why the desk could not open, for the person who started it. */
export function failureOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ('code' in error && error.code === 'EADDRINUSE' && 'port' in error && typeof error.port === 'number') {
    return `Port ${error.port} is taken. Choose another one, e.g. PORT=${error.port + 1} npm start`;
  }
  return error.message;
}
