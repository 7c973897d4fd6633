import {
  type ContextId,
  ContextIdFactory,
  type ExternalContextCreator,
  ModuleRef,
} from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { isObject } from '@toolloop/protocol';
import type { RunContext } from '../../contracts/tool-call.js';

/**
 * Finds the instance a service tool is called on. Request-scoped providers are resolved once per
 * run, with the run's context as `REQUEST`, through `ContextIdFactory`, so that durable providers
 * work too.
 */
export class ProviderInstances {
  /** The context ids by the run's state map, the one object all calls of a run share. */
  private readonly contextIds = new WeakMap<object, ContextId>();

  constructor(private readonly creator: ExternalContextCreator) {}

  resolve(wrapper: InstanceWrapper<object>, run: RunContext): object | Promise<object> {
    if (wrapper.isDependencyTreeStatic() && !wrapper.isTransient) return wrapper.instance;
    return this.resolveScoped(wrapper, run).then(({ instance }) => instance);
  }

  /** The run's instance, and the context id it lives under. */
  async resolveScoped(wrapper: InstanceWrapper<object>, run: RunContext): Promise<ScopedInstance> {
    const contextId = this.contextIdOf(run);
    return {
      contextId,
      instance: await hostOf(wrapper).resolve<object>(wrapper.token, contextId, { strict: true }),
    };
  }

  /** The id under which Nest makes what is request-scoped, for all calls of a run. */
  contextIdOf(run: RunContext): ContextId {
    const known = this.contextIds.get(run.state);
    if (known) return known;
    const request = runContextOf(run);
    const created = ContextIdFactory.getByRequest(request);
    this.creator.registerRequestProvider(request, created);
    this.contextIds.set(run.state, created);
    return created;
  }
}

/** An instance that lives as long as a run. */
export interface ScopedInstance {
  readonly instance: object;
  readonly contextId: ContextId;
}

/**
 * Returns the part of a call's context that holds for the whole run: the instance outlives the
 * call.
 */
function runContextOf({ runId, actor, tenant, context, state }: RunContext): RunContext {
  return { runId, actor, tenant, context, state };
}

function hostOf(wrapper: InstanceWrapper<object>): ModuleRef {
  const found: unknown = wrapper.host?.providers.get(ModuleRef)?.instance;
  if (found instanceof ModuleRef) return found;
  throw new Error(
    `The module of ${String(wrapper.name)} has no ModuleRef; is the application initialised?`,
  );
}

/**
 * Tells whether there is something to call: a provider may be null, and one that a request makes is
 * not there yet.
 */
export function isThere(wrapper: InstanceWrapper): boolean {
  return !isSingleton(wrapper) || isObject(wrapper.instance);
}

export function isSingleton(wrapper: InstanceWrapper): boolean {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}
