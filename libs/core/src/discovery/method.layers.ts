import { Injectable, type Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { ToolMethod } from '../decorators/tool-metadata.accessor.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { ToolLayers } from '../protocol/tool-layers.js';
import type { Tool } from '../protocol/tool.js';
import { handlerOf, hostClassOf } from './enhancer-metadata.accessor.js';
import { NestLayerCompiler } from './nest.layers.js';
import { isSingleton } from './provider-classes.js';
import { ProviderInstances } from './provider.instances.js';

/** A decorated method and who stands for its class in the container. */
export interface LayeredMethod {
  readonly type: Type;
  readonly method: ToolMethod;
  /** The provider itself, or the host of an entity class; absent for an entity that no feature names. */
  readonly wrapper?: InstanceWrapper<object>;
}

/** Finds the layers of a method: compiled once where the provider is a singleton, once per run where it is not. */
@Injectable()
export class MethodLayers {
  constructor(
    private readonly compiler: NestLayerCompiler,
    private readonly instances: ProviderInstances,
  ) {}

  /** Global enhancers are looked at when the tool is first called: an application adds them until it listens. */
  of({ type, method, wrapper }: LayeredMethod): NonNullable<Tool['layers']> {
    const handler = handlerOf(type, method.property) ?? {};
    if (wrapper && !isSingleton(wrapper)) return this.perRun(wrapper, handler, method);
    let compiled: { readonly layers: ToolLayers | undefined } | undefined;
    return () => {
      const instance: unknown = wrapper?.instance ?? new (hostClassOf(type, [method.property]))();
      compiled ??= { layers: this.compiler.compile({ instance: asObject(instance), handler, method }) };
      return compiled.layers;
    };
  }

  private perRun(wrapper: InstanceWrapper<object>, handler: object, method: ToolMethod): NonNullable<Tool['layers']> {
    const perRun = new WeakMap<object, Promise<ToolLayers | undefined>>();
    const compile = async (run: RunContext): Promise<ToolLayers | undefined> => {
      const { instance, contextId } = await this.instances.resolveScoped(wrapper, run);
      return this.compiler.compile({ instance, handler, method, scope: { contextId, inquirerId: wrapper.id } });
    };
    return (run) => {
      const known = perRun.get(run.state) ?? compile(run);
      perRun.set(run.state, known);
      return known;
    };
  }
}

function asObject(value: unknown): object {
  if (typeof value === 'object' && value !== null) return value;
  throw new TypeError('A provider of tools has no instance.');
}
