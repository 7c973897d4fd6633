import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import {
  HttpException,
  HttpStatus,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleInit,
  UnauthorizedException,
} from '@nestjs/common';
import {
  type AbstractHttpAdapter,
  ApplicationConfig,
  HttpAdapterHost,
  ModuleRef,
} from '@nestjs/core';
import { ActorIdentity, Logger, parseJson, RunOpener } from '@toolloop/core/internal';
import { type Caller, Callers, type HttpRequest } from '@toolloop/http';
import { isRecord } from '@toolloop/protocol';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import {
  assertConsole,
  assertDirectory,
  CONSOLE_OPTIONS,
  CONSOLE_PATH,
  type ConsoleCredentials,
  type ConsoleOptions,
} from './console-options.js';

/**
 * Lets people in, and knows them again by a signed cookie that holds no secret. No user is kept
 * here: the application says who they are, and its `ActorDirectory` loads them at each request, so
 * that a person who has left is out at once.
 */
@Injectable()
export class ConsoleSessions implements OnModuleInit, OnApplicationBootstrap {
  readonly isProduction = process.env['NODE_ENV'] === 'production';
  private readonly logger = new Logger('ToolLoopConsole');
  private readonly key: string;
  /**
   * Another one for each application: a browser sends the cookies of a host to all of its ports.
   */
  private readonly cookieName: string;
  private readonly tries = new RateLimiterMemory({ points: TRIES, duration: TRIES_PER_S });
  /** The one-time links that were not used yet, and until when each may be. */
  private readonly links = new Map<string, number>();
  /**
   * The sessions that people have left, and until when their cookies, which may have been copied,
   * would hold.
   */
  private readonly left = new Map<string, number>();

  constructor(
    @Inject(CONSOLE_OPTIONS) private readonly options: ConsoleOptions,
    @Inject(CONSOLE_PATH) private readonly path: string,
    private readonly identity: ActorIdentity,
    private readonly opener: RunOpener,
    private readonly adapters: HttpAdapterHost,
    private readonly config: ApplicationConfig,
    modules: ModuleRef,
  ) {
    assertConsole(options, this.isProduction);
    this.key = options.secret ?? randomBytes(TOKEN_BYTES).toString('base64url');
    this.cookieName = `toolloop_console_${this.sign(`name ${path}`).slice(0, NAME_CHARACTERS)}`;
    modules.get(Callers, { strict: false }).add((request) => this.callerOf(request));
  }

  /**
   * Leads to the page from its address with a slash behind it, which is another address for
   * Fastify.
   *
   * @throws {ConfigurationError} Where people could sign in, and nothing would know them at their
   *   next request.
   */
  onModuleInit(): void {
    assertDirectory(this.options, this.opener.hasDirectory);
    // a command line has no server
    const httpAdapter: AbstractHttpAdapter | undefined = this.adapters.httpAdapter;
    if (httpAdapter?.getType() !== 'fastify') return;
    const page = `/${this.place}/`;
    try {
      httpAdapter.get(page, (_request: unknown, reply: unknown) => {
        httpAdapter.redirect(reply, HttpStatus.FOUND, `../${page.split('/').at(-2)}`);
      });
    } catch (error) {
      if (!isDuplicate(error)) throw error; // it ignores such slashes
    }
  }

  /** Prints the link once the server listens. */
  onApplicationBootstrap(): void {
    this.adapters.listen$.subscribe(() => this.printLink());
  }

  /**
   * Makes a link that lets the developer in once, within a quarter of an hour; undefined in
   * production, and without a developer. The token stands behind the `#`, where no log and no
   * server sees it.
   *
   * @example
   * console.log(sessions.linkAt(await app.getUrl()));
   */
  linkAt(url: string): string | undefined {
    if (this.isProduction || !this.options.developer) return undefined;
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    this.links.set(token, Date.now() + LINK_LIFE_MS);
    return `${url.replace(/\/+$/, '')}/${this.place}#link=${token}`;
  }

  /** The path of the page, with the prefix of the application's routes. */
  private get place(): string {
    const prefix = this.config.getGlobalPrefixOptions().exclude
      ? ''
      : this.config.getGlobalPrefix();
    return [prefix.replace(/^\/+|\/+$/g, ''), this.path].filter((part) => part !== '').join('/');
  }

  /** The number of segments of the page's path. */
  get depth(): number {
    return this.path.split('/').length;
  }

  /** Tells whether the application keeps runs that outlive their readers. */
  get isDurable(): boolean {
    try {
      return this.opener.durable !== undefined;
    } catch {
      return false; // it says at each use that there is none
    }
  }

  /** The ways in that the page may offer. */
  get ways(): readonly string[] {
    return WAYS.filter((way) => this.options[way] !== undefined);
  }

  /**
   * Lets a person in who has typed a name and a password.
   *
   * @throws {HttpException} 401 for a wrong one, 429 for the sixth try of a minute from an address
   *   or for a name.
   */
  async logIn(credentials: ConsoleCredentials, address: string): Promise<Caller> {
    const keys = [`name ${credentials.name}`, `address ${address}`];
    await this.countTries(keys);
    const caller = await this.options.login?.(credentials);
    if (!caller) throw refused('The name or the password is wrong.');
    return this.uncounted(keys, caller);
  }

  /**
   * Lets the developer in by a link, which is used up. @throws {HttpException} 401 for one that is
   * used, too old or unknown.
   */
  async redeem(token: string, address: string): Promise<Caller> {
    const keys = [`address ${address}`];
    await this.countTries(keys);
    const until = this.links.get(token) ?? 0;
    this.links.delete(token);
    const caller = until < Date.now() ? undefined : await this.options.developer?.();
    if (!caller)
      throw refused(
        'The link was used, or is too old. A restart of the application prints another one.',
      );
    return this.uncounted(keys, caller);
  }

  /**
   * Lets a person in whom the application knows by a session of its own; undefined where it does
   * not.
   */
  async ofHost(request: HttpRequest): Promise<Caller | undefined> {
    return (await this.options.session?.(request)) ?? undefined;
  }

  /**
   * Makes the cookie of a session. @throws {HttpException} 500 where no session can be kept for
   * this actor.
   */
  cookieFor({ actor, tenant }: Caller, request: HttpRequest, isDeveloper = false): string {
    const actorId = this.identity.idOf(actor);
    if (actorId === undefined)
      throw new UnauthorizedException({
        code: 'no_actor_id',
        message: 'An actor of the console needs an id.',
      });
    const csrf = randomBytes(TOKEN_BYTES).toString('base64url');
    const claims: SessionClaims = {
      actorId,
      tenant,
      csrf,
      expiresAt: Date.now() + LIFE_MS,
      ...(isDeveloper && { isDeveloper }),
    };
    const body = Buffer.from(JSON.stringify(claims)).toString('base64url');
    return this.cookie(`${body}.${this.sign(body)}`, LIFE_MS / 1000, request);
  }

  /**
   * Ends the session of a request, and makes the cookie that takes its own away. A copy of that
   * lets no one in any more; another process believes it until it has expired.
   */
  end(request: HttpRequest): string {
    const now = Date.now();
    for (const [csrf, expiresAt] of this.left) if (expiresAt <= now) this.left.delete(csrf);
    const claims = this.claimsIn(request);
    if (claims) this.left.set(claims.csrf, claims.expiresAt);
    return this.cookie('', 0, request);
  }

  /**
   * Finds the session of a request by its cookie alone, for what only the page's own origin can
   * read.
   */
  async find(request: HttpRequest): Promise<ConsoleSession | undefined> {
    const claims = this.claimsIn(request);
    if (!claims) return undefined;
    const { actorId, tenant, csrf, isDeveloper = false } = claims;
    const actor = isDeveloper
      ? await this.developer(actorId, tenant)
      : await this.opener.directory.find(actorId, tenant);
    return actor === undefined ? undefined : { caller: { actor, tenant }, csrf };
  }

  /**
   * The actor of the developer, if they still are the one who was let in; undefined in production.
   */
  private async developer(actorId: string, tenant: string): Promise<unknown> {
    const caller = this.isProduction ? undefined : await this.options.developer?.();
    return caller?.tenant === tenant && this.identity.idOf(caller.actor) === actorId
      ? caller.actor
      : undefined;
  }

  private async callerOf(request: HttpRequest): Promise<Caller | undefined> {
    const said = request.headers[CONSOLE_HEADER];
    if (typeof said !== 'string') return undefined;
    const session = await this.find(request);
    return session && isSame(session.csrf, said) ? session.caller : undefined;
  }

  private claimsIn({ headers }: HttpRequest): SessionClaims | undefined {
    const [body = '', signature = ''] = cookieIn(headers.cookie, this.cookieName).split('.');
    if (body === '' || !isSame(this.sign(body), signature)) return undefined;
    const claims = parseJson(Buffer.from(body, 'base64url').toString());
    return isClaims(claims) && claims.expiresAt > Date.now() && !this.left.has(claims.csrf)
      ? claims
      : undefined;
  }

  private sign(body: string): string {
    return createHmac('sha256', this.key).update(`toolloop_console ${body}`).digest('base64url');
  }

  /** Host-only, since it names no domain. */
  private cookie(value: string, maxAge: number, request: HttpRequest): string {
    const isSecure = this.isProduction || ('protocol' in request && request.protocol === 'https');
    return `${this.cookieName}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }

  /** Gives the try back of a person who was let in. */
  private async uncounted(keys: readonly string[], caller: Caller): Promise<Caller> {
    for (const key of keys) await this.tries.reward(key);
    return caller;
  }

  private async countTries(keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.tries.consume(key).catch(refuseTry);
  }

  private printLink(): void {
    const server: unknown = this.adapters.httpAdapter.getHttpServer();
    const address: unknown = isListening(server) ? server.address() : undefined;
    if (!isRecord(address)) return;
    const link = this.linkAt(`http://127.0.0.1:${String(address['port'])}`);
    if (link !== undefined) this.logger.log(`Open the console, once, at ${link}`);
  }
}

/**
 * The header of every request of the page. A page of another origin cannot send it unasked, and
 * only this one knows its value.
 */
export const CONSOLE_HEADER = 'x-toolloop-console';

/** A session that holds, and its person. */
export interface ConsoleSession {
  readonly caller: Caller;
  readonly csrf: string;
}

/** The content of a cookie. It is signed, and says nothing else. */
interface SessionClaims {
  readonly actorId: string;
  readonly tenant: string;
  /** The value that the page sends in its header. */
  readonly csrf: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
  /**
   * Set where the link of a start let the person in: they are whom `developer` names, and need no
   * directory.
   */
  readonly isDeveloper?: boolean;
}

const WAYS = ['guard', 'session', 'login'] as const;
const LIFE_MS = 8 * 3_600_000;
const LINK_LIFE_MS = 15 * 60_000;
const TRIES = 5;
const TRIES_PER_S = 60;
const TOKEN_BYTES = 32;
const NAME_CHARACTERS = 8;

function refuseTry(reason: unknown): never {
  if (!(reason instanceof RateLimiterRes)) throw reason;
  const retryAfter = Math.max(1, Math.ceil(reason.msBeforeNext / 1000));
  const message = `These were ${TRIES} tries within a minute. Wait ${retryAfter} s.`;
  throw new HttpException(
    { code: 'too_many_tries', message, retryAfter },
    HttpStatus.TOO_MANY_REQUESTS,
  );
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'FST_ERR_DUPLICATED_ROUTE';
}

function isListening(server: unknown): server is { address(): unknown } {
  return (
    typeof server === 'object' &&
    server !== null &&
    'address' in server &&
    typeof server.address === 'function'
  );
}

function isClaims(value: unknown): value is SessionClaims & Record<string, unknown> {
  if (!isRecord(value)) return false;
  const { actorId, tenant, csrf, expiresAt } = value;
  return (
    [actorId, tenant, csrf].every((part) => typeof part === 'string') &&
    typeof expiresAt === 'number'
  );
}

function cookieIn(header: string | undefined, name: string): string {
  const pairs = (header ?? '').split(';').map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function refused(message: string): UnauthorizedException {
  return new UnauthorizedException({ code: 'unauthorized', message });
}
