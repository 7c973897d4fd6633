import type { Type } from '@nestjs/common';
import type { JSONSchema7 } from 'json-schema';
import { inputPropertiesOf } from './input-properties.js';
import { propertyDefaultsOf } from './property-defaults.js';
import {
  type BacktrackingPattern,
  type DtoProperty,
  type PropertyProblem,
  propertySchema,
  type PropertySchema,
} from './property-schema.js';
import { type ValidationRule, validationRulesOf } from './validation-rules.js';

/** The JSON form of a DTO class. */
export interface DtoSchema {
  readonly schema: JSONSchema7;
  /** `true` if class-validator has constraints that the schema cannot express. */
  readonly needsClassValidator: boolean;
  /**
   * The names of top-level properties that class-transformer hides from the ui or the audit, or
   * that hold such a property.
   */
  readonly hidden: readonly string[];
  /**
   * The problems of the class; with any, the schema must not be used. `path` is `Class.property`,
   * or `Class` for the whole.
   */
  readonly findings: readonly DtoFinding[];
  /** The patterns that the linear engine cannot run. */
  readonly backtracking: readonly (DtoFinding & BacktrackingPattern)[];
}

export interface DtoFinding extends PropertyProblem {
  readonly path: string;
}

/**
 * Makes the JSON Schema of a DTO class from class-validator's and class-transformer's metadata. A
 * nested class is inlined, unless it is used twice or within itself: then it is in `$defs`. The
 * same class always gives the same schema.
 */
export function dtoSchema(type: Type, classes = new DtoClasses()): DtoSchema {
  return new DtoCompilation(type, classes).result();
}

class DtoCompilation {
  private readonly uses = new Map<Type, number>();
  private readonly definitions = new Map<string, JSONSchema7>();
  private readonly names = new Map<Type, { plain?: string; nullable?: string }>();
  private readonly findings = new Map<string, DtoFinding>();
  private readonly backtracking = new Map<string, DtoFinding & BacktrackingPattern>();
  private exact = true;

  constructor(
    private readonly root: Type,
    private readonly classes: DtoClasses,
  ) {
    this.visit(root);
  }

  result(): DtoSchema {
    const schema = this.objectSchema(this.root, false);
    const definitions =
      this.definitions.size > 0 ? { $defs: Object.fromEntries(this.definitions) } : {};
    return {
      schema: { ...schema, ...definitions },
      needsClassValidator: !this.exact,
      hidden: this.classes
        .of(this.root)
        .properties.filter((property) => this.hides(property))
        .map(({ name }) => name),
      findings: [...this.findings.values()],
      backtracking: [...this.backtracking.values()],
    };
  }

  /** Counts the uses of a class; the root has one from the start. */
  private visit(type: Type): void {
    const uses = this.uses.get(type) ?? 0;
    this.uses.set(type, uses + 1);
    if (uses > 0) return;
    const { properties, problems } = this.classes.of(type);
    for (const { input } of properties)
      if (input.valueType.kind === 'class') this.visit(input.valueType.type);
    for (const problem of problems) this.report(type.name, problem);
  }

  private objectSchema(type: Type, nullable: boolean): JSONSchema7 {
    const properties = new Map<string, JSONSchema7>();
    const needed: string[] = [];
    for (const property of this.classes.of(type).properties) {
      const { schema, required } = this.propertySchema(type, property);
      properties.set(property.name, schema);
      if (required) needed.push(property.name);
    }
    return {
      type: nullable ? ['object', 'null'] : 'object',
      properties: Object.fromEntries(properties),
      ...(needed.length > 0 && { required: needed }),
      additionalProperties: false,
    };
  }

  private propertySchema(type: Type, property: DtoProperty): PropertySchema {
    const compiled = propertySchema(property, (nested, nullable) =>
      this.nestedSchema(nested, nullable),
    );
    this.exact &&= compiled.exact;
    for (const problem of compiled.problems) this.report(`${type.name}.${property.name}`, problem);
    for (const pattern of compiled.backtracking) {
      const path = `${type.name}.${property.name}`;
      this.backtracking.set(`${path} ${pattern.problem}`, { path, ...pattern });
    }
    return compiled;
  }

  private nestedSchema(type: Type, nullable: boolean): JSONSchema7 {
    if ((this.uses.get(type) ?? 0) < 2) return this.objectSchema(type, nullable);
    const known = this.names.get(type) ?? {};
    this.names.set(type, known);
    const variant = nullable ? 'nullable' : 'plain';
    const name = known[variant] ?? this.freeName(`${type.name}${nullable ? 'OrNull' : ''}`);
    if (known[variant] === undefined) {
      known[variant] = name;
      this.definitions.set(name, {}); // takes the name before the class is found within itself
      this.definitions.set(name, this.objectSchema(type, nullable));
    }
    return { $ref: `#/$defs/${name}` };
  }

  /** Finds a free name, since two classes may have the same one. */
  private freeName(className: string): string {
    const base = className.replaceAll(/\W/g, '_') || 'Input';
    let name = base;
    for (let count = 2; this.definitions.has(name); count += 1) name = `${base}_${count}`;
    return name;
  }

  private hides({ input: { hidden, valueType } }: DtoProperty, seen?: Set<Type>): boolean {
    if (hidden) return true;
    if (valueType.kind !== 'class' || seen?.has(valueType.type)) return false;
    const known = (seen ?? new Set()).add(valueType.type);
    return this.classes
      .of(valueType.type)
      .properties.some((property) => this.hides(property, known));
  }

  private report(path: string, { problem, remedy }: PropertyProblem): void {
    this.findings.set(`${path} ${problem}`, { path, problem, remedy });
  }
}

/** The metadata of a class that matters for arguments. */
export interface DtoClass {
  readonly type: Type;
  readonly properties: readonly DtoProperty[];
  readonly problems: readonly PropertyProblem[];
}

/**
 * The classes of one DTO. Each is read once: reading the decorators is most of the cost of building
 * a tool.
 */
export class DtoClasses {
  private readonly classes = new Map<Type, DtoClass>();

  of(type: Type): DtoClass {
    const known = this.classes.get(type) ?? describeClass(type);
    this.classes.set(type, known);
    return known;
  }
}

/**
 * Reads a class. Its properties are those that class-validator or `@ToolField()` names, in the
 * order of declaration, base classes first.
 */
function describeClass(type: Type): DtoClass {
  const defaults = propertyDefaultsOf(type);
  const inputOf = inputPropertiesOf(type);
  const properties: DtoProperty[] = [];
  rulesByProperty(type).forEach((rules, name) => {
    // of the class itself, before those it extends
    const recorded = rules.findLast(({ field }) => field)?.field;
    const input = inputOf(name, recorded?.designType);
    properties.push({ name, rules, input, field: recorded?.options, default: defaults?.get(name) });
  });
  return { type, properties, problems: classProblems(properties.length, defaults !== undefined) };
}

function rulesByProperty(type: Type): ReadonlyMap<string, readonly ValidationRule[]> {
  const rules = new Map<string, ValidationRule[]>();
  for (const rule of validationRulesOf(type)) {
    const known = rules.get(rule.property);
    if (known) known.push(rule);
    else rules.set(rule.property, [rule]);
  }
  return rules;
}

function classProblems(properties: number, constructible: boolean): PropertyProblem[] {
  const problems: PropertyProblem[] = [];
  if (properties === 0) {
    const remedy =
      'Decorate its properties with class-validator, e.g. @IsString(), or with @ToolField(). A tool without arguments needs no @ToolInput().';
    problems.push({
      problem: 'has no decorated property, so nothing is known about its arguments',
      remedy,
    });
  }
  if (!constructible) {
    problems.push({
      problem: 'cannot be made without arguments, as class-transformer makes it',
      remedy: 'Let its constructor take none and throw nothing.',
    });
  }
  return problems;
}
