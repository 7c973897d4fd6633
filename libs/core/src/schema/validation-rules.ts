import type { Type } from '@nestjs/common';
import type * as ClassValidator from 'class-validator';
import type { ValidationMetadata } from 'class-validator/types/metadata/ValidationMetadata.js';
import { classValidator, isInstalled } from '../findings/late-packages.js';
import { isNotNull, toolFieldIn } from '../tools/decorators/tool-field.decorator.js';
import { isGiven } from './input-properties.js';
import { linearExpression } from './patterns.js';
import { presenceCondition } from './presence-conditions.js';

/**
 * Returns the decorators that `validate()` would obey, of the class and of those it extends; base
 * classes first, each in order of declaration, so that the load order of modules makes no
 * difference.
 */
export function validationRulesOf(type: Type): ValidationRule[] {
  if (!isInstalled('class-validator')) return [];
  // once for all, since each is two getters away
  const { getMetadataStorage, IS_OPTIONAL, ValidationTypes } = classValidator();
  const library: RuleReader = { storage: getMetadataStorage(), IS_OPTIONAL, ValidationTypes };
  const metadata = metadataOf(type, library.storage);
  const inherits = metadata.some(({ target }) => target !== type);
  const ordered = inherits
    ? metadata.toSorted((one, other) => depthOf(type, other) - depthOf(type, one))
    : metadata;
  return ordered.map((one) => toRule(one, library));
}

/** One class-validator decorator on one property. */
export interface ValidationRule {
  readonly property: string;
  readonly kind:
    'constraint' | 'optional' | 'nullable' | 'conditional' | 'nested' | 'promise' | 'allowed';
  /**
   * class-validator's name of the constraint, e.g. `isEmail`; empty for a validator class of the
   * application.
   */
  readonly name: string;
  readonly arguments: readonly unknown[];
  /** `true` if it holds for the items of an array rather than for the array. */
  readonly each: boolean;
  /**
   * The condition under which it holds. `sometimes`: by a `validateIf` of its own. `in groups`:
   * always, unless the application validates by groups.
   */
  readonly holds: 'always' | 'sometimes' | 'in groups';
  /** `true` for a validator class that class-validator does not know, and ignores silently. */
  readonly inert: boolean;
  /** Set where it is a `@ToolField()`. */
  readonly field: ReturnType<typeof toolFieldIn>;
}

/** The parts of class-validator that say what a rule is. */
type RuleReader = Pick<typeof ClassValidator, 'IS_OPTIONAL' | 'ValidationTypes'> & {
  readonly storage: ClassValidator.MetadataStorage;
};

/**
 * Returns what `getTargetValidationMetadatas` would of a class without groups. That visits every
 * class it knows, so reading each of a thousand DTOs would take a million steps: where
 * class-validator keeps its metadata by class, those of the class alone are read, or of it and
 * those it extends.
 */
function metadataOf(
  type: Type,
  whole: ClassValidator.MetadataStorage,
): readonly ValidationMetadata[] {
  const byTarget: unknown = Reflect.get(whole, 'validationMetadatas');
  if (!(byTarget instanceof Map)) return whole.getTargetValidationMetadatas(type, '', false, false);
  const levels: (readonly ValidationMetadata[])[] = [];
  for (
    let level: object | null = type.prototype as object;
    level;
    level = Reflect.getPrototypeOf(level)
  ) {
    const own = byTarget.get(level.constructor) as readonly ValidationMetadata[] | undefined;
    if (own) levels.push(own);
  }
  const [first = [], ...others] = levels;
  if (others.length === 0) return first;
  const lineage = new (classValidator().MetadataStorage)();
  for (const one of levels.flat()) lineage.addValidationMetadata(one);
  return lineage.getTargetValidationMetadatas(type, '', false, false);
}

/** Counts the classes between a class and the one that declares a rule. */
function depthOf(type: Type, { target }: ValidationMetadata): number {
  let depth = 0;
  for (
    let level: unknown = type;
    typeof level === 'function' && level !== target;
    level = Reflect.getPrototypeOf(level)
  )
    depth += 1;
  return depth;
}

function toRule(metadata: ValidationMetadata, library: RuleReader): ValidationRule {
  return {
    property: metadata.propertyName,
    kind: kindOf(metadata, library),
    name: metadata.name ?? '',
    arguments: linearArguments(metadata),
    each: metadata.each ?? false,
    holds: holdsOf(metadata),
    inert:
      metadata.constraintCls !== undefined &&
      library.storage.getTargetValidatorConstraints(metadata.constraintCls).length === 0,
    field: toolFieldIn(metadata.context),
  };
}

/**
 * Returns the arguments of a decorator. The expression of a `@Matches()` is replaced where
 * class-validator keeps it by one of the same meaning that takes linear time: class-validator runs
 * it for flags, conditions and the pipes of the application, which no schema sees, and by
 * backtracking even a text that the schema lets through can take for ever.
 */
function linearArguments({ name, constraints }: ValidationMetadata): readonly unknown[] {
  const given: unknown[] = constraints ?? [];
  if (name !== 'matches') return given;
  const { expression } = readExpression(given);
  const linear = expression && linearExpression(expression);
  if (linear !== expression) given[0] = linear;
  return given;
}

/** Reads the arguments of a `@Matches()`: its expression, or why there is none. */
export function readExpression([pattern, flags]: readonly unknown[]): {
  readonly expression?: RegExp;
  readonly broken?: string;
} {
  if (pattern instanceof RegExp) return { expression: pattern };
  try {
    return { expression: new RegExp(String(pattern), typeof flags === 'string' ? flags : '') };
  } catch (error) {
    return { broken: error instanceof Error ? error.message : String(error) };
  }
}

function holdsOf({ validateIf, groups }: ValidationMetadata): ValidationRule['holds'] {
  if (validateIf !== undefined) return 'sometimes';
  return (groups ?? []).length > 0 ? 'in groups' : 'always';
}

function kindOf(
  { type, name, constraints, propertyName }: ValidationMetadata,
  { IS_OPTIONAL, ValidationTypes }: RuleReader,
): ValidationRule['kind'] {
  switch (type) {
    case ValidationTypes.CONDITIONAL_VALIDATION:
      if (constraints.includes(isNotNull)) return 'allowed'; // the schema says it by its type
      if (name === IS_OPTIONAL || constraints.includes(isGiven)) return 'optional';
      return presenceCondition(constraints[0], propertyName) ?? 'conditional';
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
