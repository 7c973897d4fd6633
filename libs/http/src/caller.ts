import {
  applyDecorators,
  BadRequestException,
  type CanActivate,
  Controller,
  createParamDecorator,
  type ExecutionContext,
  Inject,
  Injectable,
  UnauthorizedException,
  UseFilters,
  UseGuards,
  UnsupportedMediaTypeException,
} from '@nestjs/common';
import { readEventId, type SeenEvent } from '@toolloop/ui-stream';
import type { ServerResponse } from 'node:http';
import type { BlockList } from 'node:net';
import { assertShallow } from './body-depth.js';
import { assertNotForged, clientAddress, isJson, listOf } from './access-middleware.js';
import { ToolLoopExceptionFilter } from './exception-filter.js';
import { CallerLimits } from './caller-limits.js';
import type { AnyResponse } from './event-stream.js';
import {
  type Caller,
  HTTP_OPTIONS,
  type HttpRequest,
  type ToolLoopHttpOptions,
} from './http-options.js';

/** A caller, and the door of the request. */
export interface FoundCaller {
  readonly caller: Caller;
  /**
   * True for a door with a person at it, such as the session of the console. The application's own
   * identity says nothing of that: a program may hold the same token.
   */
  readonly isPerson: boolean;
}

const known = new WeakMap<object, FoundCaller>();

/** Tells whose request it is; undefined for one that it does not know. */
export type CallerSource = (
  request: HttpRequest,
) => Caller | undefined | Promise<Caller | undefined>;

/**
 * Everyone who says who is asking: the application, and before it the ways in that other modules
 * add, such as the session of the console.
 */
@Injectable()
export class Callers {
  private readonly sources: CallerSource[] = [];
  private readonly proxies: BlockList;

  constructor(@Inject(HTTP_OPTIONS) private readonly options: ToolLoopHttpOptions) {
    this.proxies = listOf(options.proxies ?? []);
  }

  /**
   * Adds a way in that is asked before the application. It is for people who sign in at a page:
   * what they send counts as typed by them.
   */
  add(source: CallerSource): void {
    this.sources.push(source);
  }

  async find(request: HttpRequest): Promise<Caller | undefined> {
    return (await this.found(request))?.caller;
  }

  /** Finds the caller with the door through which the request came. */
  async found(request: HttpRequest): Promise<FoundCaller | undefined> {
    for (const source of this.sources) {
      const caller = await source(request);
      if (caller) return { caller, isPerson: true };
    }
    const caller = await this.options.identity(request);
    return caller && { caller, isPerson: false };
  }

  /**
   * The address from which a request came: behind the proxies of the options, the last one in
   * `X-Forwarded-For` that is none of them. Empty where it is not known.
   */
  addressOf(request: HttpRequest): string {
    const peer = 'ip' in request && typeof request.ip === 'string' ? request.ip : '';
    return clientAddress(peer, request.headers['x-forwarded-for'], this.proxies);
  }
}

/** The methods by which nothing is done. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Lets in a request whose caller the application knows, and whose body can be read. */
@Injectable()
export class CallerGuard implements CanActivate {
  constructor(
    private readonly callers: Callers,
    private readonly limits: CallerLimits,
    @Inject(HTTP_OPTIONS) private readonly options: ToolLoopHttpOptions,
  ) {}

  /**
   * @throws {HttpException} For a caller whom the application does not know, one request too many,
   *   what a page of another site has sent with this one's cookies, and a body that is too large or
   *   too deep.
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<HttpRequest>();
    if (!SAFE.has(request.method)) assertNotForged(request, this.options);
    const found = await this.callers.found(request);
    if (!found)
      throw new UnauthorizedException({ code: 'unauthorized', message: 'Say who is asking.' });
    await this.limits.count(found.caller);
    assertShallow(request);
    this.limits.assertSize(request);
    known.set(request, found);
    return true;
  }
}

/**
 * Refuses a body of another form than JSON. A page of another site sends forms and texts unasked,
 * and a parser that the application has for them would read those too.
 */
export class JsonBodies implements CanActivate {
  /** @throws {UnsupportedMediaTypeException} For a form, a text and the like. */
  canActivate(context: ExecutionContext): boolean {
    const { method, headers } = context.switchToHttp().getRequest<HttpRequest>();
    const { 'content-type': type } = headers;
    if (SAFE.has(method) || type === undefined || isJson(headers)) return true;
    throw new UnsupportedMediaTypeException(
      `Send the body as application/json, not as ${type.slice(0, MOST_OF_A_TYPE)}.`,
    );
  }
}

const MOST_OF_A_TYPE = 80;

/**
 * A controller of this module: it knows its callers, reads JSON, and answers errors by their
 * status.
 */
export function CallerController(): ClassDecorator {
  return applyDecorators(
    Controller(),
    UseGuards(CallerGuard, JsonBodies),
    UseFilters(ToolLoopExceptionFilter),
  );
}

/** The parameter receives the caller whom the guard let in. */
export const CurrentCaller = createParamDecorator(
  (_options: unknown, context: ExecutionContext): Caller => foundIn(context).caller,
);

/** The parameter receives that caller with the door through which the request came. */
export const CallerAtDoor = createParamDecorator(
  (_options: unknown, context: ExecutionContext): FoundCaller => foundIn(context),
);

function foundIn(context: ExecutionContext): FoundCaller {
  const found = known.get(context.switchToHttp().getRequest<HttpRequest>());
  if (found) return found;
  throw new UnauthorizedException({
    code: 'unauthorized',
    message: 'This route has no guard that says who is asking.',
  });
}

/**
 * Visible characters. A header that was sent twice is joined by a comma and a space, which is no
 * key.
 */
const KEY = /^[\x21-\x7e]{1,255}$/;

/**
 * The parameter receives the client's name for its request, or undefined. A request that is
 * repeated under its name gets the same run, or the same refund.
 */
export const IdempotencyKey = createParamDecorator(
  (_options: unknown, context: ExecutionContext): string | undefined => {
    const key = headerOf(context, 'idempotency-key');
    if (key === undefined || (typeof key === 'string' && KEY.test(key))) return key;
    throw new BadRequestException(
      'Idempotency-Key must be one text of 1 to 255 visible characters, such as a UUID.',
    );
  },
);

/**
 * The last event that a client has seen of a stream it lost; undefined for one that asks for the
 * first time.
 *
 * @throws {BadRequestException} For what is no id of an event.
 */
export function seenIn({ headers }: Pick<HttpRequest, 'headers'>): SeenEvent | undefined {
  const text = headers['last-event-id'];
  if (text === undefined) return undefined;
  const seen = typeof text === 'string' ? readEventId(text) : undefined;
  if (seen) return seen;
  throw new BadRequestException('Last-Event-ID must be the sequence of an event.');
}

/**
 * The parameter receives a signal that is aborted when the client goes away before it is answered.
 */
export const ClientSignal = createParamDecorator(
  (_options: unknown, context: ExecutionContext): AbortSignal => {
    return leavingSignal(context.switchToHttp().getResponse<AnyResponse & ServerResponse>());
  },
);

/** Makes a signal that is aborted when the client of a response goes away before it is answered. */
export function leavingSignal(response: AnyResponse & ServerResponse): AbortSignal {
  const socket = response.raw ?? response;
  const gone = new AbortController();
  socket.once('close', () => {
    if (!socket.writableFinished) gone.abort();
  });
  return gone.signal;
}

function headerOf(context: ExecutionContext, name: string): string | readonly string[] | undefined {
  return context.switchToHttp().getRequest<HttpRequest>().headers[name];
}
