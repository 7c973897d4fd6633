import type { Type } from '@nestjs/common';
import {
  EXCEPTION_FILTERS_METADATA,
  GUARDS_METADATA,
  INTERCEPTORS_METADATA,
  PIPES_METADATA,
} from '@nestjs/common/constants.js';
import type { Finding } from '@toolloop/protocol';
import type { LayeredMethod } from './layered-method.js';
import { isClass } from './provider-classes.js';

export function asObject(value: unknown): object {
  if (typeof value === 'object' && value !== null) return value;
  throw new TypeError('A provider of tools has no instance.');
}

/** Nest's keys of guards, pipes, interceptors and filters. */
export const ENHANCERS = [
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

/** Finds the enhancers of a source of tools: the global ones alone hold for its tools. */
export function sourceEnhancerFindings({ constructor }: object): Finding[] {
  if (!hasEnhancers(constructor)) return [];
  return [
    {
      at: constructor.name,
      problem:
        'It has guards, pipes, interceptors or filters, which Nest does not apply to the tools that it lists.',
      remedy: 'Make them global, such as by APP_GUARD, or decide by policy.',
    },
  ];
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
  for (let level = type.prototype as object | null; level; level = Reflect.getPrototypeOf(level))
    if (Object.hasOwn(level, property)) return functionOn(level, property);
  return undefined;
}

/** Returns the function that a prototype itself has by a name. */
export function functionOn(prototype: object, property: string): object | undefined {
  const value: unknown = Reflect.getOwnPropertyDescriptor(prototype, property)?.value;
  return typeof value === 'function' ? value : undefined;
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
export function hostClassOf(
  entity: Type,
  properties: readonly string[],
  handlers = Object.fromEntries(
    properties.map((property) => [property, handlerOf(entity, property)]),
  ),
): Type {
  const host = hostOf(entity.name, handlers);
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
