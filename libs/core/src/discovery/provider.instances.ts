import { Injectable } from '@nestjs/common';
import { ContextIdFactory, ModuleRef, type ContextId } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { RunContext } from '../protocol/tool-call-context.js';

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
    return hostOf(wrapper).resolve<object>(wrapper.token, this.contextIdOf(run, hostOf(wrapper)), { strict: true });
  }

  private contextIdOf(run: RunContext, moduleRef: ModuleRef): ContextId {
    const known = this.contextIds.get(run.state);
    if (known) return known;
    const created = ContextIdFactory.getByRequest(run);
    moduleRef.registerRequestByContextId(run, created);
    this.contextIds.set(run.state, created);
    return created;
  }
}

function hostOf(wrapper: InstanceWrapper<object>): ModuleRef {
  const found: unknown = wrapper.host?.providers.get(ModuleRef)?.instance;
  if (found instanceof ModuleRef) return found;
  throw new Error(`The module of ${String(wrapper.name)} has no ModuleRef; is the application initialised?`);
}
