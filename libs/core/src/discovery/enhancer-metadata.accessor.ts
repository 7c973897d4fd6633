import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import { EXCEPTION_FILTERS_METADATA, GUARDS_METADATA, INTERCEPTORS_METADATA, PIPES_METADATA } from '@nestjs/common/constants.js';

const ENHANCERS = [GUARDS_METADATA, PIPES_METADATA, INTERCEPTORS_METADATA, EXCEPTION_FILTERS_METADATA];
const HOST_OF = 'toolloop:host-of';

/** What the compiler records of a constructor; a host must not look as if it had the entity's dependencies. */
const CONSTRUCTOR_METADATA = new Set<unknown>(['design:paramtypes', 'self:paramtypes', 'self:properties_metadata']);

/** Whether a class or a method carries guards, pipes, interceptors or filters of its own. */
export function hasEnhancers(target: object): boolean {
  return ENHANCERS.some((key) => Reflect.hasMetadata(key, target));
}

/** Whether a class or a method carries exception filters of its own. */
export function hasFilters(target: object): boolean {
  return Reflect.hasMetadata(EXCEPTION_FILTERS_METADATA, target);
}

/** A method as its class has it; undefined where a getter or nothing stands in its place. */
export function handlerOf(type: Type, property: string): object | undefined {
  for (let level = type.prototype as object | null; level; level = Reflect.getPrototypeOf(level)) {
    const descriptor = Reflect.getOwnPropertyDescriptor(level, property);
    if (descriptor) return typeof descriptor.value === 'function' ? (descriptor.value as object) : undefined;
  }
  return undefined;
}

/** A function that answers for a method: it carries the method's metadata, which is where Nest and its `Reflector` look. */
export function standInFor<Callback extends (...args: unknown[]) => unknown>(handler: object, callback: Callback): Callback {
  copyMetadata(handler, callback);
  Object.defineProperty(callback, 'name', { value: Reflect.get(handler, 'name') ?? '' });
  return callback;
}

/** What every host is. */
class EntityHost {
  readonly standsForAnEntity = true;
}

/**
 * A class that stands for an entity in the container: it has the entity's enhancers, on itself and on its methods, and none of its code. Entities
 * themselves are no providers, and Nest would skip their guards silently.
 */
export function hostClassOf(entity: Type, properties: readonly string[]): Type {
  const host = class extends EntityHost {};
  Object.defineProperty(host, 'name', { value: entity.name });
  copyMetadata(entity, host);
  Reflect.defineMetadata(HOST_OF, entity, host);
  for (const property of properties) {
    const handler = handlerOf(entity, property);
    const standIn = standInFor(handler ?? {}, () => undefined);
    Object.defineProperty(host.prototype, property, { value: standIn, configurable: true });
    copyMetadata(entity.prototype as object, host.prototype, property);
  }
  return host;
}

/** The entity a host stands for; undefined for other classes. */
export function entityOfHost(type: object): Type | undefined {
  return Reflect.getOwnMetadata(HOST_OF, type) as Type | undefined;
}

function copyMetadata(from: object, to: object, property?: string): void {
  const keys = (property === undefined ? Reflect.getMetadataKeys(from) : Reflect.getMetadataKeys(from, property)) as unknown[];
  for (const key of keys) {
    if (CONSTRUCTOR_METADATA.has(key) && property === undefined) continue;
    if (String(key).startsWith('toolloop:')) continue;
    if (property === undefined) Reflect.defineMetadata(key, Reflect.getMetadata(key, from), to);
    else Reflect.defineMetadata(key, Reflect.getMetadata(key, from, property), to, property);
  }
}
