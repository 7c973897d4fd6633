import { Injectable } from '@nestjs/common';
import { ApplicationConfig, ExternalContextCreator, type ContextId } from '@nestjs/core';
import type { ToolMethod } from '../decorators/tool-metadata.accessor.js';
import type { ToolParameter } from '../decorators/tool-parameter.decorators.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolLayers } from '../protocol/tool-layers.js';
import { isObject } from '../protocol/object.guards.js';
import { hasEnhancers, hasFilters, standInFor } from './enhancer-metadata.accessor.js';
import { TOOL_CONTEXT_TYPE } from './tool-execution.context.js';

/** Where a method's enhancers are found: its provider, or the host that stands for an entity class. */
export interface LayerHost {
  readonly instance: object;
  /** The method as it was decorated; its metadata names the enhancers. */
  readonly handler: object;
  readonly method: ToolMethod;
  /** Of a request-scoped provider. */
  readonly scope?: { readonly contextId: ContextId; readonly inquirerId: string };
}

type Handler = (input: unknown, context: ToolCallContext, last?: unknown) => Promise<unknown>;
type Callback = (...args: unknown[]) => unknown;
type PipedParameter = Exclude<ToolParameter, { readonly kind: 'context' }>;

/** Our key for the parameters that pipes see, in the form in which Nest keeps a handler's parameters. */
const PIPED_PARAMETERS = 'toolloop:piped-parameters';
/** Nest's numbers for `@Body()` and `@Param()`: a DTO looks like the one to its pipes, a named argument like the other. */
const BODY = 3;
const PARAM = 5;

/** Compiles Nest's guards, pipes, interceptors and filters, global and local, round a tool's method. */
@Injectable()
export class NestLayerCompiler {
  constructor(
    private readonly creator: ExternalContextCreator,
    private readonly config: ApplicationConfig,
  ) {}

  /** Undefined where no enhancer applies, so that such a tool pays nothing for them. */
  compile(host: LayerHost): ToolLayers | undefined {
    if (!this.hasGlobals() && !hasEnhancers(host.handler) && !hasEnhancers(host.instance.constructor)) return undefined;
    recordPipedParameters(host);
    const admit = this.handler(host, 'admit', (...piped) => piped);
    const around = this.handler(host, 'around', (_input, _context, call) => invoke(call));
    // Where there is no filter Nest would only log the error once more.
    const explain = this.isFiltered(host)
      ? this.handler(host, 'explain', (_input, _context, error) => Promise.reject(asError(error)))
      : undefined;
    return {
      admit: async (input, context) => inputFrom(host.method, input, await admit(input, context)),
      around,
      explain: async (error, input, context) => explain?.(input, context, error),
    };
  }

  private handler({ instance, handler, method, scope }: LayerHost, layer: keyof ToolLayers, callback: Callback): Handler {
    const options = { guards: layer === 'admit', interceptors: layer === 'around', filters: layer === 'explain' };
    const parameters = layer === 'admit' ? PIPED_PARAMETERS : undefined;
    const { contextId, inquirerId } = scope ?? {};
    const args = [parameters, ARGUMENTS, contextId, inquirerId, options, TOOL_CONTEXT_TYPE] as const;
    return this.creator.create(instance, standInFor(handler, callback), method.property, ...args);
  }

  private isFiltered({ handler, instance }: LayerHost): boolean {
    const globals = [...this.config.getGlobalFilters(), ...this.config.getGlobalRequestFilters()];
    return globals.length > 0 || hasFilters(handler) || hasFilters(instance.constructor);
  }

  private hasGlobals(): boolean {
    const { config } = this;
    const lists = [config.getGlobalGuards(), config.getGlobalPipes(), config.getGlobalInterceptors(), config.getGlobalFilters()];
    const scoped = [
      config.getGlobalRequestGuards(),
      config.getGlobalRequestPipes(),
      config.getGlobalRequestInterceptors(),
      config.getGlobalRequestFilters(),
    ];
    return [...lists, ...scoped].some((list) => list.length > 0);
  }
}

/** Hands pipes the DTO, or the argument a parameter is named for. */
const ARGUMENTS = {
  exchangeKeyForValue: (_type: number, data: unknown, [input]: readonly unknown[]): unknown =>
    typeof data === 'string' ? argumentOf(input, data) : input,
};

function argumentOf(input: unknown, name: string): unknown {
  return isObject(input) ? Reflect.get(input, name) : undefined;
}

function recordPipedParameters({ instance, method }: LayerHost): void {
  const entries = pipedParameters(method).map((parameter) => {
    const isInput = parameter.kind === 'input';
    const value = { index: parameter.index, data: isInput ? undefined : parameter.name, pipes: [] };
    return [`${isInput ? BODY : PARAM}:${parameter.index}`, value] as const;
  });
  Reflect.defineMetadata(PIPED_PARAMETERS, Object.fromEntries(entries), instance.constructor, method.property);
}

/** What the pipes made of the input, in the form the method's arguments are made of; the input itself where they changed nothing. */
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
  return method.parameters.filter((parameter): parameter is PipedParameter => parameter.kind !== 'context');
}

function invoke(call: unknown): unknown {
  if (typeof call !== 'function') throw new TypeError('The tool call was lost on its way through the interceptors.');
  return Reflect.apply(call, undefined, []);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
