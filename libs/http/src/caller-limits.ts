import {
  HttpException,
  HttpStatus,
  Inject,
  Injectable,
  PayloadTooLargeException,
} from '@nestjs/common';
import { ActorIdentity } from '@toolloop/core/internal';
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import {
  type Caller,
  HTTP_OPTIONS,
  type HttpLimits,
  type HttpRequest,
  limitsOf,
  type ToolLoopHttpOptions,
} from './http-options.js';

/**
 * Counts what each actor asks and reads, so that one of them cannot take the place of all others.
 */
@Injectable()
export class CallerLimits {
  private readonly limits: HttpLimits;
  private readonly requests: RateLimiterAbstract | undefined;
  private readonly streams = new Map<string, number>();

  constructor(
    @Inject(HTTP_OPTIONS) options: ToolLoopHttpOptions,
    private readonly identity: ActorIdentity,
  ) {
    this.limits = limitsOf(options);
    const { requests: points, perMs } = this.limits;
    this.requests =
      options.rateLimiter ??
      (points > 0 ? new RateLimiterMemory({ points, duration: perMs / 1000 }) : undefined);
  }

  /** The actor and the tenant as one text; undefined for an actor without an id. */
  ownerOf({ actor, tenant }: Caller): string | undefined {
    const actorId = this.identity.idOf(actor);
    return actorId === undefined ? undefined : ownerKey(tenant, actorId);
  }

  /** @throws {HttpException} 429 for one request too many. */
  async count(caller: Caller): Promise<void> {
    await this.requests?.consume(this.keyOf(caller)).catch(refuse);
  }

  /**
   * Lets pass a body of no more bytes than the limit. A body without a length is written as JSON
   * once more, so it must be shallow already.
   *
   * @throws {PayloadTooLargeException} For a larger one.
   */
  assertSize({ headers, body }: HttpRequest): void {
    const { bodyBytes } = this.limits;
    const said = Number(headers['content-length'] ?? 0);
    const bytes = said > 0 || body === undefined ? said : Buffer.byteLength(JSON.stringify(body));
    if (bytes > bodyBytes)
      throw new PayloadTooLargeException(`The body has more than ${bodyBytes} bytes.`);
  }

  /**
   * Counts a stream until the returned function is called.
   *
   * @throws {HttpException} 429 for one stream too many.
   */
  openStream(caller: Caller): () => void {
    const key = this.keyOf(caller);
    const open = this.streams.get(key) ?? 0;
    if (open >= this.limits.openStreams) {
      const message = `Only ${this.limits.openStreams} streams may be open at once. Close one first.`;
      throw tooMany('too_many_streams', message, STREAM_RETRY_S);
    }
    this.streams.set(key, open + 1);
    return () => {
      const left = (this.streams.get(key) ?? 1) - 1;
      if (left > 0) this.streams.set(key, left);
      else this.streams.delete(key);
    };
  }

  private keyOf(caller: Caller): string {
    return this.ownerOf(caller) ?? JSON.stringify([caller.tenant]);
  }
}

/** The seconds after which a client that has too many streams may try again. */
const STREAM_RETRY_S = 5;

/** The actor and the tenant as one text, by their ids. */
export function ownerKey(tenant: string, actorId: string): string {
  return JSON.stringify([tenant, actorId]);
}

/** The limiter rejects with the time to wait; with an error where its storage fails. */
function refuse(reason: unknown): never {
  if (!(reason instanceof RateLimiterRes)) throw reason;
  throw tooMany(
    'too_many_requests',
    'These are too many requests at once. Wait a little.',
    Math.max(1, Math.ceil(reason.msBeforeNext / 1000)),
  );
}

function tooMany(code: string, message: string, retryAfter: number): HttpException {
  return new HttpException({ code, message, retryAfter }, HttpStatus.TOO_MANY_REQUESTS);
}
