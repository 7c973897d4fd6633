import type { IncomingHttpHeaders } from 'node:http';
import type { Type } from '@nestjs/common';
import { type LoopRequest, type RegisteredActor, toolLoopToken } from '@toolloop/core';
import { CLASS, defineOptions, FUNCTION, needed, oneOf, TEXT } from '@toolloop/core/internal';

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

/** The options that the application gives every run, call and list of a caller. They narrow what the loop permits. */
export type CallerTerms<Actor = RegisteredActor> = Pick<
  LoopRequest<unknown, Actor>,
  'context' | 'tools' | 'exclude' | 'policy' | 'limits' | 'execution' | 'injection' | 'surface' | 'hooks'
>;

/** The answer of the application to a load balancer. */
export interface HttpReadiness {
  /** `false` where this process should get no further requests. */
  readonly isReady: boolean;
  /** Set while the process shuts down. @default false */
  readonly isLeaving?: boolean;
  /** Parts by name and state, such as `{ database: 'up' }`. `GET /health/ready` shows them to anyone, so they hold no address and no cause. @default none */
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
  /** Tells who asks. Undefined is a 401; an exception of Nest is answered as it is. Every route but those of `health` asks it. */
  identity(request: HttpRequest): Caller<Actor> | undefined | Promise<Caller<Actor> | undefined>;
  /** The options for what a caller runs and calls, such as a policy by role. @default none */
  terms?(caller: Caller<Actor>): CallerTerms<Actor> | Promise<CallerTerms<Actor>>;
  /** The name of the loop that answers. @default the application's */
  readonly loop?: string;
  /** The class of the answers of `POST /chat/answer`, and of `POST /chat` where a body asks for `structured`. @default a text */
  readonly output?: Type;
  /**
   * The author of the arguments of `POST /tools/:id`: `actor` where only forms that people fill in reach it. @default 'outside', since a program with the caller's token may be a
   * model's
   */
  readonly argsOrigin?: 'actor' | 'outside';
  /** Tells whether this process should get requests. @default it should, once the policy in force is known */
  readiness?(): HttpReadiness | Promise<HttpReadiness>;
}

/** The options that decide what Nest sets up, which cannot come from a factory. */
export interface ToolLoopHttpExtras {
  /** The path before all routes, such as `api`. @default none: `/chat`, `/runs`, … */
  readonly path?: string;
}

export const HTTP_OPTIONS = Symbol('toolloop:http options');

export const HTTP = defineOptions<ToolLoopHttpOptions>({
  identity: needed({ ...FUNCTION, remedy: () => 'Give a function: identity: (request) => ({ actor, tenant }).' }),
  terms: FUNCTION,
  loop: TEXT,
  output: CLASS,
  argsOrigin: oneOf('actor', 'outside'),
  readiness: FUNCTION,
});

/** The token of the loop that answers; undefined for the application's own. */
export const loopTokenOf = ({ loop }: Pick<ToolLoopHttpOptions, 'loop'>): string | undefined =>
  loop === undefined ? undefined : toolLoopToken(loop);
