import { Logger } from '@nestjs/common';
import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  type BearerAuthOptions,
  getOAuthProtectedResourceMetadataUrl,
  hostHeaderValidationResponse,
  isJsonContentType,
  type JSONRPCMessage,
  OAuthError,
  OAuthErrorCode,
  originValidationResponse,
  verifyBearerToken,
  type VerifyBearerTokenOptions,
} from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { isDeeperThan } from '@toolloop/protocol';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
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

/**
 * Answers a request of Node's by a function of the web's; a body that is nested too deep is answered here. A body that Nest has read is not written again for the web's request, whose headers alone are read
 * then, and one piece of JSON is sent as one: with `toNodeHandler` of the SDK both take a tenth of a short call.
 */
export async function respond(exchange: Exchange, answer: (web: Request) => Promise<WebAnswer>): Promise<void> {
  const { request, response, body } = exchange;
  if (body === undefined) {
    const fetch = async (web: Request): Promise<Response> => wholeOf(await answer(web));
    return toNodeHandler({ fetch }, { onerror: REPORT })(request, response);
  }
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  if (response.destroyed) leave();
  else response.once('close', leave);
  await send(await answered(exchange, gone.signal, answer), response, gone.signal);
  response.off('close', leave);
}

/** Never rejects. */
async function answered({ request, body }: Exchange, gone: AbortSignal, answer: Parameters<typeof respond>[1]): Promise<WebAnswer> {
  try {
    return isDeeperThan(MOST_LEVELS, body) ? tooDeep() : await answer(withoutBody(request, gone));
  } catch (error) {
    logger.error('A request could not be answered.', error);
    return failure(500, -32_603, 'Internal server error');
  }
}

/** The parts of a request that are read of each. */
type Head = Pick<Request, 'method' | 'url' | 'headers' | 'signal'>;

/** A request of which only the head is there. A whole one costs as much as all stages of a short call, and is made for whatever else is read of it. */
class BodilessRequest {
  constructor(readonly head: Head) {}
}

Object.setPrototypeOf(BodilessRequest.prototype, Request.prototype);
for (const name of Reflect.ownKeys(Request.prototype))
  if (name !== 'constructor')
    Object.defineProperty(BodilessRequest.prototype, name, {
      get(this: BodilessRequest): unknown {
        return partOf(this.head, name);
      },
    });

function partOf(head: Head, name: string | symbol): unknown {
  if (Object.hasOwn(head, name)) return Reflect.get(head, name);
  const whole = new Request(head.url, head);
  const part: unknown = Reflect.get(whole, name);
  return typeof part === 'function' ? part.bind(whole) : part;
}

function withoutBody({ method = 'GET', headers, url = '/' }: IncomingMessage, signal: AbortSignal): Request {
  const given = new Headers();
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !name.startsWith(':')) given.set(name, Array.isArray(value) ? value.join(', ') : value);
  const request: unknown = new BodilessRequest({ method, url: `http://${headers.host ?? 'localhost'}${url}`, headers: given, signal });
  if (request instanceof Request) return request;
  throw new TypeError('Its prototype is that of requests.');
}

/** Sends an answer, which may be a stream without an end, as fast as its reader takes it. Never rejects: a reader that is gone is told nothing. */
async function send(answer: WebAnswer, response: ServerResponse, gone: AbortSignal): Promise<void> {
  response.statusCode = answer.status;
  if (answer instanceof JsonText) return sendText(answer.text, response, { ...answer.headers, 'content-type': 'application/json' });
  const headers = Object.fromEntries(answer.headers);
  try {
    if (isJsonContentType(answer.headers.get('content-type'))) return sendText(await answer.text(), response, headers);
    response.writeHead(answer.status, headers);
    if (answer.body) await sendPieces(answer.body.getReader(), response, gone);
  } catch (error) {
    logger.debug(error instanceof Error ? error.message : String(error));
  }
  response.end();
}

function sendText(text: string, response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  response.writeHead(response.statusCode, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
}

/** Sends the pieces of a stream. One behind which the stream ends at once goes out with its end. */
async function sendPieces(reader: ReadableStreamDefaultReader<Uint8Array>, response: ServerResponse, gone: AbortSignal): Promise<void> {
  try {
    for (let next = await reader.read(); !next.done && !gone.aborted;) {
      const following = reader.read();
      following.catch(() => undefined); // it is awaited below, unless this reader is gone
      const soon = await Promise.race([following, setImmediate(undefined)]);
      if (soon?.done) return void response.end(next.value);
      if (!response.write(next.value)) await once(response, 'drain', { signal: gone });
      next = soon ?? (await following);
    }
  } finally {
    if (gone.aborted) await reader.cancel();
  }
}

/** An answer to a request of the web's. */
export type WebAnswer = Response | JsonText;

/** A text of JSON that answers a request. A `Response` is a stream in any case, which costs more to make and to read than a short call. */
class JsonText {
  constructor(
    readonly text: string,
    readonly headers: Readonly<Record<string, string>>,
    readonly status: number,
  ) {}
}

function wholeOf(answer: WebAnswer): Response {
  if (answer instanceof Response) return answer;
  return new Response(answer.text, { status: answer.status, headers: { ...answer.headers, 'content-type': 'application/json' } });
}

/** The time after which a request without an answer is answered by events, and between the signs of life in them. */
const BEAT_MS = 5_000;

/**
 * A request of a client that takes JSON and events. Where the first that is sent for it is its result, it is answered by that, in one piece; by events where something else comes before, such as
 * its progress or a question, or nothing for a while.
 */
export class PostedRequest {
  readonly answer: Promise<WebAnswer>;
  private begin: (answer: WebAnswer) => void = () => undefined;
  private events: ReadableStreamDefaultController<Uint8Array> | undefined;
  private isOver = false;
  private readonly beats = setInterval(() => this.tell(': keepalive'), BEAT_MS).unref();

  /** @param headers those of the answer, beside its type */
  constructor(private readonly headers: Readonly<Record<string, string>>) {
    this.answer = new Promise((resolve) => (this.begin = resolve));
  }

  /** @param status that of an answer which is its result alone; events have begun with 200 */
  send(message: JSONRPCMessage, status = 200): void {
    const text = JSON.stringify(message);
    const isResult = !('method' in message);
    if (!isResult || this.events) this.tell(`event: message\ndata: ${text}`);
    if (!isResult) return;
    if (this.events) return this.end();
    this.begin(new JsonText(text, this.headers, status));
    this.stop();
  }

  /** Ends the answer; one that has not begun tells nothing. */
  end(): void {
    if (this.isOver) return;
    this.opened()?.close();
    this.stop();
  }

  private tell(event: string): void {
    if (!this.isOver) this.opened()?.enqueue(Buffer.from(`${event}\n\n`));
  }

  private opened(): ReadableStreamDefaultController<Uint8Array> | undefined {
    if (!this.events) {
      const body = new ReadableStream<Uint8Array>({ start: (events) => void (this.events = events), cancel: () => this.stop() });
      this.begin(new Response(body, { headers: { ...this.headers, ...OF_EVENTS } }));
    }
    return this.events;
  }

  private stop(): void {
    this.isOver = true;
    clearInterval(this.beats);
  }
}

/** As the SDK has them for its own streams. */
const OF_EVENTS = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' };

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
