import type { Type } from '@nestjs/common';
import type {
  ApplicationConfig,
  ContextId,
  ExternalContextCreator,
  ModulesContainer,
} from '@nestjs/core';
import { STATIC_CONTEXT } from '@nestjs/core/injector/constants.js';
import { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { isObject } from '@toolloop/protocol';
import type { RunContext, ToolCallContext } from '../../contracts/tool-call.js';
import type { ToolLayers } from '../../contracts/tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import type { ToolParameter } from '../decorators/tool-parameters.decorator.js';
import { makeCreator } from './enhancer-creator.js';
import {
  asObject,
  handlerOf,
  hasEnhancers,
  hasFilters,
  hostClassOf,
  standInFor,
} from './enhancers.js';
import { TOOL_CONTEXT_TYPE } from './execution-context.js';
import type { LayeredMethod } from './layered-method.js';
import { leaveOut } from './left-out-interceptors.js';
import { isSingleton, type ProviderInstances } from './provider-instances.js';
import type { ScopedEnhancers } from './scoped-enhancers.js';

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
