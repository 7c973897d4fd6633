import { Injectable } from '@nestjs/common';
import { ContextIdFactory, ModuleRef, type ContextId } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { RunContext } from '../protocol/tool-call-context.js';

/** An instance that lives as long as a run. */
export interface ScopedInstance {
  readonly instance: object;
  readonly contextId: ContextId;
}

/**
 * Finds the instance a service tool is called on. Request-scoped providers are resolved once per run, with the run's context as `REQUEST`, through
 * `ContextIdFactory`, so that durable providers work too.
 */
@Injectable()
export class ProviderInstances {
  /** By the run's state map, the one object all calls of a run share. */
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

/** Of a call's context only what holds for the whole run: the instance outlives the call. */
function runContextOf({ runId, actor, tenant, context, state }: RunContext): RunContext {
  return { runId, actor, tenant, context, state };
}

function hostOf(wrapper: InstanceWrapper<object>): ModuleRef {
  const found: unknown = wrapper.host?.providers.get(ModuleRef)?.instance;
  if (found instanceof ModuleRef) return found;
  throw new Error(`The module of ${String(wrapper.name)} has no ModuleRef; is the application initialised?`);
}
