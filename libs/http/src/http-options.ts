import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { Type } from '@nestjs/common';
import { type LoopRequest, type RegisteredActor, toolLoopToken } from '@toolloop/core';
import {
  CLASS,
  defineOptions,
  FUNCTION,
  listOf,
  needed,
  oneOf,
  type OptionRule,
  optionsOf,
  TEXT,
  whatCan,
  WHOLE_ABOVE_ZERO,
  wholeFrom,
} from '@toolloop/core/internal';
import type { RateLimiterAbstract } from 'rate-limiter-flexible';

export const HTTP_OPTIONS = Symbol('toolloop:http options');

/** The person or program that asks, as the application identified them; never what a body says. */
export interface Caller<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A request of Express or Fastify, in what both agree on. */
export interface HttpRequest {
  readonly method: string;
  /** The path with its query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly query: unknown;
  readonly params: unknown;
  readonly body?: unknown;
}

/**
 * The options that the application gives every run, call and list of a caller. They narrow what the
 * loop permits.
 */
export type CallerTerms<Actor = RegisteredActor> = Pick<
  LoopRequest<unknown, Actor>,
  | 'context'
  | 'tools'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'execution'
  | 'injection'
  | 'surface'
  | 'hooks'
>;

/** The answer of the application to a load balancer. */
export interface HttpReadiness {
  /** `false` where this process should get no further requests. */
  readonly isReady: boolean;
  /** Set while the process shuts down. @default false */
  readonly isLeaving?: boolean;
  /**
   * Parts by name and state, such as `{ database: 'up' }`. `GET /health/ready` shows them to
   * anyone, so they hold no address and no cause. @default none
   */
  readonly checks?: Readonly<Record<string, string>>;
}

/**
 * Options of {@link ToolLoopHttpModule}.
 *
 * @example
 * const options: ToolLoopHttpOptions<User> = {
 *   identity: async (request) => {
 *     const user = await users.ofToken(request.headers.authorization);
 *     return user && { actor: user, tenant: user.tenantId };
 *   },
 * };
 */
export interface ToolLoopHttpOptions<Actor = RegisteredActor> {
  /**
   * Tells who asks. Undefined is a 401; an exception of Nest is answered as it is. Every route but
   * those of `health` asks it.
   */
  identity(request: HttpRequest): Caller<Actor> | undefined | Promise<Caller<Actor> | undefined>;
  /** The options for what a caller runs and calls, such as a policy by role. @default none */
  terms?(caller: Caller<Actor>): CallerTerms<Actor> | Promise<CallerTerms<Actor>>;
  /** The name of the loop that answers. @default the application's */
  readonly loop?: string;
  /**
   * The class of the answers of `POST /chat/answer`, and of `POST /chat` where a body asks for
   * `structured`. @default a text
   */
  readonly output?: Type;
  /**
   * The author of the arguments of `POST /tools/:id`: `actor` where only forms that people fill in
   * reach it. @default 'outside', since a program with the caller's token may be a model's; a
   * person who is signed in to the console fills in its form
   */
  readonly argsOrigin?: 'actor' | 'outside';
  /**
   * Vouches for a caller of `POST /tools/:id` by its identity: returns the reason why nothing that
   * it sends can come from elsewhere, such as a service of your own. Its arguments count as the
   * actor's, and the reason is in the audit with each of its calls.
   * @default no caller is vouched for
   * @example
   * const vouchFor = ({ actor }: Caller<User>) =>
   *   actor.id === 'billing' ? 'Our own service, which reads the ledger alone.' : undefined;
   */
  vouchFor?(caller: Caller<Actor>): string | undefined;
  /**
   * Tells whether this process should get requests. @default it should, once the policy in force is
   * known
   */
  readiness?(): HttpReadiness | Promise<HttpReadiness>;
  /** @default the default of each */
  readonly limits?: Partial<HttpLimits>;
  /**
   * Counts the requests of callers by a limiter of `rate-limiter-flexible`, such as one on Redis
   * for all processes. @default one of this process, by `limits`
   */
  readonly rateLimiter?: RateLimiterAbstract;
  /**
   * The `Host` headers under which the application answers, beside those of loopback at its own
   * port; every route of it is checked. @default every host
   */
  readonly hosts?: readonly string[];
  /**
   * The origins of pages that may ask beside the application's own, such as
   * `https://app.example.com`. They may send and read the headers by which streams are resumed.
   * @default none: no CORS
   */
  readonly origins?: readonly string[];
  /**
   * The addresses of proxies, such as `10.0.0.0/8`, whose `X-Forwarded-Host`, `X-Forwarded-Proto`
   * and `X-Forwarded-For` are believed. @default none
   */
  readonly proxies?: readonly string[];
}

/** The limits of one actor, and of what is kept of streams. */
export interface HttpLimits {
  /**
   * The largest body in bytes. The parser of the platform has a limit of its own, for which this
   * one is no cure. @default 262,144
   */
  readonly bodyBytes: number;
  /** The requests of one actor within `perMs`; 0 for any number. @default 1,200 */
  readonly requests: number;
  /** The milliseconds in which `requests` are counted. @default 60,000 */
  readonly perMs: number;
  /** The streams that one actor has open at once. @default 64 */
  readonly openStreams: number;
  /**
   * The milliseconds for which a run that is not durable outlives its last reader, where the
   * protocol can read on; 0 ends it at once. @default 30,000
   */
  readonly reconnectMs: number;
  /**
   * The bytes of a run's events that are kept for readers who come again, about. @default 1,048,576
   */
  readonly keptBytes: number;
  /**
   * The milliseconds after which a reader whose socket takes nothing is cut off. @default 60,000
   */
  readonly readerStalledMs: number;
  /** The milliseconds of silence after which a comment is sent; 0 for none. @default 25,000 */
  readonly keepAliveMs: number;
}

/** The limits of an application. */
export function limitsOf({ limits }: Pick<ToolLoopHttpOptions, 'limits'>): HttpLimits {
  return { ...DEFAULT_HTTP_LIMITS, ...limits };
}

/** A chat protocol of others, whose clients the application answers. */
export type ChatProtocol = 'ai-sdk' | 'ag-ui' | 'assistant-transport' | 'data-stream' | 'openai';

/** The options that decide what Nest sets up, which cannot come from a factory. */
export interface ToolLoopHttpExtras {
  /** The path before all routes, such as `api`. @default none: `/chat`, `/runs`, … */
  readonly path?: string;
  /**
   * The chat protocols of others that have routes; an empty list for none. The routes of our own
   * are always there. @default all
   */
  readonly protocols?: readonly ChatProtocol[];
}

/**
 * Reads these options from all that were given.
 *
 * @throws {ConfigurationError} For a value that they do not take.
 */
export function extrasOf(given: ToolLoopHttpExtras): Required<ToolLoopHttpExtras> {
  const extras = EXTRAS.copy(given);
  EXTRAS.assert(extras, 'ToolLoopHttpModule');
  const { path = '', protocols = PROTOCOL.words } = extras;
  return { path: path.replace(/^\/+|\/+$/g, ''), protocols };
}

const DEFAULT_HTTP_LIMITS: HttpLimits = {
  bodyBytes: 262_144,
  requests: 1_200,
  perMs: 60_000,
  openStreams: 64,
  reconnectMs: 30_000,
  keptBytes: 1_048_576,
  readerStalledMs: 60_000,
  keepAliveMs: 25_000,
};

const PROTOCOL = oneOf('ai-sdk', 'ag-ui', 'assistant-transport', 'data-stream', 'openai');

const EXTRAS = defineOptions<ToolLoopHttpExtras>({
  path: TEXT,
  protocols: listOf(PROTOCOL, `a list of ${PROTOCOL.wanted}`),
});

const MOST_MS = 2_147_483_647;
const MILLISECONDS = wholeFrom(0, MOST_MS);
const COUNT = wholeFrom(0, Number.MAX_SAFE_INTEGER);

const LIMITS = defineOptions<Partial<HttpLimits>>({
  bodyBytes: WHOLE_ABOVE_ZERO,
  requests: COUNT,
  perMs: wholeFrom(1, MOST_MS),
  openStreams: WHOLE_ABOVE_ZERO,
  reconnectMs: MILLISECONDS,
  keptBytes: WHOLE_ABOVE_ZERO,
  readerStalledMs: wholeFrom(1, MOST_MS),
  keepAliveMs: MILLISECONDS,
});

const HOSTS = listOf(
  { ...TEXT, accept: isHost },
  'a list of hosts in small letters, such as desk.example.com or desk.example.com:8080',
);
const ORIGINS = listOf(
  { ...TEXT, accept: isOrigin },
  'a list of origins, such as https://app.example.com',
);
const PROXIES = listOf(
  { ...TEXT, accept: isAddressRange },
  'a list of addresses or ranges, such as 10.0.0.0/8',
);

/** Returns whether a text is an address or a range of addresses, such as `10.0.0.0/8`. */
function isAddressRange(text: unknown): boolean {
  if (typeof text !== 'string') return false;
  const [address = '', prefix, ...rest] = text.split('/');
  const family = isIP(address);
  const isPrefix =
    prefix === undefined ||
    (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 6 ? 128 : 32));
  return family !== 0 && rest.length === 0 && isPrefix;
}

function isHost(text: unknown): boolean {
  return (
    typeof text === 'string' &&
    /^(?:[a-z\d](?:[a-z\d.-]*[a-z\d])?|\[[\da-f:.]+\])(?::\d{1,5})?$/.test(text)
  );
}

function isOrigin(text: unknown): boolean {
  return typeof text === 'string' && URL.canParse(text) && new URL(text).origin === text;
}

/** The rule for an option that is read before a factory is asked. */
const BESIDE_THE_FACTORY: Pick<OptionRule<never>, 'accept' | 'problem' | 'remedy'> = {
  accept: () => false,
  problem: (_value, option) => `${option} comes from a factory.`,
  remedy: () => 'Give it to forRootAsync, beside the factory.',
};

export const HTTP = defineOptions<ToolLoopHttpOptions & ToolLoopHttpExtras>({
  identity: needed({
    ...FUNCTION,
    remedy: () => 'Give a function: identity: (request) => ({ actor, tenant }).',
  }),
  terms: FUNCTION,
  loop: TEXT,
  output: CLASS,
  argsOrigin: oneOf('actor', 'outside'),
  vouchFor: FUNCTION,
  readiness: FUNCTION,
  limits: optionsOf(LIMITS),
  rateLimiter: whatCan('consume', 'a limiter of rate-limiter-flexible'),
  hosts: HOSTS,
  origins: ORIGINS,
  proxies: PROXIES,
  path: { ...TEXT, ...BESIDE_THE_FACTORY },
  protocols: { ...listOf(PROTOCOL, PROTOCOL.wanted), ...BESIDE_THE_FACTORY },
});

/** The token of the loop that answers; undefined for the application's own. */
export const loopTokenOf = ({ loop }: Pick<ToolLoopHttpOptions, 'loop'>): string | undefined =>
  loop === undefined ? undefined : toolLoopToken(loop);
