import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import { Allow, ValidateIf } from 'class-validator';
import type { JSONSchema7Type } from 'json-schema';

/** What a model is told about one property of a DTO. Its type and its bounds come from class-validator. */
export interface ToolFieldOptions {
  readonly description?: string;
  readonly example?: JSONSchema7Type;
  /**
   * Makes null a value of its own, which class-validator takes too. Without it, null on an optional property (`@IsOptional()`, or an initialiser) is the same as leaving it
   * out: the default applies.
   * @default false
   */
  readonly nullable?: boolean;
}

const TOOL_FIELD_METADATA = 'toolloop:tool-field';

/**
 * Describes a property of a `@ToolInput()` DTO to the model. A property that no class-validator decorator names becomes an argument by it; it includes `@Allow()`, so that
 * a whitelisting pipe keeps the property.
 */
export function ToolField(options: ToolFieldOptions): PropertyDecorator {
  return (prototype, property) => {
    if (typeof property === 'symbol') return; // JSON has no symbols
    Allow()(prototype, property);
    if (options.nullable === true) ValidateIf(isNotNull)(prototype, property);
    Reflect.defineMetadata(TOOL_FIELD_METADATA, options, prototype, property);
  };
}

/** The condition of a nullable property; by its identity it is told from the conditions of an application. */
export function isNotNull(_: object, value: unknown): boolean {
  return value !== null;
}

/** What `@ToolField()` says about a property, on the class or on one it extends. */
export function toolFieldOf(type: Type, property: string): ToolFieldOptions {
  return (Reflect.getMetadata(TOOL_FIELD_METADATA, type.prototype as object, property) ?? {}) as ToolFieldOptions;
}
