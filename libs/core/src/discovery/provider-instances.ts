import type { Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import {
  type ContextId,
  ContextIdFactory,
  type ExternalContextCreator,
  INQUIRER,
  ModuleRef,
  REQUEST,
} from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { type Finding, isObject, isRecord } from '@toolloop/protocol';
import type { RunContext } from '../contracts/tool-call.js';
import { inWords } from '../findings/options.js';
import { classOf } from '../schema/exposed-properties.js';

/** An instance that lives as long as a run. */
export interface ScopedInstance {
  readonly instance: object;
  readonly contextId: ContextId;
}

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
 * Returns the class of a provider. For a factory or a value the instance tells it; if there is none
 * yet, the token does.
 */
export function classOfProvider(wrapper: InstanceWrapper<object>): Type | undefined {
  const isFactoryOrValue = wrapper.isFactory || wrapper.isNotMetatype;
  if (!isFactoryOrValue) return isClass(wrapper.metatype) ? wrapper.metatype : undefined;
  if (!isSingleton(wrapper)) return isClass(wrapper.token) ? wrapper.token : undefined;
  const instance: unknown = wrapper.instance;
  const type = typeof instance === 'object' && instance !== null ? classOf(instance) : undefined;
  return type === Object ? undefined : type;
}

/**
 * Returns the classes that a provider may stand for, most likely first: a test may put a plain
 * object or an undecorated class in the place of its own.
 */
export function classesOfProvider(wrapper: InstanceWrapper<object>): Type[] {
  const { token } = wrapper;
  return [
    classOfProvider(wrapper),
    isClass(token) ? token : undefined,
    declaredClassOf(wrapper),
  ].filter((type) => type !== undefined);
}

/**
 * Reads the class that the decorator of a module declares under the token of a provider. Nothing
 * tells what a factory made that is replaced.
 */
function declaredClassOf({ token, host }: InstanceWrapper): Type | undefined {
  const declared: unknown = host && Reflect.getMetadata(MODULE_METADATA.PROVIDERS, host.metatype);
  const providers: readonly unknown[] = Array.isArray(declared) ? declared : [];
  const { useClass, useValue } =
    providers.filter(isRecord).findLast(({ provide }) => provide === token) ?? {};
  if (useClass !== undefined) return isClass(useClass) ? useClass : undefined;
  return isObject(useValue) ? classOf(useValue) : undefined;
}

/**
 * Tells whether there is something to call: a provider may be null, and one that a request makes is
 * not there yet.
 */
export function isThere(wrapper: InstanceWrapper): boolean {
  return !isSingleton(wrapper) || isObject(wrapper.instance);
}

/**
 * Finds the methods of a class that what stands in its place does not have: each call of them would
 * fail. A request that makes the instance shows them, too, and no sooner.
 */
export function standInFindings(
  at: string,
  type: Type,
  wrapper: InstanceWrapper<object>,
  methods: readonly string[],
): Finding[] {
  const { instance } = wrapper;
  if (!isSingleton(wrapper) || !isObject(instance) || instance instanceof type) return [];
  const missing = methods.filter((name) => typeof Reflect.get(instance, name) !== 'function');
  return missing.map((name) => ({
    at,
    problem: `What is provided in place of ${type.name} has no method "${name}", so each call would fail.`,
    remedy:
      'Give it the method, or leave the provider and override the tool by an interceptor or ToolLoopTestingModule.override().',
  }));
}

/**
 * Finds what keeps tools out of the catalog and may be meant so: nothing or an alias in the place
 * of their class, a list that holds them, and a factory that runs in a request only.
 */
export function providerWarnings(
  providers: readonly InstanceWrapper<object>[],
  declaresTools: (type: Type) => boolean,
): Finding[] {
  const own = providers.filter(({ isAlias }) => !isAlias);
  const found = new Set(
    own.filter(isThere).flatMap((wrapper) => classesOfProvider(wrapper).find(declaresTools) ?? []),
  );
  const isMissing = (type: Type | undefined): type is Type =>
    type !== undefined && declaresTools(type) && !found.has(type);
  const standsApart = ({ isAlias, token, instance }: InstanceWrapper): boolean =>
    isAlias &&
    isClass(token) &&
    isMissing(token) &&
    isObject(instance) &&
    !found.has(classOf(instance) ?? token);
  const aliased = providers.filter(standsApart).map(({ token }) => aliasWarning(token));
  const others = own.flatMap((wrapper) => {
    if (isOpaque(wrapper)) return [opaqueWarning(wrapper)];
    if (!isThere(wrapper))
      return classesOfProvider(wrapper)
        .filter(isMissing)
        .map((type) => absentWarning(type, wrapper.instance));
    const held = Array.isArray(wrapper.instance)
      ? wrapper.instance.flatMap((one: unknown) => (isObject(one) ? (classOf(one) ?? []) : []))
      : [];
    return [...new Set(held)].filter(isMissing).map((type) => heldWarning(type, wrapper));
  });
  return [...aliased, ...others];
}

function aliasWarning(token: InstanceWrapper['token']): Finding {
  return {
    at: isClass(token) ? token.name : String(token),
    problem:
      'Another provider stands in its place by `useExisting`, so its tools are not in the catalog.',
    remedy: 'Replace it by `useClass` or `useValue`, which keep its tools, or remove the provider.',
  };
}

function opaqueWarning({ token }: InstanceWrapper): Finding {
  return {
    at: `Factory "${String(token)}"`,
    problem: 'Only a request shows what it makes, so tools of that would not be found.',
    remedy:
      'If it makes tools, provide it as their class: { provide: CrmTools, scope, useFactory }.',
  };
}

function absentWarning(type: Type, there: unknown): Finding {
  return {
    at: type.name,
    problem: `There is ${inWords(there)} in its place, so its tools are not in the catalog.`,
    remedy: 'Provide an instance, or remove the provider.',
  };
}

function heldWarning(type: Type, { token }: InstanceWrapper): Finding {
  return {
    at: `Provider "${String(token)}"`,
    problem: `It is a list that holds ${type.name}, and the tools of what a list holds are not found.`,
    remedy: 'Provide each as its class.',
  };
}

/** Tells a factory that runs in a request only, and whose token does not name what it makes. */
function isOpaque(wrapper: InstanceWrapper): boolean {
  return (
    wrapper.isFactory &&
    !isSingleton(wrapper) &&
    !isClass(wrapper.token) &&
    wrapper.token !== REQUEST &&
    wrapper.token !== INQUIRER
  );
}

export function isSingleton(wrapper: InstanceWrapper): boolean {
  return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
}

export function isClass(value: unknown): value is Type {
  return (
    typeof value === 'function' &&
    typeof value.prototype === 'object' &&
    value.prototype !== null &&
    value !== Object
  );
}

export function isClassOrBelow(type: unknown, ancestor: Type): boolean {
  return type === ancestor || (typeof type === 'function' && type.prototype instanceof ancestor);
}
