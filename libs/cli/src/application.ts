import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type {
  INestApplication,
  INestApplicationContext,
  NestApplicationOptions,
  Type,
} from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { isRecord } from '@toolloop/protocol';
import { CommandError, lineOf } from './output.js';

/** The application that a command boots. */
export interface AppOptions {
  /** The compiled file with the application's module. */
  readonly app: string;
  /**
   * The name under which the file exports the module. @default AppModule, the default export, or
   * the only module there is
   */
  readonly export?: string;
}

/** The person for whom a command acts. */
export interface ActorOptions {
  /** The id of an actor, or the actor as a JSON object. */
  readonly actor: string;
  readonly tenant: string;
}

/**
 * Warnings and errors are for the person who started the command. Those of a start that fails would
 * be told twice.
 */
const LOGGING: NestApplicationOptions = {
  abortOnError: false,
  bufferLogs: true,
  autoFlushLogs: false,
  logger: ['warn', 'error', 'fatal'],
};

/**
 * Boots an application without listening.
 *
 * @throws {CommandError} For a file that cannot be loaded, and one that exports no such module.
 */
export async function boot(options: AppOptions): Promise<INestApplicationContext> {
  const module = await moduleIn(options);
  const { NestFactory } = await packageNear<typeof import('@nestjs/core')>(
    '@nestjs/core',
    options.app,
  );
  return created(options, () => NestFactory.createApplicationContext(module, LOGGING));
}

/**
 * Creates an application without starting it: nothing is connected, and nothing is checked.
 *
 * @throws {CommandError} As `boot` does, and where Nest has no server to create it on.
 */
export async function assemble(options: AppOptions): Promise<INestApplication> {
  const module = await moduleIn(options);
  const { NestFactory } = await packageNear<typeof import('@nestjs/core')>(
    '@nestjs/core',
    options.app,
  );
  const server = await serverNear(options);
  return created(options, () => NestFactory.create(module, server, LOGGING));
}

/**
 * Tells the warnings of an application once it stands. Those of one that does not are dropped with
 * Nest's buffer, which would keep all that is logged from then on.
 */
async function created<App extends INestApplicationContext>(
  { app: file }: AppOptions,
  create: () => Promise<App>,
): Promise<App> {
  try {
    const app = await create();
    app.flushLogs();
    return app;
  } catch (error) {
    const { ConsoleLogger, Logger } = await packageNear<typeof import('@nestjs/common')>(
      '@nestjs/common',
      file,
    );
    Logger.overrideLogger(false);
    Logger.flush();
    Logger.overrideLogger(new ConsoleLogger());
    throw error;
  }
}

/**
 * Makes the server of an application, which never listens: on Express or on Fastify, whichever is
 * there. Nest ends the process where it is told of none and has no Express.
 */
async function serverNear({ app }: AppOptions): Promise<AbstractHttpAdapter> {
  const near = SERVERS.find(({ name }) => pathFrom(resolve(app), name).length > 0);
  if (!near)
    throw new CommandError(
      `Nest creates no application without a server, and ${app} has none. Run: npm install --save-dev ${SERVERS[0].name}`,
    );
  const { [near.adapter]: Adapter } = await packageNear<
    Readonly<Record<string, (new () => AbstractHttpAdapter) | undefined>>
  >(near.name, app);
  if (!Adapter)
    throw new CommandError(
      `The ${near.name} near ${app} has no ${near.adapter}. Install the one of Nest 12.`,
    );
  return new Adapter();
}

const SERVERS = [
  { name: '@nestjs/platform-express', adapter: 'ExpressAdapter' },
  { name: '@nestjs/platform-fastify', adapter: 'FastifyAdapter' },
] as const;

/**
 * Loads a package as the application itself loads it: two copies of Nest, or of Toolloop, know
 * nothing of each other. Without an application it is that of the folder, or of the command line
 * itself.
 *
 * @throws {CommandError} Where it is not installed.
 */
export async function packageNear<Exports>(name: string, file: string): Promise<Exports> {
  const path = [resolve(file), resolve('toolloop.js'), import.meta.url].flatMap((from) =>
    pathFrom(from, name),
  )[0];
  if (path === undefined)
    throw new CommandError(`${name} is not installed near ${file}: npm install ${name}`);
  const loaded: unknown = await import(pathToFileURL(path).href);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the package is what its own types say
  return loaded as Exports;
}

function pathFrom(from: string, name: string): string[] {
  try {
    return [createRequire(from).resolve(name)];
  } catch {
    return [];
  }
}

/**
 * Returns the actor of an id, from the application's `ActorDirectory` where it has one.
 *
 * @throws {CommandError} For an actor whom the directory does not know.
 */
export async function actorIn(
  app: INestApplicationContext,
  options: AppOptions,
  { actor, tenant }: ActorOptions,
): Promise<unknown> {
  if (actor.startsWith('{')) return jsonOf(actor, '--actor');
  const { ActorDirectory } = await packageNear<typeof import('@toolloop/core')>(
    '@toolloop/core',
    options.app,
  );
  const directory = await providerIn(app, options.app, ActorDirectory);
  if (!directory) return { id: actor };
  const found: unknown = await directory.find(actor, tenant);
  if (found === undefined)
    throw new CommandError(`The application knows no actor "${actor}" in the tenant "${tenant}".`);
  return found;
}

/** Finds the instance of a class that an application may have, under whatever token. */
export async function providerIn<Instance>(
  app: INestApplicationContext,
  file: string,
  type: abstract new (...args: never[]) => Instance,
): Promise<Instance | undefined> {
  const { DiscoveryService } = await packageNear<typeof import('@nestjs/core')>(
    '@nestjs/core',
    file,
  );
  const providers = app.get(DiscoveryService, { strict: false }).getProviders();
  return providers
    .map(({ instance }): unknown => instance)
    .find((instance): instance is Instance => instance instanceof type);
}

/** Reads JSON of the command line. @throws {CommandError} Where it is none. */
export function jsonOf(text: string, option: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CommandError(`${option} is no JSON: ${messageOf(error)}`);
  }
}

async function moduleIn({ app, export: name }: AppOptions): Promise<Type> {
  const file = resolve(app);
  if (!existsSync(file))
    throw new CommandError(
      `There is no file ${app}. Build the application, and name its compiled module: --app dist/app.module.js`,
    );
  const exported = await exportsOf(file, app);
  const found = name === undefined ? moduleAmong(exported) : exported[name];
  if (isClass(found)) return found;
  const classes = Object.keys(exported).filter((one) => isClass(exported[one]));
  const there =
    classes.length === 0 ? 'It exports no class.' : `It exports: ${classes.join(', ')}.`;
  if (name !== undefined) throw new CommandError(`${app} exports no class "${name}". ${there}`);
  throw new CommandError(
    `${app} does not say which of its exports is the application. ${there} Name one: --export NAME`,
  );
}

async function exportsOf(file: string, app: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const loaded: unknown = await import(pathToFileURL(file).href);
    return isRecord(loaded) ? loaded : {};
  } catch (error) {
    const hint = /\.[cm]?tsx?$/.test(file)
      ? ' Give the compiled JavaScript: --app dist/app.module.js'
      : '';
    throw new CommandError(`${app} cannot be loaded: ${messageOf(error)}${placeOf(error)}${hint}`, {
      cause: error,
    });
  }
}

/** A syntax error says where it is in its stack alone. */
function placeOf(error: unknown): string {
  const [, path, line] =
    (error instanceof SyntaxError && /^(?:file:\/\/)?(\/.*?):(\d+)\n/.exec(error.stack ?? '')) ||
    [];
  return path === undefined ? '' : ` (${relative('.', path)}:${line})`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? lineOf(`${error.name}: ${error.message}`) : lineOf(String(error));
}

function moduleAmong(exported: Readonly<Record<string, unknown>>): unknown {
  const modules = Object.entries(exported).filter(
    ([name, value]) => isClass(value) && name.endsWith('Module'),
  );
  return (
    exported['AppModule'] ??
    exported['default'] ??
    (modules.length === 1 ? modules[0]?.[1] : undefined)
  );
}

function isClass(value: unknown): value is Type {
  return typeof value === 'function';
}
