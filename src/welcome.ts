import { Controller, Get, Header, Req } from '@nestjs/common';
import { ConfigurationError, type LanguageModel } from '@toolloop/core';
import type { Request } from 'express';
import type { Settings } from './settings.js';
import { placeOf } from './storage.module.js';

/** The lines that are printed when the desk has opened: where it is, and a question to ask it. */
export function welcome(
  url: string,
  model: LanguageModel,
  settings: Settings,
  consoleLink?: string,
): string {
  return [
    `The order desk is open at ${url}, answered by ${model.provider}/${model.modelId}. It keeps orders, runs and approvals ${placeOf(settings)}.`,
    ...(consoleLink === undefined ? [] : [`Its console, for Alice and this once: ${consoleLink}`]),
    questionAt(url),
    '',
  ].join('\n');
}

function questionAt(url: string): string {
  const headers = `-H 'authorization: Bearer demo-alice' -H 'content-type: application/json'`;
  return `curl -N ${url}/chat ${headers} -d '{"message":"What is the average spend of John Smith?"}'`;
}

/** Tells a person who opens the desk's address in a browser where to go. */
@Controller()
export class WelcomeController {
  @Get()
  @Header('content-type', 'text/plain; charset=utf-8')
  page(@Req() { protocol, headers }: Request): string {
    return [
      'This is the order desk, a demo of Toolloop. Its console is at /console: sign in as alice, mia, ops or bob, with the password demo-alice and so on. Or ask it from a terminal:',
      '',
      questionAt(`${protocol}://${headers.host ?? ''}`),
      '',
      'GET /tools, GET /approvals, GET /runs and GET /health are routes, too. The page docs/demo.md describes all of them.',
      '',
    ].join('\n');
  }
}

/** The environment variables behind the options of the storage. */
const VARIABLES: Readonly<Record<string, string>> = {
  'DurableModule url': 'DATABASE_URL',
  'DurableModule dataDir': 'DATA_DIR',
};

/**
 * The reason why the desk could not open, in one line for the person who started it; a line for
 * each of several mistakes in its declarations.
 */
export function failureOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (
    'code' in error &&
    error.code === 'EADDRINUSE' &&
    'port' in error &&
    typeof error.port === 'number'
  ) {
    return `Port ${error.port} is taken. Choose another one, e.g. PORT=${error.port + 1} npm start`;
  }
  if (!(error instanceof ConfigurationError)) return error.message;
  const lines = error.findings.map(
    ({ at, problem, remedy }) => `${VARIABLES[at] ?? at}: ${problem} ${remedy}`,
  );
  return lines.join('\n');
}
