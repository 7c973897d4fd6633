import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import type { DynamicModule, INestApplicationContext, LogLevel, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

/** Prints one line. */
export function print(...parts: readonly unknown[]): void {
  const words = parts.map((part) =>
    typeof part === 'string' ? part : inspect(part, { depth: 5, breakLength: Infinity }),
  );
  process.stdout.write(`${words.join(' ')}\n`);
}

/** Runs a program if its file was started, and not where a test imports it. */
export async function runIfMain(url: string, program: () => Promise<void>): Promise<void> {
  const [, started = ''] = process.argv;
  if (pathToFileURL(started).href === url) await program();
}

/** Starts an application, hands it to the work, and closes it. */
export async function withApplication<Result>(
  module: Type | DynamicModule,
  work: (app: INestApplicationContext) => Promise<Result>,
  logger: LogLevel[] = ['error'],
): Promise<Result> {
  const app = await NestFactory.createApplicationContext(module, { logger });
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}

/** Serves an application on PORT, or on 3000, until it is stopped. */
export async function serve(module: Type): Promise<void> {
  const app = await NestFactory.create(module);
  app.enableShutdownHooks();
  await app.listen(process.env['PORT'] ?? 3000, '127.0.0.1');
}
