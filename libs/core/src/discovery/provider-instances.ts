import type { Type } from '@nestjs/common';
import { type ContextId, ContextIdFactory, INQUIRER, ModuleRef, REQUEST } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { RunContext } from '../contracts/tool-call.js';
import { classOf } from '../schema/exposed-properties.js';

/** An instance that lives as long as a run. */
export interface ScopedInstance {
  readonly instance: object;
  readonly contextId: ContextId;
}

/**
 * Finds the instance a service tool is called on. Request-scoped providers are resolved once per run, with the run's context as `REQUEST`, through
 * `ContextIdFactory`, so that durable providers work too.
 */
export class ProviderInstances {
  /** The context ids by the run's state map, the one object all calls of a run share. */
  private readonly contextIds = new WeakMap<object, ContextId>();

  resolve(wrapper: InstanceWrapper<object>, run: RunContext): object | Promise<object> {
    if (wrapper.isDependencyTreeStatic() && !wrapper.isTransient) return wrapper.instance;
    return this.resolveScoped(wrapper, run).then(({ instance }) => instance);
  }

  /** The run's instance, and the context id it lives under. */
  async resolveScoped(wrapper: InstanceWrapper<object>, run: RunContext): Promise<ScopedInstance> {
    const moduleRef = hostOf(wrapper);
    const contextId = this.contextIdOf(run, moduleRef);
    return { contextId, instance: await moduleRef.resolve<object>(wrapper.token, contextId, { strict: true }) };
  }

  private contextIdOf(run: RunContext, moduleRef: ModuleRef): ContextId {
    const known = this.contextIds.get(run.state);
    if (known) return known;
    const request = runContextOf(run);
    const created = ContextIdFactory.getByRequest(request);
    moduleRef.registerRequestByContextId(request, created);
    this.contextIds.set(run.state, created);
    return created;
  }
}

/** Returns the part of a call's context that holds for the whole run: the instance outlives the call. */
function runContextOf({ runId, actor, tenant, context, state }: RunContext): RunContext {
  return { runId, actor, tenant, context, state };
}

function hostOf(wrapper: InstanceWrapper<object>): ModuleRef {
  const found: unknown = wrapper.host?.providers.get(ModuleRef)?.instance;
  if (found instanceof ModuleRef) return found;
  throw new Error(`The module of ${String(wrapper.name)} has no ModuleRef; is the application initialised?`);
}

/** Returns the class of a provider. For a factory or a value the instance tells it; if there is none yet, the token does. */
export function classOfProvider(wrapper: InstanceWrapper<object>): Type | undefined {
  const isFactoryOrValue = wrapper.isFactory || wrapper.isNotMetatype;
  if (!isFactoryOrValue) return isClass(wrapper.metatype) ? wrapper.metatype : undefined;
  if (!isSingleton(wrapper)) return isClass(wrapper.token) ? wrapper.token : undefined;
  const instance: unknown = wrapper.instance;
  const type = typeof instance === 'object' && instance !== null ? classOf(instance) : undefined;
  return type === Object ? undefined : type;
}

/** The class a provider is provided as, where there is something to call: a test may put a plain object or an undecorated class in its place. */
export function tokenClassOf(wrapper: InstanceWrapper<object>): Type | undefined {
  const isThere = !isSingleton(wrapper) || (typeof wrapper.instance === 'object' && wrapper.instance !== null);
  return isThere && isClass(wrapper.token) ? wrapper.token : undefined;
}

/** Tells a factory that runs in a request only, and whose token does not name what it makes. */
export function isOpaque(wrapper: InstanceWrapper): boolean {
  return wrapper.isFactory && !isSingleton(wrapper) && !isClass(wrapper.token) && wrapper.token !== REQUEST && wrapper.token !== INQUIRER;
}

export function isSingleton(wrapper: InstanceWrapper): boolean {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}

export function isClass(value: unknown): value is Type {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null && value !== Object;
}

export function isClassOrBelow(type: unknown, ancestor: Type): boolean {
  return type === ancestor || (typeof type === 'function' && type.prototype instanceof ancestor);
}
