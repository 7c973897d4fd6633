import { type CanActivate, HttpStatus, type Type } from '@nestjs/common';
import { GUARDS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import type { ApplicationConfig, ExternalContextCreator, ModulesContainer } from '@nestjs/core';
import { type Finding, isObject, isRecord } from '@toolloop/protocol';
import { deepFreeze } from '../../contracts/deep-freeze.js';
import type { ToolCallContext } from '../../contracts/tool-call.js';
import type { ToolLayers } from '../../contracts/tool.js';
import { CLASS, FUNCTION, listOf } from '../../findings/option-rules.js';
import { defineOptions } from '../../findings/options.js';
import { callMethod } from '../../schema/call-arguments.js';
import { leaveOut } from './left-out-interceptors.js';
import { makeCreator } from './enhancer-creator.js';
import {
  asError,
  invoke,
  isFiltered,
  type LayerHost,
  type LayersOfRun,
  MethodLayers,
} from './nest-layers.js';
import { enhancersOf, handlerOf, standInFor } from './enhancers.js';
import { type ProvidedMethod } from './layered-method.js';
import type { ProviderInstances } from './provider-instances.js';
import { compileRoute, type RouteDeclaration, type RouteParts } from './route-input.js';
import type { ScopedEnhancers } from './scoped-enhancers.js';
import type { DeclarationRules } from '../discovery/tool-template.js';

/** Nest's layers round a route, and the arguments that its pipes make for the handler. */
export interface RouteLayers extends ToolLayers {
  argumentsOf(input: unknown, context: ToolCallContext): Promise<readonly unknown[]>;
}

export const ROUTE_IDENTITY = defineOptions<RouteIdentity>({
  request: FUNCTION,
  replacedGuards: listOf(CLASS, 'a list of guard classes'),
});

/**
 * The identity with which routes are called as tools; see `identity` of `ToolLoopModule.forRoot`.
 */
export interface RouteIdentity<Actor = unknown> {
  /**
   * Returns what guards, pipes and parameter decorators find on the request beside its method,
   * address and arguments: `(actor) => ({ user: { sub: actor.id } })`.
   *
   * @default `user` is the actor
   */
  readonly request?: (actor: Actor) => Readonly<Record<string, unknown>>;
  /**
   * The guards that find out who asks, by a header or a cookie that a tool call does not have. They
   * are not asked, since the run knows its actor already; the audit records it with every call.
   * Name no guard that decides what a user may do.
   *
   * @default none
   */
  readonly replacedGuards?: readonly Type<CanActivate>[];
}

/** The parts of a tool that are a route's own. */
export interface CompiledRoute {
  readonly input: RouteDeclaration;
  readonly call: (target: object, input: unknown, context: ToolCallContext) => Promise<unknown>;
  readonly layers: LayersOfRun<RouteLayers>;
  /** Names of the guards that are not asked. */
  readonly replacedGuards: readonly string[];
}

type Handler = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * Compiles Nest's guards, pipes, interceptors and filters round the handler of a route, which see
 * `getType() === 'http'` and a frozen request that is made here: never the model's arguments in
 * another place than where they are declared.
 */
export class RouteCompiler {
  private readonly identity: RouteIdentity;
  private readonly unmet: Set<Type>;
  private creator: ExternalContextCreator | undefined;

  constructor(
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
    private readonly rules: DeclarationRules,
    private readonly scoped: ScopedEnhancers,
  ) {
    this.identity = ROUTE_IDENTITY.sound(rules.identity ?? {});
    this.unmet = new Set(this.identity.replacedGuards);
  }

  /** Compiles the route of a handler. */
  compile(layered: ProvidedMethod, instances: ProviderInstances): CompiledRoute {
    const { type, method } = layered;
    const route = compileRoute(
      { at: `${type.name}.${method.property}`, type, method },
      this.rules.reservedArguments,
    );
    const layers = new MethodLayers(
      { compile: (host) => this.layersOf(host, route) },
      instances,
      this.scoped,
    ).of(layered);
    const contexts = method.parameters
      .filter(({ kind }) => kind === 'context')
      .map(({ index }) => index);
    const call: CompiledRoute['call'] = async (target, input, context) => {
      const values = [...(await (await layers(context)).argumentsOf(input, context))];
      for (const index of contexts) values[index] = context;
      return callMethod(target, method.property, values);
    };
    return {
      input: route,
      call,
      layers,
      replacedGuards: this.replacedOn(type, handlerOf(type, method.property) ?? {}),
    };
  }

  /**
   * Finds the guards to replace that no route has: a misspelt one would keep every call out, and
   * one too many is a hole.
   */
  findings(): Finding[] {
    return [...this.unmet].map(({ name }) => ({
      at: 'ToolLoopModule.forRoot({ identity: { replacedGuards } })',
      problem: `No route that is a tool has the guard ${name}.`,
      remedy: 'Remove it, or bind it globally, to the controller or to its handler.',
    }));
  }

  private replacedOn(type: Type, handler: object): readonly string[] {
    const listed = [
      ...this.globalGuards(),
      ...[type, handler].flatMap((target) => enhancersOf(target, GUARDS_METADATA)),
    ];
    const isListed = (guard: Type): boolean =>
      listed.some((one) => one === guard || one instanceof guard);
    const replaced = (this.identity.replacedGuards ?? []).filter(isListed);
    for (const guard of replaced) this.unmet.delete(guard);
    return replaced.map(({ name }) => name);
  }

  private globalGuards(): readonly unknown[] {
    return [
      ...this.config.getGlobalGuards(),
      ...this.config.getGlobalRequestGuards().map(({ metatype }) => metatype),
    ];
  }

  private layersOf(host: LayerHost, route: RouteDeclaration): RouteLayers {
    const { identity } = this;
    const requestOf = (input: unknown, context: ToolCallContext): object =>
      frozenRequest(route, identity, { input, context });
    const takes = isRecord(
      Reflect.getMetadata(ROUTE_ARGS_METADATA, host.instance.constructor, host.method.property),
    );
    // without parameters Nest hands over what it was handed itself
    const values = (...taken: unknown[]): unknown[] => (takes ? taken : []);
    const checked = this.handler(host, 'admit', values);
    const piped = this.handler(host, 'pipe', values);
    const around = this.handler(host, 'around', (_request, _response, _next, call) => invoke(call));
    const explain = isFiltered(host, this.config)
      ? this.handler(host, 'explain', (_request, _response, _next, error) =>
          Promise.reject(asError(error)),
        )
      : undefined;
    const admitted = new WeakMap<object, readonly unknown[]>();
    return {
      admit: async (input, context) => {
        const taken = asList(await checked(requestOf(input, context), new RouteResponse(), next));
        if (isObject(input)) admitted.set(input, taken);
        return input;
      },
      around: (input, context, call, note) =>
        around(requestOf(input, context), new RouteResponse(), next, call, note),
      explain: async (error, input, context) => {
        const response = new RouteResponse();
        try {
          return await explain?.(requestOf(input, context), response, next, error);
        } catch (thrown) {
          // Nest throws again what a filter answers without returning something, as filters of HTTP
          // do.
          if (response.sent === undefined) throw thrown;
          return response.sent;
        }
      },
      argumentsOf: async (input, context) => {
        const taken = isObject(input) ? admitted.get(input) : undefined;
        if (!taken)
          return asList(await piped(requestOf(input, context), new RouteResponse(), next));
        if (isObject(input)) admitted.delete(input); // the handler may change what it is handed
        return taken;
      },
    };
  }

  private handler(
    { instance, handler, method, scope, except = [] }: LayerHost,
    layer: 'admit' | 'pipe' | 'around' | 'explain',
    callback: (...args: unknown[]) => unknown,
  ): Handler {
    const options = {
      guards: layer === 'admit',
      interceptors: layer === 'around',
      filters: layer === 'explain',
    };
    const [key, factory] =
      layer === 'admit' || layer === 'pipe' ? [ROUTE_ARGS_METADATA, VALUES] : [];
    const { contextId, inquirerId } = scope ?? {};
    const standIn = standInFor(handler, callback);
    leaveOut(standIn, [...(this.rules.interceptors?.except ?? []), ...except]);
    // Made when a route is first called: an application adds global enhancers until it listens.
    this.creator ??= makeCreator(this.modules, this.config, this.identity.replacedGuards);
    return this.creator.create(
      instance,
      standIn,
      method.property,
      key,
      factory,
      contextId,
      inquirerId,
      options,
    );
  }
}

/**
 * Hands a handler's parameters their part of the request: a copy, since the request is shared with
 * its guards.
 */
const VALUES = {
  exchangeKeyForValue: (type: number, data: unknown, [request]: readonly RouteParts[]): unknown => {
    const part = request && { 3: request.body, 4: request.query, 5: request.params }[type];
    return structuredClone(typeof data === 'string' && data !== '' ? part?.[data] : part);
  },
};

function next(): void {
  // There is no other handler.
}

function asList(values: unknown): readonly unknown[] {
  return Array.isArray(values) ? values : [];
}

interface RequestedCall {
  readonly input: unknown;
  readonly context: ToolCallContext;
}

function frozenRequest(
  route: RouteDeclaration,
  { request }: RouteIdentity,
  { input, context }: RequestedCall,
): object {
  const made = route.request(isRecord(input) ? structuredClone(input) : {}, context.tenant);
  for (const part of [made.params, made.query, made.body]) deepFreeze(part);
  return Object.freeze({
    headers: Object.freeze({}),
    user: context.actor,
    ...request?.(context.actor),
    ...made,
  });
}

/**
 * The response that filters and interceptors of a route see. Nothing leaves by it: what a filter
 * sends is the words of the failure.
 */
class RouteResponse {
  statusCode: number = HttpStatus.OK;
  readonly headersSent = false;
  sent: unknown;

  status(code: number): this {
    this.statusCode = code;
    return this;
  }

  code(code: number): this {
    return this.status(code);
  }

  send(body?: unknown): this {
    this.sent = body;
    return this;
  }

  json(body?: unknown): this {
    return this.send(body);
  }

  end(body?: unknown): this {
    return this.send(body);
  }

  getHeader(): undefined {
    return undefined;
  }

  setHeader(): this {
    return this;
  }

  header(): this {
    return this;
  }

  set(): this {
    return this;
  }

  type(): this {
    return this;
  }

  removeHeader(): this {
    return this;
  }

  on(): this {
    return this;
  }

  once(): this {
    return this;
  }
}
