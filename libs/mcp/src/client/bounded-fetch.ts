import { AsyncLocalStorage } from 'node:async_hooks';
import type { FetchLike } from '@modelcontextprotocol/client';
import { EgressGuard, type EgressOptions } from '@toolloop/protocol/egress';
import { Agent, fetch as send } from 'undici';
import type { McpHttpServer } from './server-options.js';
import type { SentSecrets } from './sent-secrets.js';
import type { Send, Sending } from './unread-results.js';

/**
 * The network of one server. Its own origin is reached under the addresses that it may have;
 * another one only where an authorization server must be asked. Bytes are counted after
 * decompression, while they arrive. Redirects are left to the transport, which follows them within
 * their origin, each through here.
 */
export class BoundedFetch {
  /** The call that is being made, for the requests that belong to it. */
  readonly use = new AsyncLocalStorage<RequestUse>();
  private readonly sending = new AsyncLocalStorage<Sending>();
  private readonly origin: string;
  private readonly own: Route;
  private readonly others: Route | undefined;
  private readonly headers: Headers;

  constructor(
    { url, isPrivate = false, headers = {}, authProvider, egress }: McpHttpServer,
    private readonly most: number,
  ) {
    const { origin, hostname, port, protocol } = new URL(url);
    this.origin = origin;
    const own = Number(port || (protocol === 'https:' ? 443 : 80));
    this.own = new Route({
      allowHosts: [hostname],
      ports: [own],
      allowPrivateAddresses: isPrivate,
    });
    this.others = authProvider && new Route(egress ?? {});
    this.headers = new Headers({ ...headers });
  }

  readonly fetch: FetchLike = async (url, init = {}) => {
    const address = new URL(url);
    const use = this.use.getStore();
    const isOwn = address.origin === this.origin;
    const route = isOwn ? this.own : this.others;
    if (!route)
      throw new Error(
        `A request to ${address.host} was not made: the server has no business with it.`,
      );
    if (this.others) use?.secrets?.note(init);
    const response = await route.request(
      address,
      init,
      isOwn ? this.ownHeaders(use) : new Headers(),
    );
    const { status, statusText, headers, body } = response;
    this.note(headers.get('content-type'));
    const counted =
      body && !NO_BODY.has(status) ? streamOf(this.counted(body, { init, use })) : null;
    return new Response(counted, { status, statusText, headers: [...headers] });
  };

  readonly noting: Send = (sending, work) => this.sending.run(sending, work);

  /** Ends all that is open. */
  async close(): Promise<void> {
    await Promise.all([this.own.close(), this.others?.close()]);
  }

  private note(contentType: string | null): void {
    const sending = this.sending.getStore();
    if (sending) sending.isWhole = contentType?.startsWith('application/json') === true;
  }

  private ownHeaders(use: RequestUse | undefined): Headers {
    const headers = new Headers(this.headers);
    if (use?.token) headers.set('authorization', `Bearer ${use.token()}`);
    return headers;
  }

  /**
   * Passes a body on while it counts: every event of a stream that stays open for notifications by
   * itself, of any other answer the whole.
   */
  private async *counted(
    body: AsyncIterable<Uint8Array<ArrayBuffer>>,
    { init, use }: RequestDetails,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const isOpenEnded =
      init.method === 'GET' ||
      new Headers(init.headers).get('mcp-method') === 'subscriptions/listen';
    let size = 0;
    for await (const chunk of body) {
      size += chunk.byteLength;
      if (size > this.most) {
        const error = new AnswerTooLargeError(this.most);
        use?.fail(error);
        throw error;
      }
      if (isOpenEnded && endsEvent(chunk)) size = 0;
      yield chunk;
    }
  }
}

/** Thrown into whatever reads an answer that is larger than a server may send. */
export class AnswerTooLargeError extends Error {
  override readonly name = 'AnswerTooLargeError';

  constructor(most: number) {
    super(`Its answer has more than ${most} bytes.`);
  }
}

/** The call for which a request is sent: its credential, and the way to end it at once. */
export interface RequestUse {
  /** Returns the token of the call's credential. @throws {Error} once the call is over */
  readonly token?: () => string;
  readonly fail: (error: Error) => void;
  /** Takes note of the credentials of an `authProvider`, which no answer may tell. */
  readonly secrets?: SentSecrets;
}

/** The way to some hosts, whose addresses are checked when the socket connects. */
class Route {
  private readonly guard: EgressGuard;
  private readonly agent: Agent;

  constructor(egress: EgressOptions) {
    this.guard = new EgressGuard(egress);
    this.agent = new Agent({ connect: { lookup: this.guard.lookup }, connections: MOST_SOCKETS });
  }

  async request(
    address: URL,
    init: RequestInit,
    headers: Headers,
  ): Promise<Awaited<ReturnType<typeof send>>> {
    this.guard.check(address.href);
    const { method, signal } = init;
    // which reads a body of any kind
    const request = new Request(address, { ...init, signal: null });
    const body = request.body ? { body: await request.text() } : {};
    return send(address, {
      ...(method !== undefined && { method }),
      ...(signal && { signal }),
      ...body,
      headers: { ...Object.fromEntries(request.headers), ...Object.fromEntries(headers) },
      redirect: init.redirect === 'manual' ? 'manual' : 'error',
      dispatcher: this.agent,
    });
  }

  async close(): Promise<void> {
    await this.agent.destroy();
  }
}

const MOST_SOCKETS = 64;
const NO_BODY: ReadonlySet<number> = new Set([101, 204, 205, 304]);

/** A request, and the call that it is for. */
interface RequestDetails {
  readonly init: RequestInit;
  readonly use: RequestUse | undefined;
}

function streamOf(
  chunks: AsyncGenerator<Uint8Array<ArrayBuffer>>,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const next = await chunks.next();
      if (next.done === true) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      await chunks.return(undefined);
    },
  });
}

const BLANK_LINES: readonly string[] = ['\n\n', '\r\n\r\n', '\r\r'];

function endsEvent(chunk: Uint8Array): boolean {
  const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1');
  return BLANK_LINES.some((line) => text.includes(line));
}
