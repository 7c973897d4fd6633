import type { Type } from '@nestjs/common';
import { providerOptionsOf } from '../decorators/tool-metadata.accessor.js';
import { classOf } from '../schema/exposed-properties.accessor.js';
import { instanceIdIn, type IdProperty } from './instance-id.js';
import type { ToolTemplate } from './tool.template.js';

/** A class whose instances bring tools with them. */
export interface EntityDefinition {
  readonly type: Type;
  readonly prefix: string;
  readonly idProperty: IdProperty;
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
