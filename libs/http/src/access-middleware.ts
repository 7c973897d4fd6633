import { isIP, BlockList } from 'node:net';
import type { IncomingMessage } from 'node:http';
import {
  BadRequestException,
  ForbiddenException,
  Inject,
  Injectable,
  type NestMiddleware,
} from '@nestjs/common';
import { HTTP_OPTIONS, type ToolLoopHttpOptions } from './http-options.js';

/**
 * Answers only under the application's own names, and only to its own pages and those that it
 * admits. Without this, any web page could point a name of its own at 127.0.0.1 (DNS rebinding) and
 * talk to the application through the visitor's browser. Names are checked where the options list
 * them.
 */
@Injectable()
export class AccessMiddleware implements NestMiddleware {
  private readonly proxies: BlockList;

  constructor(@Inject(HTTP_OPTIONS) private readonly options: ToolLoopHttpOptions) {
    this.proxies = listOf(options.proxies ?? []);
  }

  /** @throws {ForbiddenException} For a host or a page that is not admitted. */
  use(request: IncomingMessage, _response: unknown, next: () => void): void {
    const { hosts, origins = [] } = this.options;
    if (!hosts) return next();
    assertSingle(request);
    const { host, protocol } = this.addressOf(request);
    if (!hosts.includes(host) && !isLoopback(host, request.socket.localPort))
      throw forbidden('forbidden_host', `This server does not answer as "${host}".`);
    const own = `${protocol}://${host}`;
    const { origin = own } = request.headers;
    if (![own, ...origins].includes(origin.toLowerCase()))
      throw forbidden('forbidden_origin', `Pages of "${origin}" may not ask this server.`);
    next();
  }

  /**
   * The name under which the client has asked: a proxy that is trusted says it in headers of its
   * own.
   */
  private addressOf({ headers, socket }: IncomingMessage): {
    readonly host: string;
    readonly protocol: string;
  } {
    const isForwarded = isTrusted(socket.remoteAddress, this.proxies);
    const forwarded = (name: string): string | undefined =>
      isForwarded ? lastOf(headers[name]) : undefined;
    const host = forwarded('x-forwarded-host') ?? headers.host ?? '';
    const protocol = forwarded('x-forwarded-proto') ?? ('encrypted' in socket ? 'https' : 'http');
    return { host: host.toLowerCase(), protocol: protocol.toLowerCase() };
  }
}

/**
 * The methods and headers that a page of another origin may send, and the headers that it may read:
 * with them it names its requests and reads on a stream that it lost.
 */
export const CORS_HEADERS = {
  // Fastify by itself lets pages of others delete nothing
  methods: ['GET', 'HEAD', 'PUT', 'PATCH', 'POST', 'DELETE'],
  allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'last-event-id'],
  exposedHeaders: [
    'link',
    'location',
    'retry-after',
    'x-vercel-ai-ui-message-stream',
    'x-vercel-ai-data-stream',
  ],
} as const;

/**
 * The address of the client of a request that a peer has sent: each trusted proxy has added the
 * address that it was asked from to `X-Forwarded-For`, the nearest one last.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | string[] | undefined,
  proxies: BlockList,
): string {
  const forwarded = [forwardedFor ?? []].flat().flatMap((header) => header.split(','));
  const path = [...forwarded.map((address) => address.trim()), peer];
  return path.findLast((address) => !isTrusted(address, proxies)) ?? path[0] ?? '';
}

function isTrusted(address: string | undefined, proxies: BlockList): boolean {
  const family = isIP(address ?? '');
  return (
    address !== undefined && family !== 0 && proxies.check(address, family === 6 ? 'ipv6' : 'ipv4')
  );
}

/**
 * Refuses what a page of another site has sent without asking first, such as a form or an image: a
 * browser adds the cookies of its person to it. What only code can send, a body of JSON or an
 * `Authorization` header, a browser sends to another origin after that origin has agreed.
 *
 * @throws {ForbiddenException} For such a request, unless `origins` lists its page.
 */
export function assertNotForged(
  { headers }: Pick<IncomingMessage, 'headers'>,
  { origins = [] }: Pick<ToolLoopHttpOptions, 'origins'>,
): void {
  const { origin = '', authorization } = headers;
  const site = headers['sec-fetch-site'];
  const isOfOthers = site === 'cross-site' || site === 'same-site';
  if (
    !isOfOthers ||
    authorization !== undefined ||
    isJson(headers) ||
    origins.includes(origin.toLowerCase())
  )
    return;
  throw forbidden(
    'forbidden_origin',
    'A page of another origin has sent this. The option "origins" lists the pages that may.',
  );
}

/** Tells whether a body is JSON, or would be. */
export function isJson({ 'content-type': type = '' }: IncomingMessage['headers']): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type);
}

function assertSingle({ headersDistinct }: IncomingMessage): void {
  for (const name of ['host', 'origin']) {
    if ((headersDistinct[name] ?? []).length > 1)
      throw new BadRequestException(`Send one header ${name}, not several.`);
  }
}

/** The value that the nearest proxy has written. */
function lastOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.at(-1) : header;
  return text?.split(',').at(-1)?.trim();
}

/** Clients leave the port out where it is the protocol's own. */
function isLoopback(host: string, port: number | undefined): boolean {
  return LOOPBACK.some((name) => host === `${name}:${port}` || (port === 80 && host === name));
}

const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** The addresses and ranges of the option `proxies`. */
export function listOf(proxies: readonly string[]): BlockList {
  const list = new BlockList();
  for (const proxy of proxies) {
    const [address = '', prefix] = proxy.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return list;
}

function forbidden(code: string, message: string): ForbiddenException {
  return new ForbiddenException({ code, message });
}
