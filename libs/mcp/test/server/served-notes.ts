import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication, Type } from '@nestjs/common';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { ToolLoopModule, type ToolLoopOptions, type ToolLoopExtras } from '@toolloop/core';
import {
  McpServerModule,
  type McpPrincipal,
  type McpServerExtras,
  type McpServerOptions,
} from '@toolloop/mcp';
import { ScriptedModel } from '@toolloop/testing';
import { Note, NotesModule } from './notes.js';

/** The people of two tenants, by their tokens. */
export const PEOPLE: Readonly<Record<string, McpPrincipal>> = {
  alice: { actor: { id: 'alice', roles: ['clerk'] }, tenant: 'acme' },
  mia: { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' },
  bob: { actor: { id: 'bob', roles: ['clerk'] }, tenant: 'globex' },
  otto: { actor: { id: 'otto', roles: ['clerk', 'operator'] }, tenant: 'acme' },
  olga: { actor: { id: 'olga', roles: ['clerk', 'operator'] }, tenant: 'globex' },
};

const POLICY = {
  version: '1',
  flow: 'off',
  allow: ['notes__*', 'note_*_*'],
  roles: {
    clerk: { allow: ['notes__*', 'note_*_*'], deny: ['notes__manage'] },
    manager: { allow: ['notes__*', 'note_*_*'] },
  },
} as const;

export interface Served {
  readonly url: string;
  readonly app: INestApplication;
}

export interface NotesOptions {
  readonly server?: Partial<McpServerOptions> & McpServerExtras;
  readonly loop?: Partial<ToolLoopOptions> & ToolLoopExtras;
  /** Classes beside the tools of notes. */
  readonly providers?: Type[];
  readonly platform?: 'express' | 'fastify';
  /** `false` for an application that leaves the bodies to the server. */
  readonly bodyParser?: boolean;
  /** The address on which it listens. @default '127.0.0.1' */
  readonly host?: string;
}

const open = new Set<Served>();
const clients = new Set<Client>();

/** An application with tools of notes, served over MCP on a free port. */
export async function serve(options: NotesOptions = {}): Promise<Served> {
  const {
    server,
    loop,
    providers = [],
    platform = 'express',
    bodyParser = true,
    host = '127.0.0.1',
  } = options;
  const { policy = POLICY, ...more } = loop ?? {};
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy, ...more }),
      ToolLoopModule.forFeature({ entities: [Note] }),
      NotesModule,
      McpServerModule.forRoot({ verifier: { verify: (token) => PEOPLE[token] }, ...server }),
    ],
    providers,
  }).compile();
  const settings = { logger: false, forceCloseConnections: true, bodyParser } as const;
  const app =
    platform === 'fastify'
      ? module.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), settings)
      : module.createNestApplication(settings);
  await app.listen(0, host);
  const { port } = new URL(await app.getUrl());
  const served = { url: `http://127.0.0.1:${port}`, app };
  open.add(served);
  return served;
}

/** Closes what a test has opened. */
export async function closeAll(): Promise<void> {
  await Promise.allSettled([...clients].map((client) => client.close()));
  await Promise.all([...open].map(({ app }) => app.close()));
  clients.clear();
  open.clear();
}

export const ERAS = ['2026', '2025'] as const;
export type Era = (typeof ERAS)[number];

export interface Connection {
  readonly token?: string;
  readonly path?: string;
  readonly era?: Era;
  readonly options?: ConstructorParameters<typeof Client>[1];
}

/** A client of the official SDK. */
export async function connect(
  { url }: Served,
  { token = 'alice', path = '/mcp', era = '2026', options }: Connection = {},
): Promise<Client> {
  const client = new Client(
    { name: 'spec', version: '1' },
    { versionNegotiation: { mode: era === '2026' ? { pin: '2026-07-28' } : 'legacy' }, ...options },
  );
  clients.add(client);
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(path, url), { requestInit: { headers } }),
  );
  return client;
}

/** A request without a client, as an attacker would make it. */
export function post(
  { url }: Served,
  body: unknown,
  { path = '/mcp', ...headers }: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const { authorization = 'Bearer alice', ...more } = headers;
  return fetch(new URL(path, url), {
    method: 'POST',
    headers: {
      ...(authorization !== '' && { authorization }),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...more,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}
