import type { INestApplicationContext } from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { PendingService } from '@toolloop/core';
import { ActorIdentity } from '@toolloop/core/internal';
import { EventEmitter, once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { McpEndpoint } from './mcp-endpoint.js';
import type { McpPrincipal, McpServerOptions } from './server-options.js';

/** The client of a connection: who its calls act for, and the streams between. */
export interface McpStdioOptions<Actor = unknown> extends Pick<
  McpPrincipal<Actor>,
  'actor' | 'tenant' | 'isPerson'
> {
  /** @default the standard input of the process */
  readonly input?: Readable;
  /**
   * The stream that carries nothing but the protocol. @default the standard output of the process
   */
  readonly output?: Writable;
}

/** A connection over standard input and output. */
export interface McpStdioConnection {
  /** Resolves once the client has closed its end, or `close` was called. */
  readonly closed: Promise<void>;
  close(): Promise<void>;
}

/**
 * Serves the tools of an application to the one MCP client at the other end of the standard input
 * and output, in both eras of the protocol. The options of the application's `McpServerModule` hold
 * here, too; the application need not have one. Every call is the given actor's, since a process
 * has no token.
 *
 * @throws {ConfigurationError} For an actor without an id, and for prompts and resources that are
 *   declared wrongly.
 * @example
 * const app = await NestFactory.createApplicationContext(AppModule, { logger: stderrLogger });
 * await serveMcpStdio(app, { actor: alice, tenant: 'acme' }).closed;
 * await app.close();
 */
export function serveMcpStdio(
  app: Pick<INestApplicationContext, 'get'>,
  options: McpStdioOptions,
): McpStdioConnection {
  const { input, output, ...principal } = options;
  const transport = new ClosingTransport(input, output);
  const connection = endpointOf(app).connect(principal, transport);
  return { closed: transport.closed, close: () => connection.close() };
}

/** Returns the endpoint of the application, or one for its tools where it serves none over HTTP. */
function endpointOf(app: Pick<INestApplicationContext, 'get'>): McpEndpoint {
  const get = <Value>(token: abstract new (...args: never[]) => Value): Value =>
    app.get(token, { strict: false });
  const discovery = get(DiscoveryService);
  const served = discovery.getProviders().find(({ metatype }) => metatype === McpEndpoint)
    ?.instance as unknown;
  if (served instanceof McpEndpoint) return served;
  const endpoint = new McpEndpoint(
    NO_TOKENS,
    get(ModuleRef),
    get(ActorIdentity),
    get(PendingService),
    discovery,
  );
  endpoint.onModuleInit();
  return endpoint;
}

const NO_TOKENS: McpServerOptions = { verifier: { verify: () => undefined } };

/** Tells when the connection has ended, whichever end has closed it. */
class ClosingTransport extends StdioServerTransport {
  private readonly ending = new EventEmitter();
  readonly closed: Promise<void> = once(this.ending, 'end').then(() => undefined);

  override async close(): Promise<void> {
    await super.close();
    this.ending.emit('end');
  }
}
