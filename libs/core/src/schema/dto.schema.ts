import type { Type } from '@nestjs/common';
import type { JSONSchema7 } from 'json-schema';
import { DtoClasses } from './dto.classes.js';
import { propertySchema, type DtoProperty, type PropertyProblem, type PropertySchema } from './property.schema.js';

/** What a DTO class says about its JSON. */
export interface DtoSchema {
  readonly schema: JSONSchema7;
  /** Whether class-validator has constraints that the schema cannot express. */
  readonly needsClassValidator: boolean;
  /** Names of top-level properties that class-transformer keeps out of the ui or the audit, or that hold such a one. */
  readonly hidden: readonly string[];
  /** `path` is `Class.property`, or `Class` for the whole. With findings the schema is not to be used. */
  readonly findings: readonly DtoFinding[];
}

export interface DtoFinding extends PropertyProblem {
  readonly path: string;
}

/**
 * The JSON Schema of a DTO class, from class-validator's and class-transformer's metadata. A nested class stands where it is used, unless it is used twice or within
 * itself: then it is in `$defs`. The same class always gives the same schema.
 */
export function dtoSchema(type: Type, classes = new DtoClasses()): DtoSchema {
  return new DtoCompilation(type, classes).result();
}

class DtoCompilation {
  private readonly uses = new Map<Type, number>();
  private readonly definitions = new Map<string, JSONSchema7>();
  private readonly names = new Map<Type, { plain?: string; nullable?: string }>();
  private readonly findings = new Map<string, DtoFinding>();
  private exact = true;

  constructor(
    private readonly root: Type,
    private readonly classes: DtoClasses,
  ) {
    this.visit(root);
  }

  result(): DtoSchema {
    const schema = this.objectSchema(this.root, false);
    const definitions = this.definitions.size > 0 ? { $defs: Object.fromEntries(this.definitions) } : {};
    return {
      schema: { ...schema, ...definitions },
      needsClassValidator: !this.exact,
      hidden: this.classes
        .of(this.root)
        .properties.filter((property) => this.hides(property, new Set()))
        .map(({ name }) => name),
      findings: [...this.findings.values()],
    };
  }

  /** Counts in how many places a class stands; the root stands in one from the start. */
  private visit(type: Type): void {
    const uses = this.uses.get(type) ?? 0;
    this.uses.set(type, uses + 1);
    if (uses > 0) return;
    const { properties, problems } = this.classes.of(type);
    for (const { input } of properties) if (input.valueType.kind === 'class') this.visit(input.valueType.type);
    for (const problem of problems) this.report(type.name, problem);
  }

  private objectSchema(type: Type, nullable: boolean): JSONSchema7 {
    const properties = this.classes.of(type).properties.map((property) => [property.name, this.propertySchema(type, property)] as const);
    const required = properties.filter(([, compiled]) => compiled.required).map(([name]) => name);
    return {
      type: nullable ? ['object', 'null'] : 'object',
      properties: Object.fromEntries(properties.map(([name, { schema }]) => [name, schema])),
      ...(required.length > 0 && { required }),
      additionalProperties: false,
    };
  }

  private propertySchema(type: Type, property: DtoProperty): PropertySchema {
    const compiled = propertySchema(property, (nested, nullable) => this.nestedSchema(nested, nullable));
    this.exact &&= compiled.exact;
    for (const problem of compiled.problems) this.report(`${type.name}.${property.name}`, problem);
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

  /** Two classes may have one name. */
  private freeName(className: string): string {
    const base = className.replaceAll(/\W/g, '_') || 'Input';
    let name = base;
    for (let count = 2; this.definitions.has(name); count += 1) name = `${base}_${count}`;
    return name;
  }

  private hides({ input: { hidden, valueType } }: DtoProperty, seen: Set<Type>): boolean {
    if (hidden) return true;
    if (valueType.kind !== 'class' || seen.has(valueType.type)) return false;
    seen.add(valueType.type);
    return this.classes.of(valueType.type).properties.some((property) => this.hides(property, seen));
  }

  private report(path: string, { problem, remedy }: PropertyProblem): void {
    this.findings.set(`${path} ${problem}`, { path, problem, remedy });
  }
}
