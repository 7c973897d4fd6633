import { type BeforeApplicationShutdown, Inject, Injectable, Logger, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  type BearerAuthOptions,
  createMcpHandler,
  getOAuthProtectedResourceMetadataUrl,
  hostHeaderValidationResponse,
  isInitializeRequest,
  isLegacyRequest,
  type McpHttpHandler,
  OAuthError,
  OAuthErrorCode,
  originValidationResponse,
  SUPPORTED_PROTOCOL_VERSIONS,
  type Transport,
  verifyBearerToken,
} from '@modelcontextprotocol/server';
import { serveStdio, type StdioServerHandle } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { PendingService, ToolCatalog, ToolLoopService } from '@toolloop/core';
import { ActorIdentity } from '@toolloop/core/internal';
import { ConfigurationError, type Finding, InvalidRequestError, isDeeperThan, isObject } from '@toolloop/protocol';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApprovalAsked, approvalPage } from './approval-page.js';
import { Offers } from './offers.js';
import { type ResourceReaders, ServedSessions } from './served-sessions.js';
import { loopTokenOf, MCP_SERVER, type McpPrincipal, type McpServerOptions, namedToolFindings, namesOf } from './server-options.js';
import { type McpCaller, WaitingCalls } from './waiting-calls.js';

export const MCP_SERVER_OPTIONS = Symbol('toolloop:mcp server options');

const logger = new Logger('McpServer');
const REPORT = (error: Error): void => logger.debug(error.message);
const WITHOUT_ID: Finding = {
  at: 'McpServer',
  problem: 'The actor has no id.',
  remedy: 'Give it one, or set ToolLoopModule.forRoot({ actorId }).',
};
/** Deeper than any arguments may be, with the message around them. */
const MOST_LEVELS = 110;
const SCOPE = /^[A-Za-z0-9_-]{1,64}$/;

/** The part of a request that Nest has read. */
interface Asked {
  /** Undefined where Nest parses no bodies. */
  readonly body: unknown;
  readonly scope: string | undefined;
}

/** Answers the requests of MCP clients at one address, in both eras of the protocol: each is an authenticated caller's, in one of its sessions. */
@Injectable()
export class McpEndpoint implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly sessions: ServedSessions;
  private readonly modern: McpHttpHandler;
  private readonly names: ReturnType<typeof namesOf>;
  private readonly offers: Offers;

  constructor(
    @Inject(MCP_SERVER_OPTIONS) private readonly options: McpServerOptions,
    private readonly modules: ModuleRef,
    identity: ActorIdentity,
    private readonly pending: PendingService,
    discovery: DiscoveryService,
  ) {
    MCP_SERVER.assert(options, 'McpServerModule');
    this.names = namesOf(options);
    const loopOf = (): ToolLoopService => this.loop;
    this.offers = new Offers(discovery);
    this.sessions = new ServedSessions(loopOf, identity, options, new WaitingCalls(loopOf, pending, options), this.offers);
    const { bus, server } = this.sessions;
    this.modern = createMcpHandler(server, { legacy: 'reject', bus, onerror: REPORT });
  }

  /** Fails where the loop that is to be served does not exist, and for prompts and resources that are declared wrongly. */
  onModuleInit(): void {
    void this.loop;
    this.offers.explore();
  }

  /** Fails for names and pages of tools that there are not, once core has all tools together. */
  onApplicationBootstrap(): void {
    const { names = {}, ui = {} } = this.options;
    if (Object.keys(names).length + Object.keys(ui).length === 0) return;
    const pages = this.offers.resources.map(({ options }) => options.uri);
    const findings = namedToolFindings(this.options, this.modules.get(ToolCatalog, { strict: false }), pages);
    if (findings.length > 0) throw new ConfigurationError(findings);
  }

  /**
   * Tells the clients that watch a resource that it has changed: those of one tenant, or of one actor, whom policy allows it. It reaches the clients of this process.
   *
   * @example
   * await endpoint.resourceChanged('orders://7', { tenant: order.tenant });
   */
  async resourceChanged(uri: string, readers: ResourceReaders): Promise<void> {
    await this.sessions.resourceChanged(uri, readers);
  }

  /** The document by which clients find out where to get a token (RFC 9728); undefined where no `resource` is set. */
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
  async handle(request: IncomingMessage, response: ServerResponse, { body, scope }: Asked): Promise<void> {
    const isTooDeep = isDeeperThan(MOST_LEVELS, body);
    const answer = toNodeHandler(
      { fetch: async (web) => (isTooDeep ? tooDeep() : this.answer(web, { body, scope })) },
      { onerror: (error) => logger.error('A request could not be answered.', error) },
    );
    await answer(request, response, isTooDeep ? {} : body);
  }

  /** Answers a person who visits the page of an approval. */
  async approve(request: IncomingMessage, response: ServerResponse, asked: ApprovalAsked): Promise<void> {
    const { hosts, origins } = this.names;
    const fetch = async (web: Request): Promise<Response> =>
      hostHeaderValidationResponse(web, hosts) ??
      originValidationResponse(web, origins) ??
      (await approvalPage(web, asked, { options: this.options, pending: this.pending }));
    await toNodeHandler({ fetch }, { onerror: (error) => logger.error('The page of an approval could not be shown.', error) })(
      request,
      response,
      asked.body,
    );
  }

  /**
   * Serves the one client at the other end of a connection, in the era in which it begins: every call is the principal's.
   *
   * @throws {ConfigurationError} For an actor without an id, whose calls nothing would connect.
   */
  connect(principal: McpPrincipal, transport: Transport): StdioServerHandle {
    const caller = this.sessions.callerOf(principal, {});
    if (!caller) throw new ConfigurationError([WITHOUT_ID]);
    return serveStdio(({ era }) => this.sessions.connected(caller, era), { transport, onerror: REPORT });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all([this.modern.close(), this.sessions.close()]);
  }

  private get loop(): ToolLoopService {
    return this.modules.get(loopTokenOf(this.options) ?? ToolLoopService, { strict: false });
  }

  private async answer(request: Request, { body, scope }: Asked): Promise<Response> {
    const { hosts, origins } = this.names;
    const refused = hostHeaderValidationResponse(request, hosts) ?? originValidationResponse(request, origins);
    if (refused) return refused;
    if (scope !== undefined && !SCOPE.test(scope))
      return failure(404, -32_001, 'A scope has 1 to 64 letters, digits, hyphens and underscores.');
    const principal = await this.authenticated(request);
    if (principal instanceof Response) return principal;
    const caller = this.sessions.callerOf(principal, { scope, address: this.addressOf(request, scope) });
    if (caller) return this.served(request, body, caller);
    logger.error('The verifier returned an actor without an id. Give it one, or set ToolLoopModule.forRoot({ actorId }).');
    return failure(500, -32_603, 'The caller could not be identified.');
  }

  private async served(request: Request, body: unknown, caller: McpCaller): Promise<Response> {
    const parsedBody = request.method === 'POST' ? withoutNullArguments(body ?? (await jsonIn(request))) : undefined;
    if (parsedBody instanceof Response) return parsedBody;
    if (await isLegacy(request, parsedBody)) return this.legacy(request, parsedBody, caller);
    return this.sessions.bus.run(caller, () => this.modern.fetch(request, { parsedBody }));
  }

  private addressOf({ url }: Request, scope: string | undefined): string {
    const { origin, pathname } = new URL(url);
    return this.options.resource?.url ?? origin + (scope === undefined ? pathname : pathname.slice(0, -scope.length)).replace(/\/+$/, '');
  }

  private async legacy(request: Request, parsedBody: unknown, caller: McpCaller): Promise<Response> {
    const sessionId = request.headers.get('mcp-session-id');
    if (sessionId !== null) {
      const found = this.sessions.find(sessionId, caller);
      return found ? found.handleRequest(request, { parsedBody }) : failure(404, -32_001, 'Session not found');
    }
    if (request.method !== 'POST' || !isInitializeRequest(parsedBody))
      return failure(400, -32_000, 'Bad Request: Mcp-Session-Id header is required');
    try {
      const transport = await this.sessions.begin(caller);
      return await transport.handleRequest(request, { parsedBody });
    } catch (error) {
      if (error instanceof InvalidRequestError) return failure(error.code === 'too_many_sessions' ? 429 : 400, -32_000, error.message);
      throw error;
    }
  }

  /** Returns who asks, or the answer to a request that says it badly. */
  private async authenticated(request: Request): Promise<McpPrincipal | Response> {
    const { verifier, anonymous, requiredScopes, resource } = this.options;
    const header = request.headers.get('authorization');
    if (header === null && anonymous) return anonymous;
    let principal: McpPrincipal | undefined;
    const terms: BearerAuthOptions = {
      verifier: {
        verifyAccessToken: async (token) => {
          principal = await verifier.verify(token);
          if (!principal) throw new OAuthError(OAuthErrorCode.InvalidToken, 'The token is unknown, revoked or expired.');
          return claimsOf(principal);
        },
      },
      ...(requiredScopes && { requiredScopes: [...requiredScopes] }),
      ...(resource && { resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(resource.url)) }),
    };
    try {
      await verifyBearerToken(header, { ...terms, ...(resource && { expectedResource: new URL(resource.url) }) });
      return principal ?? failure(500, -32_603, 'The token could not be checked.');
    } catch (error) {
      if (error instanceof OAuthError) return bearerAuthChallengeResponse(error, terms);
      logger.error('The verifier failed.', error);
      return failure(500, -32_603, 'The token could not be checked.');
    }
  }
}

/** The claims of a token as the SDK checks them. The token itself goes no further. */
function claimsOf({ scopes = [], audience, expiresAt }: McpPrincipal): AuthInfo {
  return {
    token: '',
    clientId: '',
    scopes: [...scopes],
    expiresAt: Math.floor((expiresAt?.getTime() ?? Date.now() + JUST_CHECKED_MS) / 1000),
    ...(audience !== undefined && URL.canParse(audience) && { resource: new URL(audience) }),
  };
}

/** A verifier that names no end has said of this moment that the token is good. */
const JUST_CHECKED_MS = 60_000;

const OLDER_REVISIONS: ReadonlySet<string> = new Set(SUPPORTED_PROTOCOL_VERSIONS);
const MODERN_REVISION = '2026-07-28';

/** Tells the eras apart as the SDK does, and without parsing a message where its headers leave no doubt. */
function isLegacy(request: Request, body: unknown): boolean | Promise<boolean> {
  const revision = request.headers.get('mcp-protocol-version');
  if (revision === null || !isObject(body) || !('method' in body)) return isLegacyRequest(request, body);
  if (revision === MODERN_REVISION) return false;
  const hasEnvelope = isObject(body['params']) && '_meta' in body['params'];
  const isOfSession = OLDER_REVISIONS.has(revision) && request.headers.has('mcp-session-id');
  return (isOfSession && !hasEnvelope) || isLegacyRequest(request, body);
}

async function jsonIn(request: Request): Promise<unknown> {
  try {
    const body: unknown = await request.json();
    return isDeeperThan(MOST_LEVELS, body) ? tooDeep() : body;
  } catch {
    return failure(400, -32_700, 'Parse error: the body is no JSON.');
  }
}

/** Some clients send `null` for no arguments. */
function withoutNullArguments(body: unknown): unknown {
  if (!isObject(body) || !isObject(body['params']) || body['params']['arguments'] !== null) return body;
  const { arguments: _, ...params } = body['params'];
  return { ...body, params };
}

/** The refusal of a message that the SDK could not walk, whose checks and writing of JSON go as deep as it. */
function tooDeep(): Response {
  return failure(400, -32_600, `Invalid request: the message is nested deeper than ${MOST_LEVELS} levels.`);
}

function failure(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status });
}
