import type { ExecutionContext, Type } from '@nestjs/common';
import {
  EXCEPTION_FILTERS_METADATA,
  GUARDS_METADATA,
  INTERCEPTORS_METADATA,
  PIPES_METADATA,
} from '@nestjs/common/constants.js';
import type {
  ApplicationConfig,
  ContextId,
  ExternalContextCreator,
  ModulesContainer,
} from '@nestjs/core';
import { STATIC_CONTEXT } from '@nestjs/core/injector/constants.js';
import { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { type Finding, isObject } from '@toolloop/protocol';
import 'reflect-metadata';
import type { RunContext, ToolCallContext } from '../contracts/tool-call.js';
import type { ToolLayers } from '../contracts/tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import type { ToolParameter } from '../decorators/tool-parameters.decorator.js';
import { leaveOut, makeCreator } from './enhancer-creator.js';
import { isClass, isSingleton, type ProviderInstances } from './provider-instances.js';
import type { ScopedEnhancers } from './scoped-enhancers.js';

/**
 * The class in which a method's enhancers are found: its provider, or the host that stands for an
 * entity class.
 */
export interface LayerHost {
  readonly instance: object;
  /** The method as it was decorated; its metadata names the enhancers. */
  readonly handler: object;
  readonly method: ToolMethod;
  /** The context in which its enhancers were made, and for whom. */
  readonly scope?: { readonly contextId: ContextId; readonly inquirerId: string };
  /** Classes of interceptors that are left out. */
  readonly except?: readonly unknown[] | undefined;
}

type Handler = (
  input: unknown,
  context: ToolCallContext,
  ...more: readonly unknown[]
) => Promise<unknown>;

type NestCallback = (...args: unknown[]) => unknown;

type PipedParameter = Exclude<ToolParameter, { readonly kind: 'context' }>;

/**
 * Our key for the parameters that pipes see, in the form in which Nest keeps a handler's
 * parameters.
 */
const PIPED_PARAMETERS = 'toolloop:piped-parameters';
/**
 * Nest's numbers for `@Body()` and `@Param()`: a DTO looks like the one to its pipes, a named
 * argument like the other.
 */
const BODY = 3;
const PARAM = 5;

/**
 * Compiles Nest's guards, pipes, interceptors and filters, global and local, round a tool's method.
 */
export class NestLayerCompiler implements LayerCompiler<ToolLayers | undefined> {
  private creator: ExternalContextCreator | undefined;

  constructor(
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
    private readonly scoped: ScopedEnhancers,
    /** Classes of interceptors that are left out of every tool. */
    private readonly except: readonly unknown[] = [],
  ) {}

  /** Undefined where no enhancer applies, so that such a tool pays nothing for them. */
  compile(host: LayerHost): ToolLayers | undefined {
    if (
      !this.hasGlobals() &&
      !hasEnhancers(host.handler) &&
      !hasEnhancers(host.instance.constructor)
    )
      return undefined;
    recordPipedParameters(host);
    const admit = this.handler(host, 'admit', (...piped) => piped);
    const around = this.handler(host, 'around', (_input, _context, call) => invoke(call));
    // Where there is no filter Nest would only log the error once more.
    const explain = isFiltered(host, this.config)
      ? this.handler(host, 'explain', (_input, _context, error) => Promise.reject(asError(error)))
      : undefined;
    return {
      admit: async (input, context) => inputFrom(host.method, input, await admit(input, context)),
      around,
      explain: async (error, input, context) => explain?.(input, context, error),
    };
  }

  private handler(
    { instance, handler, method, scope, except = [] }: LayerHost,
    layer: keyof ToolLayers,
    callback: NestCallback,
  ): Handler {
    const options = {
      guards: layer === 'admit',
      interceptors: layer === 'around',
      filters: layer === 'explain',
    };
    const parameters = layer === 'admit' ? PIPED_PARAMETERS : undefined;
    const { contextId, inquirerId } = scope ?? {};
    const args = [
      parameters,
      ARGUMENTS,
      contextId,
      inquirerId,
      options,
      TOOL_CONTEXT_TYPE,
    ] as const;
    const standIn = standInFor(handler, callback);
    leaveOut(standIn, [...this.except, ...except]);
    // when a tool is first called: an application adds global enhancers until it listens
    this.creator ??= makeCreator(this.modules, this.config);
    return this.creator.create(instance, standIn, method.property, ...args);
  }

  private hasGlobals(): boolean {
    const { config } = this;
    const lists = [
      config.getGlobalGuards(),
      config.getGlobalPipes(),
      config.getGlobalInterceptors(),
      config.getGlobalFilters(),
    ];
    return this.scoped.areThere || lists.some((list) => list.length > 0);
  }
}

/** Returns whether an exception filter, global or local, may word the failures of a method. */
export function isFiltered({ handler, instance }: LayerHost, config: ApplicationConfig): boolean {
  const globals = [...config.getGlobalFilters(), ...config.getGlobalRequestFilters()];
  return globals.length > 0 || hasFilters(handler) || hasFilters(instance.constructor);
}

function argumentOf(input: unknown, name: string): unknown {
  return isObject(input) ? Reflect.get(input, name) : undefined;
}

/** Hands pipes the DTO, or the argument a parameter is named for. */
const ARGUMENTS = {
  exchangeKeyForValue: (_type: number, data: unknown, [input]: readonly unknown[]): unknown =>
    typeof data === 'string' ? argumentOf(input, data) : input,
};

function recordPipedParameters({ instance, method }: LayerHost): void {
  const entries = pipedParameters(method).map((parameter) => {
    const isInput = parameter.kind === 'input';
    const value = { index: parameter.index, data: isInput ? undefined : parameter.name, pipes: [] };
    return [`${isInput ? BODY : PARAM}:${parameter.index}`, value] as const;
  });
  Reflect.defineMetadata(
    PIPED_PARAMETERS,
    Object.fromEntries(entries),
    instance.constructor,
    method.property,
  );
}

/**
 * Returns the input that the pipes made, in the form of the method's arguments; the input itself if
 * they changed nothing.
 */
function inputFrom(method: ToolMethod, input: unknown, piped: unknown): unknown {
  const values: readonly unknown[] = Array.isArray(piped) ? piped : [];
  const parameters = pipedParameters(method);
  const dto = parameters.find(({ kind }) => kind === 'input');
  if (dto) return values[dto.index];
  const named = parameters.flatMap((parameter) =>
    parameter.kind === 'param' ? [{ name: parameter.name, value: values[parameter.index] }] : [],
  );
  if (named.every(({ name, value }) => value === argumentOf(input, name))) return input;
  return Object.fromEntries(named.map(({ name, value }) => [name, value]));
}

function pipedParameters(method: ToolMethod): PipedParameter[] {
  return method.parameters.filter(
    (parameter): parameter is PipedParameter => parameter.kind !== 'context',
  );
}

export function invoke(call: unknown): unknown {
  if (typeof call !== 'function')
    throw new TypeError('The tool call was lost on its way through the interceptors.');
  return Reflect.apply(call, undefined, []);
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** A method that is a tool, and who stands for its class in the container. */
export interface LayeredMethod {
  readonly type: Type;
  readonly method: ToolMethod;
  /** The provider itself, or the host of an entity class; absent for what no module provides. */
  readonly wrapper?: InstanceWrapper<object>;
  /** True if an instance of `type` stands for what the wrapper holds, which is of another class. */
  readonly isStandIn?: boolean;
  /** Classes of interceptors that are left out. @default those that its decorator names */
  readonly except?: readonly unknown[] | undefined;
}

/** A method of what a module provides. */
export type ProvidedMethod = LayeredMethod & Required<Pick<LayeredMethod, 'wrapper'>>;

/** The layers of a method for a run. */
export type LayersOfRun<Layers> = (run: RunContext) => Layers | Promise<Layers>;

/** Compiles the layers round the methods of one kind of class. */
export interface LayerCompiler<Layers> {
  compile(host: LayerHost): Layers;
}

/**
 * Finds the layers of a method: compiled once if the provider and all of its enhancers are
 * singletons, once per run otherwise.
 */
export class MethodLayers<Layers> {
  constructor(
    private readonly compiler: LayerCompiler<Layers>,
    private readonly instances: ProviderInstances,
    private readonly scoped: ScopedEnhancers,
  ) {}

  /**
   * Global enhancers are looked at when the tool is first called: an application adds them until it
   * listens.
   */
  of(layered: LayeredMethod): LayersOfRun<Layers> {
    const { type, method, wrapper } = layered;
    const handler = handlerOf(type, method.property) ?? {};
    const perRun = this.perRun(layered, handler);
    if (wrapper && !isSingleton(wrapper)) return perRun;
    // Nest makes the transient enhancers of a singleton for it alone.
    const scope = wrapper && { scope: { contextId: STATIC_CONTEXT, inquirerId: wrapper.id } };
    let compiled: { readonly layers: Layers } | undefined;
    return (run) => {
      if (this.scoped.areThere) return perRun(run);
      compiled ??= {
        layers: this.compiler.compile({
          instance: instanceOf(layered),
          handler,
          method,
          except: exceptOf(layered),
          ...scope,
        }),
      };
      return compiled.layers;
    };
  }

  private perRun(layered: LayeredMethod, handler: object): LayersOfRun<Layers> {
    const { type, method, wrapper } = layered;
    const inquirer = wrapper ?? new InstanceWrapper({ name: type.name, metatype: type });
    const perRun = new WeakMap<object, Promise<Layers>>();
    const compile = async (run: RunContext): Promise<Layers> => {
      const made =
        wrapper && !isSingleton(wrapper)
          ? await this.instances.resolveScoped(wrapper, run)
          : undefined;
      const contextId = this.instances.contextIdOf(run);
      await this.scoped.make(contextId, inquirer);
      const scope = { contextId, inquirerId: inquirer.id };
      return this.compiler.compile({
        instance: instanceOf(layered, made?.instance),
        handler,
        method,
        except: exceptOf(layered),
        scope,
      });
    };
    return (run) => {
      const known = perRun.get(run.state);
      if (known) return known;
      const compiling = compile(run);
      perRun.set(run.state, compiling);
      compiling.catch(() => perRun.delete(run.state)); // the next call tries again, as Nest does
      return compiling;
    };
  }
}

function exceptOf({ except, method }: LayeredMethod): readonly unknown[] | undefined {
  return except ?? method.options?.interceptors?.except;
}

/**
 * Returns the object by whose class Nest finds the enhancers: the instance that is called, or one
 * that stands for it.
 */
function instanceOf(
  { type, method, wrapper, isStandIn = false }: LayeredMethod,
  instance: unknown = wrapper?.instance,
): object {
  if (!wrapper) return asObject(new (hostClassOf(type, [method.property]))());
  return asObject(
    isStandIn ? Object.create(type.prototype as object) : decorated(wrapper, type, instance),
  );
}

/**
 * Nest reads the enhancers of a class off an instance. One that is not of the class it is provided
 * as, such as a plain object in a test, has a stand-in that is.
 */
function decorated({ token }: InstanceWrapper, type: Type, instance: unknown): unknown {
  const standIn: unknown =
    token === type && !(instance instanceof type)
      ? Object.create(type.prototype as object)
      : undefined;
  return standIn ?? instance;
}

function asObject(value: unknown): object {
  if (typeof value === 'object' && value !== null) return value;
  throw new TypeError('A provider of tools has no instance.');
}

const ENHANCERS = [
  GUARDS_METADATA,
  PIPES_METADATA,
  INTERCEPTORS_METADATA,
  EXCEPTION_FILTERS_METADATA,
];
const HOST_OF = 'toolloop:host-of';

/**
 * The metadata that the compiler records for a constructor; a host must not look as if it had the
 * entity's dependencies.
 */
const CONSTRUCTOR_METADATA = new Set<unknown>([
  'design:paramtypes',
  'self:paramtypes',
  'self:properties_metadata',
]);

/**
 * Returns whether a class or a method carries guards, pipes, interceptors or filters of its own.
 */
export function hasEnhancers(target: object): boolean {
  return ENHANCERS.some((key) => Reflect.hasMetadata(key, target));
}

/**
 * Finds the enhancers of a method that Nest cannot apply: those named by their class, of what is
 * not listed in `providers` as its class.
 */
export function enhancerFindings({ type, method, wrapper }: LayeredMethod): Finding[] {
  const known = wrapper?.host?.injectables;
  const named = [type, handlerOf(type, method.property) ?? {}].flatMap((target) =>
    ENHANCERS.flatMap((key) => enhancersOf(target, key)),
  );
  const missing = [...new Set(named)].filter(isClass).filter((enhancer) => !known?.has(enhancer));
  return missing.map(({ name }) => ({
    at: `${type.name}.${method.property}`,
    problem: `Nest does not apply ${name} to it: it makes the guards, pipes, interceptors and filters of classes that are listed as they are.`,
    remedy: wrapper
      ? `List ${type.name} itself in \`providers\`, or give an instance in its decorator, such as @UseGuards(new ${name}()).`
      : `Mark ${type.name} @Injectable(), list it in \`providers\` and write rawTool(${type.name}), or give an instance: @UseGuards(new ${name}()).`,
  }));
}

/** Returns the enhancers of one kind that a class or a method lists, by Nest's key of that kind. */
export function enhancersOf(target: object, key: string): readonly unknown[] {
  const listed: unknown = Reflect.getMetadata(key, target);
  return Array.isArray(listed) ? listed : [];
}

/** Returns whether a class or a method carries exception filters of its own. */
export function hasFilters(target: object): boolean {
  return Reflect.hasMetadata(EXCEPTION_FILTERS_METADATA, target);
}

/** A method as its class has it; undefined where a getter or nothing stands in its place. */
export function handlerOf(type: Type, property: string): object | undefined {
  for (let level = type.prototype as object | null; level; level = Reflect.getPrototypeOf(level)) {
    const descriptor = Reflect.getOwnPropertyDescriptor(level, property);
    if (descriptor)
      return typeof descriptor.value === 'function' ? (descriptor.value as object) : undefined;
  }
  return undefined;
}

/**
 * A function that answers for a method: it carries the method's metadata, which is where Nest and
 * its `Reflector` look.
 */
export function standInFor<Callback extends (...args: unknown[]) => unknown>(
  handler: object,
  callback: Callback,
): Callback {
  copyMetadata(handler, callback);
  Object.defineProperty(callback, 'name', { value: Reflect.get(handler, 'name') ?? '' });
  return callback;
}

/** The base class of hosts. */
class Host {
  readonly isHost = true;
}

/**
 * A class that stands for an entity in the container: it has the entity's enhancers, on itself and
 * on its methods, and none of its code. Entities themselves are no providers, and Nest would skip
 * their guards silently.
 */
export function hostClassOf(entity: Type, properties: readonly string[]): Type {
  const host = hostOf(
    entity.name,
    Object.fromEntries(properties.map((property) => [property, handlerOf(entity, property)])),
  );
  copyMetadata(entity, host);
  Reflect.defineMetadata(HOST_OF, entity, host);
  for (const property of properties)
    copyMetadata(entity.prototype as object, prototypeOf(host), property);
  return host;
}

/**
 * A class of that name, whose methods carry the metadata of the given ones, and none of their code.
 */
export function hostOf(name: string, methods: Readonly<Record<string, object | undefined>>): Type {
  const host = class extends Host {};
  Object.defineProperty(host, 'name', { value: name });
  for (const [property, handler] of Object.entries(methods)) {
    const standIn = standInFor(handler ?? {}, () => undefined);
    Object.defineProperty(host.prototype, property, { value: standIn, configurable: true });
  }
  return host;
}

/**
 * Records the types of a method's parameters as a compiler does: pipes know the class of a DTO by
 * them.
 */
export function recordTypes(type: Type, property: string, types: readonly unknown[]): void {
  Reflect.defineMetadata('design:paramtypes', types, prototypeOf(type), property);
}

function prototypeOf({ prototype }: Type): object {
  return asObject(prototype);
}

/** The entity a host stands for; undefined for other classes. */
export function entityOfHost(type: object): Type | undefined {
  return Reflect.getOwnMetadata(HOST_OF, type) as Type | undefined;
}

function copyMetadata(from: object, to: object, property?: string): void {
  const keys = (
    property === undefined ? Reflect.getMetadataKeys(from) : Reflect.getMetadataKeys(from, property)
  ) as unknown[];
  for (const key of keys) {
    if (CONSTRUCTOR_METADATA.has(key) && property === undefined) continue;
    if (String(key).startsWith('toolloop:')) continue;
    if (property === undefined) Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
    else Reflect.defineMetadata(key, Reflect.getMetadata(key, from, property), to, property);
  }
}

/** The value of `ExecutionContext.getType()` in a tool call. */
export const TOOL_CONTEXT_TYPE = 'tool';

/**
 * Reads Nest's `ExecutionContext` of a tool call, as `GqlExecutionContext` does for GraphQL: in
 * guards, interceptors and filters. There is no HTTP request behind a tool call; a guard that needs
 * one asks `getType()` first.
 */
export class ToolExecutionContext {
  private constructor(private readonly host: ExecutionContext) {}

  /**
   * Wraps the context of a tool call.
   *
   * @throws Error for any other context; ask `ToolExecutionContext.isToolCall(host)` first
   */
  static create(host: ExecutionContext): ToolExecutionContext {
    if (!ToolExecutionContext.isToolCall(host)) {
      throw new Error(
        `This is not a tool call but "${host.getType<string>()}". Ask ToolExecutionContext.isToolCall(host) first.`,
      );
    }
    return new ToolExecutionContext(host);
  }

  static isToolCall(host: Pick<ExecutionContext, 'getType'>): boolean {
    return host.getType<string>() === TOOL_CONTEXT_TYPE;
  }

  /** The DTO, or the named arguments, after validation. */
  getInput(): unknown {
    return this.host.getArgByIndex<unknown>(0);
  }

  /** Actor, tenant, signal and the like. */
  getContext(): ToolCallContext {
    return this.host.getArgByIndex<ToolCallContext>(1);
  }

  /** The provider's class; for an entity tool a stand-in with the entity's name and metadata. */
  getClass(): Type {
    return this.host.getClass();
  }

  /** Carries the method's metadata, for `Reflector`. */
  getHandler(): ReturnType<ExecutionContext['getHandler']> {
    return this.host.getHandler();
  }
}
