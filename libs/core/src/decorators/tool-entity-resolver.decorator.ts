import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import type { EntityResolver } from '../protocol/entity-resolver.js';

export const ENTITY_RESOLVER_METADATA = 'toolloop:entity-resolver';

/**
 * Marks the provider that finds instances of an entity class again, by their id and under the current actor. One per class, in any module; request-scoped ones are
 * made once per part of a run. How often it is asked is said on the entity: `@ToolProvider({ rehydrate })`.
 */
export function ToolEntityResolver<Entity extends object>(
  entity: Type<Entity>,
): (target: abstract new (...args: never[]) => EntityResolver<Entity>) => void {
  return (target) => {
    Reflect.defineMetadata(ENTITY_RESOLVER_METADATA, { entity }, target);
  };
}
