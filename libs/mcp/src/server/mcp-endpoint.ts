import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleInit,
} from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import {
  createMcpHandler,
  isInitializeRequest,
  type McpHttpHandler,
  type Transport,
} from '@modelcontextprotocol/server';
import { serveStdio, type StdioServerHandle } from '@modelcontextprotocol/server/stdio';
import { PendingService, ToolCatalog, ToolLoopService } from '@toolloop/core';
import { ActorIdentity, Logger } from '@toolloop/core/internal';
import {
  ConfigurationError,
  type Finding,
  InvalidRequestError,
  isObject,
} from '@toolloop/protocol';
import { approvalPage } from './approval-page.js';
import { classified, plainRequest } from './client-transports.js';
import {
  type Asked,
  Authentication,
  type Exchange,
  failure,
  refusedByAddress,
  respond,
  type WebAnswer,
} from './http-requests.js';
import { Guesses } from './guesses.js';
import { Offers } from './offers.js';
import { type ResourceReaders, ServedSessions } from './served-sessions.js';
import {
  loopTokenOf,
  MCP_SERVER,
  type McpPrincipal,
  type McpServerOptions,
  namedToolFindings,
  namesOf,
} from './server-options.js';
import { type McpCaller, WaitingCalls } from './waiting-calls.js';

export const MCP_SERVER_OPTIONS = Symbol('toolloop:mcp server options');

/**
 * Answers the requests of MCP clients at one address, in both eras of the protocol: each is an
 * authenticated caller's, in one of its sessions.
 */
@Injectable()
export class McpEndpoint
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown
{
  private readonly sessions: ServedSessions;
  private readonly modern: McpHttpHandler;
  private readonly names: ReturnType<typeof namesOf>;
  private readonly authentication: Authentication;
  private readonly offers: Offers;
  /** The words that were typed at the page of approvals. Each process counts its own. */
  private readonly guesses = new Guesses();

  constructor(
    @Inject(MCP_SERVER_OPTIONS) private readonly options: McpServerOptions,
    private readonly modules: ModuleRef,
    identity: ActorIdentity,
    private readonly pending: PendingService,
    discovery: DiscoveryService,
  ) {
    MCP_SERVER.assert(options, 'McpServerModule');
    this.names = namesOf(options);
    this.authentication = new Authentication(options);
    const loopOf = (): ToolLoopService => this.loop;
    this.offers = new Offers(discovery);
    this.sessions = new ServedSessions(
      loopOf,
      identity,
      options,
      new WaitingCalls(loopOf, pending, options),
      this.offers,
    );
    const { bus, server } = this.sessions;
    this.modern = createMcpHandler(server, { legacy: 'reject', bus, onerror: REPORT });
  }

  /**
   * Fails where the loop that is to be served does not exist, and for prompts and resources that
   * are declared wrongly.
   */
  onModuleInit(): void {
    void this.loop;
    this.offers.explore();
  }

  /** Fails for names and pages of tools that there are not, once core has all tools together. */
  onApplicationBootstrap(): void {
    const { names = {}, ui = {} } = this.options;
    if (Object.keys(names).length + Object.keys(ui).length === 0) return;
    const pages = this.offers.resources.map(({ options }) => options.uri);
    const findings = namedToolFindings(
      this.options,
      this.modules.get(ToolCatalog, { strict: false }),
      pages,
    );
    if (findings.length > 0) throw new ConfigurationError(findings);
  }

  /**
   * Tells the clients that watch a resource that it has changed: those of one tenant, or of one
   * actor, whom policy allows it. It reaches the clients of this process.
   *
   * @example
   * await endpoint.resourceChanged('orders://7', { tenant: order.tenant });
   */
  async resourceChanged(uri: string, readers: ResourceReaders): Promise<void> {
    await this.sessions.resourceChanged(uri, readers);
  }

  /**
   * The document by which clients find out where to get a token (RFC 9728); undefined where no
   * `resource` is set.
   */
  get metadata(): Readonly<Record<string, unknown>> | undefined {
    const { resource, requiredScopes, name } = this.options;
    return (
      resource && {
        resource: resource.url,
        authorization_servers: resource.authorizationServers,
        bearer_methods_supported: ['header'],
        ...(requiredScopes && { scopes_supported: requiredScopes }),
        ...(name !== undefined && { resource_name: name }),
      }
    );
  }

  /** Answers one request, whose body Nest may have read already. */
  async handle(exchange: Exchange, scope: string | undefined): Promise<void> {
    await respond(exchange, (asked) => this.answer(asked, scope));
  }

  /** Answers a person who visits the page of an approval. */
  async approve(exchange: Exchange, approvalId: string): Promise<void> {
    const { options, pending, guesses } = this;
    const visit = { approvalId, body: exchange.body };
    await respond(
      exchange,
      async (asked) =>
        refusedByAddress(asked, this.names) ??
        (await approvalPage(asked, visit, { options, pending, guesses })),
    );
  }

  /**
   * Serves the one client at the other end of a connection, in the era in which it begins: every
   * call is the principal's.
   *
   * @throws {ConfigurationError} For an actor without an id, whose calls nothing would connect.
   */
  connect(principal: McpPrincipal, transport: Transport): StdioServerHandle {
    const caller = this.sessions.callerOf(principal, {});
    if (!caller) throw new ConfigurationError([WITHOUT_ID]);
    return serveStdio(({ era }) => this.sessions.connected(caller, era), {
      transport,
      onerror: REPORT,
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all([this.modern.close(), this.sessions.close()]);
  }

  private get loop(): ToolLoopService {
    return this.modules.get(loopTokenOf(this.options) ?? ToolLoopService, { strict: false });
  }

  private async answer(asked: Asked, scope: string | undefined): Promise<WebAnswer> {
    const refused = refusedByAddress(asked, this.names);
    if (refused) return refused;
    if (scope !== undefined && !SCOPE.test(scope))
      return failure(404, -32_001, 'A scope has 1 to 64 letters, digits, hyphens and underscores.');
    const principal = await this.authentication.of(asked);
    if (principal instanceof Response) return principal;
    const caller = this.sessions.callerOf(principal, {
      scope,
      address: () => this.addressOf(asked.url, scope),
    });
    if (caller) return this.served(asked, caller);
    logger.error(
      'The verifier returned an actor without an id. Give it one, or set ToolLoopModule.forRoot({ actorId }).',
    );
    return failure(500, -32_603, 'The caller could not be identified.');
  }

  private async served(asked: Asked, caller: McpCaller): Promise<WebAnswer> {
    const parsedBody =
      asked.method === 'POST' ? withoutNullArguments(await asked.json()) : undefined;
    if (parsedBody instanceof Response) return parsedBody;
    const route = classified(asked, parsedBody);
    if (route.kind === 'legacy') return this.legacy(asked, parsedBody, caller);
    const plain = plainRequest(route, asked);
    if (plain) return this.sessions.answer(plain, caller, asked.gone);
    return this.sessions.bus.run(caller, () => this.modern.fetch(asked.whole(), { parsedBody }));
  }

  /**
   * Returns the address of the server itself: without the scope, which is the last part of the path
   * however the client encodes it.
   */
  private addressOf(url: string, scope: string | undefined): string {
    const { origin, pathname } = new URL(url);
    return (
      this.options.resource?.url ??
      origin + pathname.replace(scope === undefined ? /\/+$/ : /\/[^/]*\/*$/, '')
    );
  }

  private async legacy(asked: Asked, parsedBody: unknown, caller: McpCaller): Promise<WebAnswer> {
    const sessionId = asked.header('mcp-session-id');
    if (sessionId !== undefined) {
      const found = this.sessions.find(sessionId, caller);
      return found ? found.answer(asked, parsedBody) : failure(404, -32_001, 'Session not found');
    }
    if (asked.method !== 'POST' || !isInitializeRequest(parsedBody))
      return failure(400, -32_000, 'Bad Request: Mcp-Session-Id header is required');
    try {
      const transport = await this.sessions.begin(caller);
      return await transport.answer(asked, parsedBody);
    } catch (error) {
      if (error instanceof InvalidRequestError)
        return failure(error.code === 'too_many_sessions' ? 429 : 400, -32_000, error.message);
      throw error;
    }
  }
}

const logger = new Logger('McpServer');
const REPORT = (error: Error): void => logger.debug(error.message);
const WITHOUT_ID: Finding = {
  at: 'McpServer',
  problem: 'The actor has no id.',
  remedy: 'Give it one, or set ToolLoopModule.forRoot({ actorId }).',
};
const SCOPE = /^[A-Za-z0-9_-]{1,64}$/;

/** Some clients send `null` for no arguments. */
function withoutNullArguments(body: unknown): unknown {
  if (!isObject(body) || !isObject(body['params']) || body['params']['arguments'] !== null)
    return body;
  const { arguments: _, ...params } = body['params'];
  return { ...body, params };
}
