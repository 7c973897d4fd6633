import { Logger } from '@toolloop/core/internal';
import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  type BearerAuthOptions,
  getOAuthProtectedResourceMetadataUrl,
  isJsonContentType,
  type JSONRPCMessage,
  OAuthError,
  OAuthErrorCode,
  validateHostHeader,
  validateOriginHeader,
  verifyBearerToken,
  type VerifyBearerTokenOptions,
} from '@modelcontextprotocol/server';
import { toWebRequest } from '@modelcontextprotocol/node';
import { isDeeperThan } from '@toolloop/protocol';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { type McpPrincipal, type McpServerOptions, namesOf } from './server-options.js';

/** A request of Node and the place of its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Undefined where Nest parses no bodies. */
  readonly body: unknown;
}

const logger = new Logger('McpServer');

/** Deeper than any arguments may be, with the message around them. */
const MOST_LEVELS = 110;
/** The SDK has the same limit, and reads all of a longer batch before it looks. */
const MOST_IN_BATCH = 100;

/** A request, as far as it is read here. */
export class Asked {
  constructor(
    private readonly exchange: Exchange,
    /** Aborts once its client has left. */
    readonly gone: AbortSignal,
  ) {}

  get method(): string {
    return this.exchange.request.method ?? 'GET';
  }

  get url(): string {
    return `http://${this.header('host') ?? 'localhost'}${this.exchange.request.url ?? '/'}`;
  }

  get headers(): Readonly<Record<string, string>> {
    const names = Object.keys(this.exchange.request.headers).filter(
      (name) => !name.startsWith(':'),
    );
    return Object.fromEntries(names.map((name) => [name, this.header(name) ?? '']));
  }

  /**
   * The address that it comes from, behind the proxies that the platform trusts; empty where that
   * is not known.
   */
  get address(): string {
    const ip: unknown = Reflect.get(this.exchange.request, 'ip');
    return typeof ip === 'string' ? ip : (this.exchange.request.socket.remoteAddress ?? '');
  }

  header(name: string): string | undefined {
    const value = this.exchange.request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  /**
   * Returns its body, which is read here where Nest has not read it, or the answer to one that is
   * too large, too deep or no JSON.
   */
  async json(): Promise<unknown> {
    const { request, body } = this.exchange;
    try {
      const read: unknown = body ?? (await (await toWebRequest(request)).json());
      return tooMuchIn(read) ?? read;
    } catch (error) {
      return isTooLarge(error)
        ? tooLarge(error.message)
        : failure(400, -32_700, 'Parse error: the body is no JSON.');
    }
  }

  /** Makes a request of the web's of its head, for the SDK, which is given the body beside it. */
  whole(): Request {
    const { method, headers, gone: signal } = this;
    return new Request(this.url, { method, headers, signal });
  }
}

/**
 * Answers a request of Node's. A request of the web's is made of it only for what needs one, and
 * one piece of JSON is sent as one: with `toNodeHandler` of the SDK both take a tenth of a short
 * call. Never rejects.
 */
export async function respond(
  exchange: Exchange,
  answer: (asked: Asked) => Promise<WebAnswer>,
): Promise<void> {
  const { response } = exchange;
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  if (response.destroyed) leave();
  else response.once('close', leave);
  await send(await answer(new Asked(exchange, gone.signal)).catch(failed), response, gone.signal);
  response.off('close', leave);
}

function failed(error: unknown): Response {
  logger.error('A request could not be answered.', error);
  return failure(500, -32_603, 'Internal server error');
}

/**
 * Sends an answer, which may be a stream without an end, as fast as its reader takes it. Never
 * rejects: a reader that is gone is told nothing.
 */
async function send(answer: WebAnswer, response: ServerResponse, gone: AbortSignal): Promise<void> {
  try {
    response.statusCode = answer.status;
    if (answer instanceof JsonText)
      return sendText(answer.text, response, {
        ...answer.headers,
        'content-type': 'application/json',
      });
    const headers = Object.fromEntries(answer.headers);
    if (isJsonContentType(answer.headers.get('content-type')))
      return sendText(await answer.text(), response, headers);
    response.writeHead(answer.status, headers);
    if (answer.body) await sendPieces(answer.body.getReader(), response, gone);
  } catch (error) {
    logger.debug(error instanceof Error ? error.message : String(error));
  }
  response.end();
}

function sendText(
  text: string,
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
): void {
  response
    .writeHead(response.statusCode, { ...headers, 'content-length': Buffer.byteLength(text) })
    .end(text);
}

/** Sends the pieces of a stream. One behind which the stream ends at once goes out with its end. */
async function sendPieces(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
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

/**
 * A text of JSON that answers a request. A `Response` is a stream in any case, which costs more to
 * make and to read than a short call.
 */
class JsonText {
  constructor(
    readonly text: string,
    readonly headers: Readonly<Record<string, string>>,
    readonly status: number,
  ) {}
}

/**
 * The time after which a request without an answer is answered by events, and between the signs of
 * life in them.
 */
const BEAT_MS = 5_000;

/**
 * A request of a client that takes JSON and events. Where the first that is sent for it is its
 * result, it is answered by that, in one piece; by events where something else comes before, such
 * as its progress or a question, or nothing for a while.
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
    const isResult = !('method' in message);
    if (!isResult && message.method === 'notifications/progress' && this.isBehind) return;
    const text = JSON.stringify(message);
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

  /**
   * Returns whether the reader stands still. It is told no progress then: what comes later says as
   * much.
   */
  private get isBehind(): boolean {
    return (this.events?.desiredSize ?? 0) < -MOST_WAITING;
  }

  private tell(event: string): void {
    if (!this.isOver) this.opened()?.enqueue(Buffer.from(`${event}\n\n`));
  }

  private opened(): ReadableStreamDefaultController<Uint8Array> | undefined {
    if (!this.events) {
      const body = new ReadableStream<Uint8Array>({
        start: (events) => void (this.events = events),
        cancel: () => this.stop(),
      });
      this.begin(new Response(body, { headers: { ...this.headers, ...OF_EVENTS } }));
    }
    return this.events;
  }

  private stop(): void {
    this.isOver = true;
    clearInterval(this.beats);
  }
}

/** The most events that wait for a reader before progress is left out. */
const MOST_WAITING = 1_000;

/** As the SDK has them for its own streams. */
const OF_EVENTS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

/** Returns the answer to a request that comes under a wrong name, or from a page of others. */
export function refusedByAddress(
  asked: Asked,
  { hosts, origins }: ReturnType<typeof namesOf>,
): Response | undefined {
  const host = validateHostHeader(asked.header('host'), hosts);
  const checked = host.ok ? validateOriginHeader(asked.header('origin'), origins) : host;
  return checked.ok ? undefined : failure(403, -32_000, checked.message);
}

/** Tells the SDK's error for a body of more than 4 MiB, whose class it does not export. */
function isTooLarge(error: unknown): error is Error {
  return error instanceof Error && 'status' in error && error.status === 413;
}

/** The rest of such a body is not waited for. */
function tooLarge(message: string): Response {
  const refused = failure(413, -32_000, message);
  refused.headers.set('connection', 'close');
  return refused;
}

/**
 * Refuses a message that the SDK could not walk, whose checks and writing of JSON go as deep as it,
 * and a batch that it would be long about.
 */
function tooMuchIn(body: unknown): Response | undefined {
  if (isDeeperThan(MOST_LEVELS, body))
    return failure(
      400,
      -32_600,
      `Invalid request: the message is nested deeper than ${MOST_LEVELS} levels.`,
    );
  if (!Array.isArray(body) || body.length <= MOST_IN_BATCH) return undefined;
  return failure(400, -32_600, `Invalid request: a batch has ${MOST_IN_BATCH} messages at most.`);
}

/** An answer to a request that reached no server of the protocol. */
export function failure(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status });
}

type AuthenticationOptions = Pick<
  McpServerOptions,
  'verifier' | 'anonymous' | 'requiredScopes' | 'resource'
>;

/** Finds out who asks, by the tokens of requests. */
export class Authentication {
  private readonly challenge: Omit<BearerAuthOptions, 'verifier'>;
  private readonly terms: Omit<VerifyBearerTokenOptions, 'verifier'>;

  constructor(private readonly options: AuthenticationOptions) {
    const { requiredScopes, resource } = options;
    this.challenge = {
      ...(requiredScopes && { requiredScopes: [...requiredScopes] }),
      ...(resource && {
        resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(resource.url)),
      }),
    };
    this.terms = {
      ...this.challenge,
      ...(resource && { expectedResource: new URL(resource.url) }),
    };
  }

  /** Returns who asks, or the answer to a request that says it badly. */
  async of(asked: Asked): Promise<McpPrincipal | Response> {
    const { verifier, anonymous } = this.options;
    const header = asked.header('authorization');
    if (header === undefined && anonymous) return anonymous;
    let principal: McpPrincipal | undefined;
    const checked: BearerAuthOptions['verifier'] = {
      verifyAccessToken: async (token) => {
        principal = await verifier.verify(token);
        if (!principal)
          throw new OAuthError(
            OAuthErrorCode.InvalidToken,
            'The token is unknown, revoked or expired.',
          );
        return claimsOf(principal);
      },
    };
    try {
      await verifyBearerToken(header, { ...this.terms, verifier: checked });
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
