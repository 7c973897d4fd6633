import { Logger } from '@nestjs/common';
import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  type BearerAuthOptions,
  getOAuthProtectedResourceMetadataUrl,
  hostHeaderValidationResponse,
  OAuthError,
  OAuthErrorCode,
  originValidationResponse,
  verifyBearerToken,
  type VerifyBearerTokenOptions,
} from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { isDeeperThan } from '@toolloop/protocol';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type McpPrincipal, type McpServerOptions, namesOf } from './server-options.js';

const logger = new Logger('McpServer');

/** Deeper than any arguments may be, with the message around them. */
const MOST_LEVELS = 110;

/** A request of Node and the place of its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Undefined where Nest parses no bodies. */
  readonly body: unknown;
}

/** Answers a request of Node's by a function of the web's; a body that is nested too deep is answered here. */
export async function respond({ request, response, body }: Exchange, answer: (web: Request) => Promise<Response>): Promise<void> {
  const isTooDeep = isDeeperThan(MOST_LEVELS, body);
  const fetch = async (web: Request): Promise<Response> => (isTooDeep ? tooDeep() : answer(web));
  await toNodeHandler({ fetch }, { onerror: REPORT })(request, response, isTooDeep ? {} : body);
}

const REPORT = (error: Error): void => logger.error('A request could not be answered.', error);

/** Returns the answer to a request that comes under a wrong name, or from a page of others. */
export function refusedByAddress(request: Request, { hosts, origins }: ReturnType<typeof namesOf>): Response | undefined {
  return hostHeaderValidationResponse(request, hosts) ?? originValidationResponse(request, origins);
}

/** Reads the body of a request that Nest has not read, or returns the answer to one that is no JSON. */
export async function jsonIn(request: Request): Promise<unknown> {
  try {
    const body: unknown = await request.json();
    return isDeeperThan(MOST_LEVELS, body) ? tooDeep() : body;
  } catch {
    return failure(400, -32_700, 'Parse error: the body is no JSON.');
  }
}

/** The refusal of a message that the SDK could not walk, whose checks and writing of JSON go as deep as it. */
function tooDeep(): Response {
  return failure(400, -32_600, `Invalid request: the message is nested deeper than ${MOST_LEVELS} levels.`);
}

/** An answer to a request that reached no server of the protocol. */
export function failure(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status });
}

type AuthenticationOptions = Pick<McpServerOptions, 'verifier' | 'anonymous' | 'requiredScopes' | 'resource'>;

/** Finds out who asks, by the tokens of requests. */
export class Authentication {
  private readonly challenge: Omit<BearerAuthOptions, 'verifier'>;
  private readonly terms: Omit<VerifyBearerTokenOptions, 'verifier'>;

  constructor(private readonly options: AuthenticationOptions) {
    const { requiredScopes, resource } = options;
    this.challenge = {
      ...(requiredScopes && { requiredScopes: [...requiredScopes] }),
      ...(resource && { resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(resource.url)) }),
    };
    this.terms = { ...this.challenge, ...(resource && { expectedResource: new URL(resource.url) }) };
  }

  /** Returns who asks, or the answer to a request that says it badly. */
  async of(request: Request): Promise<McpPrincipal | Response> {
    const { verifier, anonymous } = this.options;
    const header = request.headers.get('authorization');
    if (header === null && anonymous) return anonymous;
    let principal: McpPrincipal | undefined;
    const asked: BearerAuthOptions['verifier'] = {
      verifyAccessToken: async (token) => {
        principal = await verifier.verify(token);
        if (!principal) throw new OAuthError(OAuthErrorCode.InvalidToken, 'The token is unknown, revoked or expired.');
        return claimsOf(principal);
      },
    };
    try {
      await verifyBearerToken(header, { ...this.terms, verifier: asked });
      return principal ?? failure(500, -32_603, 'The token could not be checked.');
    } catch (error) {
      if (error instanceof OAuthError) return bearerAuthChallengeResponse(error, this.challenge);
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
