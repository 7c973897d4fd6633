import {
  classifyInboundRequest,
  type HandleRequestOptions,
  type InboundClassificationOutcome,
  isJsonContentType,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type JSONRPCRequest,
  PerRequestHTTPServerTransport,
  ProtocolErrorCode,
  type RequestId,
  SUPPORTED_PROTOCOL_VERSIONS,
  type TransportSendOptions,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { isObject } from '@toolloop/protocol';
import { type Asked, PostedRequest, type WebAnswer } from './http-requests.js';

/** The revision of the era of 2026. */
export const MODERN_REVISION = '2026-07-28';

const MODERN = { era: 'modern', revision: MODERN_REVISION } as const;

/** Tells the eras apart, and what is wrong with a request, as the SDK does. */
export function classified(asked: Asked, body: unknown): InboundClassificationOutcome {
  const [protocolVersionHeader, mcpMethodHeader] = [
    asked.header('mcp-protocol-version'),
    asked.header('mcp-method'),
  ];
  return classifyInboundRequest({
    httpMethod: asked.method,
    protocolVersionHeader,
    mcpMethodHeader,
    body,
  });
}

/**
 * The methods whose requests are answered here, with the parameter that the header `Mcp-Name` of a
 * request repeats.
 */
const ANSWERED: ReadonlyMap<string, string | undefined> = new Map([
  ['tools/call', 'name'],
  ['tools/list', undefined],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/**
 * Returns a request of the era of 2026 whose headers say what its body says, in the same letters,
 * so that nothing is left to refuse. Any other is the SDK's, which refuses it where it must: one
 * that leaves a header out, or whose name is encoded there.
 */
export function plainRequest(
  route: InboundClassificationOutcome,
  asked: Asked,
): JSONRPCRequest | undefined {
  if (route.kind !== 'modern' || route.messageKind !== 'request') return undefined;
  const { message } = route;
  const named = ANSWERED.get(message.method);
  const isSame =
    asked.header('mcp-protocol-version') === MODERN_REVISION &&
    asked.header('mcp-method') === message.method;
  const isNamed =
    named === undefined
      ? ANSWERED.has(message.method)
      : isPlainly(asked.header('mcp-name'), message.params?.[named]);
  return isSame && isNamed && isPosted(asked) ? message : undefined;
}

function isPlainly(header: string | undefined, name: unknown): boolean {
  return header !== undefined && header === name && !header.startsWith('=?');
}

/** Returns whether a client posts JSON, and takes both forms of its answer. */
function isPosted(asked: Asked): boolean {
  const accepted = asked.header('accept') ?? '';
  return (
    asked.method === 'POST' &&
    ANSWERS.every((type) => accepted.includes(type)) &&
    isJsonContentType(asked.header('content-type'))
  );
}

/** The forms of answers that a client must take. */
const ANSWERS = ['application/json', 'text/event-stream'];

/**
 * One request of the era of 2026, and its answer. The SDK's own makes a stream of each answer, and
 * an error with its stack at the end of each.
 */
export class RequestTransport extends PerRequestHTTPServerTransport {
  private readonly posted = new PostedRequest({});
  private isOver = false;

  /** @param onOver is told once, when the request has its answer, or gets none */
  constructor(private readonly onOver: () => void) {
    super({ classification: MODERN });
  }

  /** @param gone aborts where the client has left, which ends the request */
  answer(message: JSONRPCRequest, gone: AbortSignal): Promise<WebAnswer> {
    const leave = (): void => void this.close();
    gone.addEventListener('abort', leave, { once: true });
    if (gone.aborted) leave();
    if (!this.isOver) this.onmessage?.(message, { classification: MODERN });
    return this.posted.answer;
  }

  override send(message: JSONRPCMessage): Promise<void> {
    this.posted.send(message, statusOf(message));
    if (!('method' in message)) this.over();
    return DONE;
  }

  override close(): Promise<void> {
    if (this.isOver) return DONE;
    this.over();
    this.posted.end();
    this.onclose?.();
    return DONE;
  }

  private over(): void {
    this.isOver = true;
    this.onOver();
  }
}

const DONE = Promise.resolve();

/**
 * Two errors have a status of their own in this era: that a client lacks a capability, and that
 * there is no such method.
 */
function statusOf(message: JSONRPCMessage): number {
  const code = 'error' in message ? message.error.code : undefined;
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return 400;
  return code === ProtocolErrorCode.MethodNotFound ? 404 : 200;
}

/** The requests and the streams of one client in the era of 2025. */
export class ClientTransport extends WebStandardStreamableHTTPServerTransport {
  private readonly unanswered = new Set<unknown>();
  /**
   * The requests under way that are answered here, and not by the SDK's transport, whose every
   * answer is a stream.
   */
  private readonly posted = new Map<unknown, PostedRequest>();
  private isEnding = false;

  constructor(
    sessionId: string,
    private readonly onClosed: () => void,
  ) {
    super({ sessionIdGenerator: () => sessionId });
  }

  /**
   * Closes all streams once the requests under way are answered, one of which may have ended the
   * session.
   */
  end(): void {
    this.isEnding = true;
    if (this.unanswered.size + this.posted.size === 0) void this.close();
  }

  /**
   * Answers a request, of which the SDK's transport does the rest: it refuses what is wrong, begins
   * the session, and takes notifications and answers.
   */
  answer(asked: Asked, parsedBody: unknown): Promise<WebAnswer> {
    const { sessionId } = this;
    const isPlain = sessionId !== undefined && isOfSession(asked, sessionId);
    if (
      !isPlain ||
      !isJSONRPCRequest(parsedBody) ||
      parsedBody.method === 'initialize' ||
      this.posted.has(parsedBody.id)
    )
      return this.handleRequest(asked.whole(), { parsedBody });
    const posted = new PostedRequest({ 'mcp-session-id': sessionId });
    this.posted.set(parsedBody.id, posted);
    this.onmessage?.(parsedBody);
    return posted.answer;
  }

  override async handleRequest(
    request: Request,
    options: HandleRequestOptions = {},
  ): Promise<Response> {
    const messages = [options.parsedBody].flat();
    const asked = messages.flatMap((message) => requestIdIn(message) ?? []);
    for (const id of asked) this.unanswered.add(id);
    const response = await super.handleRequest(request, options);
    if (!response.ok) for (const id of asked) this.forget(id);
    for (const message of messages)
      if (isObject(message) && message['method'] === 'notifications/cancelled')
        this.forget(cancelledIn(message));
    return response;
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const posted = this.posted.get('method' in message ? options?.relatedRequestId : message.id);
    if (posted) posted.send(message);
    else await super.send(message, options);
    if (!('method' in message)) this.forget(message.id);
  }

  override async close(): Promise<void> {
    this.onClosed();
    for (const id of this.posted.keys()) this.forget(id);
    await super.close();
  }

  private forget(id: unknown): void {
    this.unanswered.delete(id);
    this.posted.get(id)?.end();
    this.posted.delete(id);
    if (this.isEnding) this.end();
  }
}

function isOfSession(asked: Asked, sessionId: string): boolean {
  const revision = asked.header('mcp-protocol-version');
  const isKnown = revision === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(revision);
  return isKnown && asked.header('mcp-session-id') === sessionId && isPosted(asked);
}

/** Returns the id of a request. Its form is checked by the transport; here it is only counted. */
function requestIdIn(message: unknown): RequestId | undefined {
  const id = isObject(message) && typeof message['method'] === 'string' ? message['id'] : undefined;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}

function cancelledIn({ params }: Readonly<Record<string, unknown>>): unknown {
  return isObject(params) ? params['requestId'] : undefined;
}
