import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ConsoleSessions } from '@toolloop/console';
import { LanguageModel } from '@toolloop/core';
import { AppModule } from './app.module.js';
import { configure } from './http/configure.js';
import { SETTINGS, type Settings } from './settings.js';
import { failureOf, welcome } from './welcome.js';

const HOST = '127.0.0.1';

try {
  const app = await NestFactory.create<NestExpressApplication>(AppModule, {
    abortOnError: false,
    forceCloseConnections: true,
    bufferLogs: true, // a start that fails is told below, once and in plain words
    autoFlushLogs: false,
    logger: ['warn', 'error', 'fatal'],
  });
  configure(app);
  app.enableShutdownHooks([], { useProcessExit: true });
  const settings = app.get<Settings>(SETTINGS);
  await app.listen(settings.port, HOST);
  app.flushLogs();
  const url = await app.getUrl();
  process.stdout.write(
    welcome(url, app.get(LanguageModel), settings, app.get(ConsoleSessions).linkAt(url)),
  );
} catch (error) {
  process.stderr.write(`${failureOf(error)}\n`);
  process.exit(1);
}
