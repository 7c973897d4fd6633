import type { DynamicModule, INestApplication, ModuleMetadata, Provider } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { ConsoleModule, type ConsoleOptions } from '@toolloop/console';
import { ActorDirectory, tool, ToolLoopModule, type ToolLoopOptions } from '@toolloop/core';
import { ToolLoopHttpModule, type ToolLoopHttpOptions } from '@toolloop/http';
import { ScriptedModel, text } from '@toolloop/testing';

export const ALICE = { id: 'alice', name: 'Alice', roles: ['support'] };
export const MIA = { id: 'mia', name: 'Mia', roles: ['manager'] };
const GONE = { id: 'gone', name: 'Gone', roles: [] };

/** A tool whose calls a manager decides, by {@link NOTES_POLICY}. */
export const DELETE_NOTE = tool({
  id: 'notes__delete',
  description: 'Deletes the note.',
  effect: 'state_change',
  reveal: 'all',
  execute: () => 'gone',
});
export const NOTES_POLICY = {
  version: 'v1',
  allow: ['notes__*'],
  requireApproval: [
    { tools: ['notes__delete'], roles: ['manager'], reason: 'A manager looks at it.' },
  ],
};

class People extends ActorDirectory {
  override find(actorId: string, tenant: string): Promise<unknown> {
    return Promise.resolve([ALICE, MIA].find(({ id }) => id === actorId && tenant === 'acme'));
  }
}

/**
 * Answers as the people of the tests: `alice` and `mia` with the password `secret`, and one who is
 * let in and is not in the directory.
 */
export const login: NonNullable<ConsoleOptions['login']> = ({ name, password }) => {
  const person = [ALICE, MIA, GONE].find(({ id }) => id === name && password === 'secret');
  return person && { actor: person, tenant: 'acme' };
};

interface ConsoleServer {
  readonly platform?: 'express' | 'fastify';
  readonly prefix?: string;
  /** Who asks the routes. @default no one but the console */
  readonly identity?: ToolLoopHttpOptions['identity'];
  readonly providers?: Provider[];
  /**
   * What the loop has in place of a model that says hello twice, and a policy that allows nothing.
   */
  readonly loop?: LoopParts;
  /** Modules beside those of the console, such as a storage of runs. */
  readonly modules?: readonly DynamicModule[];
  /** Those of Fastify. */
  readonly routerOptions?: { readonly ignoreTrailingSlash?: boolean };
}

interface ConsoleApp {
  readonly url: string;
  readonly app: INestApplication;
}

type LoopParts = Partial<
  Pick<
    ToolLoopOptions,
    'model' | 'policy' | 'tools' | 'operators' | 'audit' | 'models' | 'candidates'
  >
>;
type Options = ConsoleOptions & { readonly path?: string };

/** The modules of an application with a console. */
export function consoleImports(
  options: Options,
  identity: ToolLoopHttpOptions['identity'] = () => undefined,
  loop: LoopParts = {},
): NonNullable<ModuleMetadata['imports']> {
  return [
    ToolLoopModule.forRoot({
      model: new ScriptedModel([text('Hello.'), text('Hello again.')]),
      policy: { version: 'test-1', allow: [] },
      operators: (_actor, action) => action === 'explain',
      providers: [{ provide: ActorDirectory, useClass: People }],
      ...loop,
    }),
    ToolLoopHttpModule.forRoot({ identity }),
    ConsoleModule.forRoot(options),
  ];
}

export async function serveConsole(
  options: Options,
  {
    platform = 'express',
    prefix = '',
    identity,
    providers = [],
    routerOptions = {},
    loop,
    modules = [],
  }: ConsoleServer = {},
): Promise<ConsoleApp> {
  const imports = [...consoleImports(options, identity, loop), ...modules];
  const built = await Test.createTestingModule({ imports, providers }).compile();
  const adapter =
    platform === 'express'
      ? new ExpressAdapter()
      : new FastifyAdapter({ forceCloseConnections: true, routerOptions });
  const app = built.createNestApplication(adapter, {
    logger: ['fatal'],
    forceCloseConnections: true,
  });
  if (prefix !== '') app.setGlobalPrefix(prefix);
  await app.listen(0, '127.0.0.1');
  return {
    app,
    url: `${await app.getUrl()}${prefix === '' ? '' : `/${prefix.replaceAll('/', '')}`}`,
  };
}
