import type { Type } from '@nestjs/common';
import { providerOptionsOf } from '../decorators/tool-metadata.accessor.js';
import { classOf } from '../schema/exposed-properties.accessor.js';
import type { Rehydrate } from '../protocol/entity-resolver.js';
import type { EntityLookup } from './entity.resolvers.js';
import { instanceIdIn, type IdProperty } from './instance-id.js';
import type { ToolTemplate } from './tool.template.js';

/** A class whose instances bring tools with them. */
export interface EntityDefinition {
  readonly type: Type;
  readonly prefix: string;
  readonly idProperty: IdProperty;
  /** The property or method that says whose an instance is, where there is one. */
  readonly tenantProperty?: string;
  /** How and when an instance is found anew; absent where it never is. */
  readonly rehydration?: { readonly when: Exclude<Rehydrate, 'never'>; readonly lookup: EntityLookup };
  readonly tools: readonly EntityTool[];
  /** Longest instance id for which every tool's id stays within 64 characters. */
  readonly maxIdLength: number;
}

export interface EntityTool {
  readonly name: string;
  readonly template: ToolTemplate;
}

/** The entity classes of the application, by class. Fixed at bootstrap. */
export class EntityRegistry {
  private readonly byType: ReadonlyMap<object, EntityDefinition>;

  constructor(readonly definitions: readonly EntityDefinition[]) {
    this.byType = new Map(definitions.map((definition) => [definition.type, definition]));
  }

  /** Two classes may have one name, but never one prefix. */
  withPrefix(prefix: string): EntityDefinition | undefined {
    return this.definitions.find((definition) => definition.prefix === prefix);
  }

  /** The definition of an object's class, or of the nearest class it inherits from. */
  find(instance: object): EntityDefinition | undefined {
    for (let level = Reflect.getPrototypeOf(instance); level; level = Reflect.getPrototypeOf(level)) {
      const definition = this.byType.get(level.constructor);
      if (definition) return definition;
    }
    return undefined;
  }

  /** Whether an object's class is marked `@ToolProvider()` and yet unknown here. */
  isUnknownProvider(instance: object): boolean {
    const type = classOf(instance);
    return type !== undefined && providerOptionsOf(type) !== undefined && this.find(instance) === undefined;
  }
}

/** An instance's id as text; undefined when it has none. */
export function instanceIdOf(definition: EntityDefinition, instance: object): string | undefined {
  return instanceIdIn(instance, definition.idProperty);
}

/** Whether an instance is known to be another tenant's. One that does not say whose it is, though its class does, is nobody's. */
export function isForeign({ tenantProperty }: EntityDefinition, instance: object, tenant: string): boolean {
  return tenantProperty !== undefined && memberOf(instance, tenantProperty) !== tenant;
}

/** What a property holds, or a method of that name returns. */
function memberOf(instance: object, property: string): unknown {
  const member: unknown = Reflect.get(instance, property);
  return typeof member === 'function' ? Reflect.apply(member, instance, []) : member;
}
