import type { Type } from '@nestjs/common';
import { isObject, type ValueOrigin } from '@toolloop/protocol';
import type { JSONSchema7Type } from 'json-schema';
import { classValidator } from '../../findings/late-packages.js';
import { BOOLEAN, TEXT, oneOf } from '../../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions } from '../../findings/options.js';
import type { KnownField } from './tool-parameters.decorator.js';

export const TOOL_FIELD = defineOptions<ToolFieldOptions>(
  {
    description: TEXT,
    example: CHECKED_BY_USE,
    nullable: BOOLEAN,
    origin: oneOf('application', 'actor', 'outside'),
    ownedBy: TEXT,
    absence: oneOf('application'),
  },
  {
    together: ({ origin, ownedBy }, at) =>
      (origin === 'actor') === (ownedBy !== undefined)
        ? []
        : [
            {
              at,
              problem:
                "has a @ToolField() with one of `origin: 'actor'` and `ownedBy`, which go together",
              remedy: "Give both, such as { origin: 'actor', ownedBy: 'customerId' }, or neither.",
            },
          ],
    wording: {
      unknown: 'has a @ToolField() with "*", which is no option',
      option: 'has a @ToolField() whose "*"',
    },
  },
);

/**
 * The key under which the metadata of class-validator holds what `@ToolField()` says, so that
 * `PartialType()` and the like carry it to the classes they make.
 */
const TOOL_FIELD_CONTEXT = 'toolloop:tool-field';

/**
 * Describes a property of a `@ToolInput()` DTO to the model. A property that no class-validator
 * decorator names becomes an argument by it; it includes `@Allow()`, so that a whitelisting pipe
 * keeps the property. `PartialType()`, `PickType()`, `OmitType()` and `IntersectionType()` of
 * `@nestjs/mapped-types` keep it.
 *
 * @example
 * class SearchOrders {
 *   @ToolField({ description: 'A part of the number of the order.', example: '2026-4' })
 *   @IsString()
 *   number!: string;
 * }
 */
export function ToolField(options: ToolFieldOptions): PropertyDecorator {
  return (prototype, property) => {
    if (typeof property === 'symbol') return; // JSON has no symbols
    const recorded: FieldContext = {
      options,
      designType: Reflect.getMetadata('design:type', prototype, property),
    };
    const { Allow, ValidateIf } = classValidator();
    Allow({ context: { [TOOL_FIELD_CONTEXT]: recorded } })(prototype, property);
    if (options.nullable === true) ValidateIf(isNotNull)(prototype, property);
  };
}

/**
 * The description of a DTO's property for the model, and of what a property of a result or an
 * argument means for the flow of information. Type and bounds come from class-validator.
 */
export interface ToolFieldOptions {
  readonly description?: string;
  readonly example?: JSONSchema7Type;
  /**
   * Makes null a value of its own, which class-validator takes too. Without it, null on an optional
   * property (`@IsOptional()`, or an initialiser) is the same as leaving it out: the default
   * applies.
   * @default false
   */
  readonly nullable?: boolean;
  /**
   * The writer of a property of a result, and of all below it: the application, the actor of the
   * run, or anyone outside.
   * @default that of what the property is in, else 'outside'
   */
  readonly origin?: ValueOrigin;
  /**
   * Beside `origin: 'actor'`: the property with the id of the actor whose words the value is, in
   * the same object or in one around it. Where it holds another id, or none that the application
   * wrote, the value is from outside.
   */
  readonly ownedBy?: string;
  /**
   * Says of a property from outside that the application leaves it out where it is not there, such
   * as the cursor of a last page or a column that was not selected. Without it, it is someone
   * outside who may say something by leaving it out, which counts as one bit.
   * @default that who writes it leaves it out
   */
  readonly absence?: 'application';
}

/** The metadata of `@ToolField()` for a property. */
interface FieldContext {
  readonly options: ToolFieldOptions;
  /** The compiler's type, which the classes of mapped types do not have. */
  readonly designType: unknown;
}

/** The key under which a class has what is known of its properties beside their decorators. */
const KNOWN_FIELDS_METADATA = 'toolloop:known-fields';

/**
 * Says of properties of a class what `@ToolField()` would, for those that name no origin
 * themselves: a library calls it before tools are made of the class, with what it knows from
 * elsewhere, such as the columns in which an ORM stores it.
 *
 * @example
 * describeFields(Order, new Map([['total', { origin: 'application' }]]));
 */
export function describeFields(type: Type, fields: ReadonlyMap<string, KnownField>): void {
  Reflect.defineMetadata(KNOWN_FIELDS_METADATA, fields, type);
}

/** Returns what {@link describeFields} said of a property. */
export function knownFieldOf(type: Type, property: string): KnownField | undefined {
  const fields = Reflect.getMetadata(KNOWN_FIELDS_METADATA, type) as
    ReadonlyMap<string, KnownField> | undefined;
  return fields?.get(property);
}

/**
 * The condition of a nullable property; by its identity it is told from the conditions of an
 * application.
 */
export function isNotNull(_: object, value: unknown): boolean {
  return value !== null;
}

/**
 * Reads what `@ToolField()` recorded from the context of a rule of class-validator; undefined for
 * any other rule.
 */
export function toolFieldIn(context: unknown): FieldContext | undefined {
  const recorded: unknown = isObject(context)
    ? Reflect.get(context, TOOL_FIELD_CONTEXT)
    : undefined;
  return recorded as FieldContext | undefined;
}
