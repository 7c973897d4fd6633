import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsoleLogger, Logger } from '@nestjs/common';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { assemble, boot } from '../src/application.js';

const folders: string[] = [];

/**
 * The module of an application that has these packages of Nest beside its own two, and that must
 * not be started.
 */
function applicationWith(...servers: readonly string[]): { readonly app: string } {
  const folder = mkdtempSync(join(tmpdir(), 'toolloop-assembled-'));
  folders.push(folder);
  mkdirSync(join(folder, 'node_modules/@nestjs'), { recursive: true });
  for (const name of ['common', 'core', ...servers])
    symlinkSync(resolve('node_modules/@nestjs', name), join(folder, 'node_modules/@nestjs', name));
  const app = join(folder, 'app.module.mjs');
  writeFileSync(
    app,
    'export class AppModule { onModuleInit() { throw new Error("It was started."); } }',
  );
  return { app };
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe('an application that does not start', () => {
  it('leaves no buffer of Nest behind, in which all that is logged later would stay', async () => {
    await expect(boot(applicationWith('platform-express'))).rejects.toThrow('It was started.');
    const told: string[] = [];
    Logger.overrideLogger({
      log: () => undefined,
      error: () => undefined,
      warn: (message: string) => told.push(message),
    });
    new Logger('Later').warn('Beware.');
    Logger.overrideLogger(new ConsoleLogger());
    expect(told).toEqual(['Beware.']);
  });
});

describe('an application that is created and not started', () => {
  it.each([
    ['fastify', ['platform-fastify']],
    ['express', ['platform-fastify', 'platform-express']],
  ])('is created on the server that its folder has: %s', async (server, packages) => {
    const app = await assemble(applicationWith(...packages));
    expect(app.getHttpAdapter().getType()).toBe(server);
    await app.close();
  });

  it('tells its warnings at once, since no start follows that would', async () => {
    const app = await assemble(applicationWith('platform-express'));
    const told: string[] = [];
    app.useLogger({
      log: () => undefined,
      error: () => undefined,
      warn: (message: string) => told.push(message),
    });
    new Logger('Application').warn('Beware.');
    expect(told).toEqual(['Beware.']);
    await app.close();
  });

  it('says what to install where its folder has no server', async () => {
    await expect(assemble(applicationWith())).rejects.toThrow(
      'npm install --save-dev @nestjs/platform-express',
    );
  });
});
