import type { INestApplication, ModuleMetadata, Provider } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { ConsoleModule, type ConsoleOptions } from '@toolloop/console';
import { ActorDirectory, ToolLoopModule } from '@toolloop/core';
import { ToolLoopHttpModule, type ToolLoopHttpOptions } from '@toolloop/http';
import { ScriptedModel, text } from '@toolloop/testing';

export const ALICE = { id: 'alice', name: 'Alice', roles: ['support'] };
const GONE = { id: 'gone', name: 'Gone', roles: [] };

class People extends ActorDirectory {
  override find(actorId: string, tenant: string): Promise<unknown> {
    return Promise.resolve(actorId === ALICE.id && tenant === 'acme' ? ALICE : undefined);
  }
}

/** Answers as the people of the tests: `alice` with the password `secret`, and one who is let in and is not in the directory. */
export const login: NonNullable<ConsoleOptions['login']> = ({ name, password }) => {
  const person = [ALICE, GONE].find(({ id }) => id === name && password === 'secret');
  return person && { actor: person, tenant: 'acme' };
};

interface ConsoleServer {
  readonly platform?: 'express' | 'fastify';
  readonly prefix?: string;
  /** Who asks the routes. @default no one but the console */
  readonly identity?: ToolLoopHttpOptions['identity'];
  readonly providers?: Provider[];
  /** Those of Fastify. */
  readonly routerOptions?: { readonly ignoreTrailingSlash?: boolean };
}

interface ConsoleApp {
  readonly url: string;
  readonly app: INestApplication;
}

type Options = ConsoleOptions & { readonly path?: string };

/** The modules of an application with a console. */
export function consoleImports(
  options: Options,
  identity: ToolLoopHttpOptions['identity'] = () => undefined,
): NonNullable<ModuleMetadata['imports']> {
  return [
    ToolLoopModule.forRoot({
      model: new ScriptedModel([text('Hello.'), text('Hello again.')]),
      policy: { version: 'test-1', allow: [] },
      operators: (_actor, action) => action === 'explain',
      providers: [{ provide: ActorDirectory, useClass: People }],
    }),
    ToolLoopHttpModule.forRoot({ identity }),
    ConsoleModule.forRoot(options),
  ];
}

export async function serveConsole(
  options: Options,
  { platform = 'express', prefix = '', identity, providers = [], routerOptions = {} }: ConsoleServer = {},
): Promise<ConsoleApp> {
  const built = await Test.createTestingModule({ imports: consoleImports(options, identity), providers }).compile();
  const adapter = platform === 'express' ? new ExpressAdapter() : new FastifyAdapter({ forceCloseConnections: true, routerOptions });
  const app = built.createNestApplication(adapter, { logger: ['fatal'], forceCloseConnections: true });
  if (prefix !== '') app.setGlobalPrefix(prefix);
  await app.listen(0, '127.0.0.1');
  return { app, url: `${await app.getUrl()}${prefix === '' ? '' : `/${prefix.replaceAll('/', '')}`}` };
}
