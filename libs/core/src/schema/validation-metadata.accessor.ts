import type { Type } from '@nestjs/common';
import { getMetadataStorage, IS_OPTIONAL, MetadataStorage, ValidationTypes } from 'class-validator';
import type { ValidationMetadata } from 'class-validator/types/metadata/ValidationMetadata.js';
import { isNotNull } from '../decorators/tool-field.decorator.js';

/** One class-validator decorator on one property. */
export interface ValidationRule {
  readonly property: string;
  readonly kind: 'constraint' | 'optional' | 'conditional' | 'nested' | 'promise' | 'allowed';
  /** class-validator's name of the constraint, e.g. `isEmail`; empty for a validator class of the application's own. */
  readonly name: string;
  readonly arguments: readonly unknown[];
  /** Whether it holds for the items of an array rather than for the array. */
  readonly each: boolean;
  /** `sometimes`: by a `validateIf` of its own. `in groups`: always too, as long as nobody validates by groups. */
  readonly holds: 'always' | 'sometimes' | 'in groups';
  /** Whether it is a validator class that class-validator does not know, and passes over in silence. */
  readonly inert: boolean;
}

/**
 * The decorators that `validate()` would obey, on the class and on those it extends; base classes first, each in order of declaration, so that the order
 * in which modules were loaded makes no difference.
 */
export function validationRulesOf(type: Type): ValidationRule[] {
  const metadata = lineageStorage(type).getTargetValidationMetadatas(type, '', false, false);
  const inherits = metadata.some(({ target }) => target !== type);
  const ordered = inherits ? metadata.toSorted((one, other) => depthOf(type, other) - depthOf(type, one)) : metadata;
  return ordered.map(toRule);
}

/**
 * A storage with a class and those it extends: `getTargetValidationMetadatas` goes through every class it knows, so that asking for each of a thousand
 * DTOs would take a million steps. Where class-validator keeps its metadata elsewhere, its own storage has to do.
 */
function lineageStorage(type: Type): MetadataStorage {
  const whole = getMetadataStorage();
  const byTarget: unknown = Reflect.get(whole, 'validationMetadatas');
  if (!(byTarget instanceof Map)) return whole;
  const lineage = new MetadataStorage();
  for (let level: object | null = type.prototype as object; level; level = Reflect.getPrototypeOf(level)) {
    for (const metadata of (byTarget.get(level.constructor) ?? []) as ValidationMetadata[]) lineage.addValidationMetadata(metadata);
  }
  return lineage;
}

/** How many classes lie between a class and the one that declares a rule. */
function depthOf(type: Type, { target }: ValidationMetadata): number {
  let depth = 0;
  for (let level: unknown = type; typeof level === 'function' && level !== target; level = Reflect.getPrototypeOf(level)) depth += 1;
  return depth;
}

function toRule(metadata: ValidationMetadata): ValidationRule {
  return {
    property: metadata.propertyName,
    kind: kindOf(metadata),
    name: metadata.name ?? '',
    arguments: (metadata.constraints ?? []) as readonly unknown[],
    each: metadata.each ?? false,
    holds: holdsOf(metadata),
    inert: metadata.constraintCls !== undefined && getMetadataStorage().getTargetValidatorConstraints(metadata.constraintCls).length === 0,
  };
}

function holdsOf({ validateIf, groups }: ValidationMetadata): ValidationRule['holds'] {
  if (validateIf !== undefined) return 'sometimes';
  return (groups ?? []).length > 0 ? 'in groups' : 'always';
}

function kindOf({ type, name, constraints }: ValidationMetadata): ValidationRule['kind'] {
  switch (type) {
    case ValidationTypes.CONDITIONAL_VALIDATION:
      if (constraints.includes(isNotNull)) return 'allowed'; // the schema says it by its type
      return name === IS_OPTIONAL ? 'optional' : 'conditional';
    case ValidationTypes.NESTED_VALIDATION:
      return 'nested';
    case ValidationTypes.PROMISE_VALIDATION:
      return 'promise';
    case ValidationTypes.WHITELIST:
      return 'allowed';
    default:
      return 'constraint';
  }
}
