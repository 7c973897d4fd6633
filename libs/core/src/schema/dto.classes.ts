import type { Type } from '@nestjs/common';
import { toolFieldOf } from '../decorators/tool-field.decorator.js';
import { inputPropertiesOf } from './input-properties.accessor.js';
import { propertyDefaultsOf } from './property.defaults.js';
import type { DtoProperty, PropertyProblem } from './property.schema.js';
import { validationRulesOf, type ValidationRule } from './validation-metadata.accessor.js';

/** What the decorators of a class say, as far as arguments go. */
export interface DtoClass {
  readonly type: Type;
  readonly properties: readonly DtoProperty[];
  readonly problems: readonly PropertyProblem[];
}

/** The classes of one DTO. Each is read once, whoever asks: reading the decorators is most of what a tool costs to build. */
export class DtoClasses {
  private readonly classes = new Map<Type, DtoClass>();

  of(type: Type): DtoClass {
    const known = this.classes.get(type) ?? describeClass(type);
    this.classes.set(type, known);
    return known;
  }
}

/** A property is one that class-validator or `@ToolField()` names; the order is that of declaration, base classes first. */
function describeClass(type: Type): DtoClass {
  const defaults = propertyDefaultsOf(type);
  const inputOf = inputPropertiesOf(type);
  const properties = [...rulesByProperty(type)].map(([name, rules]) => ({
    name,
    rules,
    input: inputOf(name),
    field: toolFieldOf(type, name),
    default: defaults?.get(name),
  }));
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
    problems.push({ problem: 'has no decorated property, so nothing is known about its arguments', remedy });
  }
  if (!constructible) {
    problems.push({
      problem: 'cannot be made without arguments, as class-transformer makes it',
      remedy: 'Let its constructor take none and throw nothing.',
    });
  }
  return problems;
}
