import type { Type } from '@nestjs/common';
import type { JSONSchema7, JSONSchema7TypeName } from 'json-schema';
import { TOOL_FIELD, type ToolFieldOptions } from '../tools/decorators/tool-field.decorator.js';
import {
  combineConstraints,
  type CombinedConstraints,
  combineTypes,
  commonTypes,
  NO_CONSTRAINTS,
  typedSchema,
} from './class-validator-schemas.js';
import type { DesignType, InputProperty } from './input-properties.js';
import { patternProblem } from './patterns.js';
import type { PropertyDefault } from './property-defaults.js';
import { readExpression, type ValidationRule } from './validation-rules.js';

export interface PropertySchema {
  readonly schema: JSONSchema7;
  readonly required: boolean;
  /** `true` if the schema expresses all that class-validator checks. */
  readonly exact: boolean;
  readonly problems: readonly PropertyProblem[];
  /** The patterns that the linear engine cannot run. */
  readonly backtracking: readonly BacktrackingPattern[];
}

/** The metadata of one property of a DTO. */
export interface DtoProperty {
  readonly name: string;
  readonly rules: readonly ValidationRule[];
  readonly input: InputProperty;
  /** The options of its `@ToolField()`; most have none. */
  readonly field: ToolFieldOptions | undefined;
  readonly default: PropertyDefault | undefined;
}

/** A problem of one property, and how to fix it. */
export interface PropertyProblem {
  readonly problem: string;
  readonly remedy: string;
}

/** A pattern that the linear engine cannot run. */
export interface BacktrackingPattern extends PropertyProblem {
  /** `true` if the schema refuses texts that are too long for it. */
  readonly isBounded: boolean;
}

/** Returns the schema of a nested class, or a reference to it. */
export type NestedSchema = (type: Type, nullable: boolean) => JSONSchema7;

/** A value that is converted to a schema: the property itself, or an item of it. */
interface Leaf {
  readonly constraints: CombinedConstraints;
  readonly property: DtoProperty;
  readonly nullable: boolean;
  /** The type that the compiler recorded, for a value without other metadata. */
  readonly designType: JSONSchema7TypeName | undefined;
  readonly item: boolean;
  readonly isNested: boolean;
}

/** Finds the pattern of a `@Matches()` that the linear engine cannot run. */
function backtrackingIn(
  { each, arguments: values }: ValidationRule,
  schema: JSONSchema7,
): readonly BacktrackingPattern[] {
  const { expression } = readExpression(values);
  const found = expression && patternProblem(expression);
  const { maxLength } =
    each && typeof schema.items === 'object' && !Array.isArray(schema.items)
      ? schema.items
      : schema;
  return found ? [{ ...found, isBounded: maxLength !== undefined }] : [];
}

type Outcome = Pick<PropertySchema, 'schema' | 'exact' | 'problems'>;

type Said = ReturnType<typeof saidBy>;

/**
 * Reads all that the rules of a property say in one turn: a thousand tools have twenty thousand of
 * them, which are read before any of this code is warm.
 */
function saidBy(rules: readonly ValidationRule[]) {
  const flags = {
    optional: false,
    nullable: false,
    conditional: false,
    nested: false,
    promise: false,
    inert: false,
    list: false,
  };
  // of the value, of the items of an array, and those of @Matches() among them
  const [own, items, patterns]: ValidationRule[][] = [[], [], []];
  const said = { own, items, patterns, ...flags };
  for (const rule of rules) {
    const { kind, each } = rule;
    if (kind === 'constraint') (each ? said.items : said.own).push(rule);
    else if (kind !== 'allowed') said[kind] = true;
    if (rule.name === 'matches') said.patterns.push(rule);
    if (each && (kind === 'constraint' || kind === 'nested')) said.list = true;
    if (rule.inert) said.inert = true;
  }
  return said;
}

/**
 * Makes the schema of one property. Where a schema cannot express a decorator, it is wider, or
 * narrower in a way that no caller would miss, and `exact` is false.
 */
export function propertySchema(property: DtoProperty, nested: NestedSchema): PropertySchema {
  const { rules, input, field } = property;
  const said = saidBy(rules);
  const nullable = said.conditional || said.nullable || field?.nullable === true;
  const { schema: bare, exact, problems } = valueSchema({ property, said, nullable }, nested);
  const given = nullable || acceptsNull(bare) ? property.default : unlessNull(property.default);
  const schema = completed(bare, field, given);
  return {
    schema,
    required: !said.conditional && !said.optional && given === undefined,
    exact: exact && !said.conditional && !input.transformed,
    problems: generalProblems(property, said).concat(problems),
    backtracking: said.patterns.flatMap((rule) => backtrackingIn(rule, schema)),
  };
}

/** Drops an initial `null` of a property that does not accept null: it is merely not set yet. */
function unlessNull(given: PropertyDefault | undefined): PropertyDefault | undefined {
  return given?.json === null ? undefined : given;
}

interface Value {
  readonly property: DtoProperty;
  readonly said: Said;
  readonly nullable: boolean;
}

function valueSchema({ property, said, nullable }: Value, nested: NestedSchema): Outcome {
  const combine = said.conditional ? combineTypes : combineConstraints;
  const own = combine(said.own);
  if (said.list || (own.types?.length === 1 && own.types[0] === 'array'))
    return listSchema({ property, own, items: combine(said.items), nullable, said }, nested);
  const designType = scalarOf(property.input.designType);
  return leafSchema(
    { constraints: own, property, nullable, designType, item: false, isNested: said.nested },
    nested,
  );
}

interface List {
  readonly property: DtoProperty;
  readonly said: Said;
  readonly own: CombinedConstraints;
  readonly items: CombinedConstraints;
  readonly nullable: boolean;
}

function listSchema({ property, own, items, nullable, said }: List, nested: NestedSchema): Outcome {
  if (!(own.types ?? ['array']).includes('array')) return failed(contradiction(own.types));
  const leaf = {
    property,
    nullable: false,
    designType: undefined,
    item: true,
    isNested: said.nested,
  };
  const ofLists = items.types?.join() === 'array';
  const inner = leafSchema({ ...leaf, constraints: ofLists ? NO_CONSTRAINTS : items }, nested);
  const item: JSONSchema7 = ofLists
    ? { ...typedSchema(['array'], items.keywords), items: inner.schema }
    : inner.schema;
  return {
    schema: hinted(
      { ...typedSchema(nullable ? ['array', 'null'] : ['array'], own.keywords), items: item },
      own.hints,
    ),
    exact: own.exact && items.exact && inner.exact,
    problems: inner.problems,
  };
}

function leafSchema(leaf: Leaf, nested: NestedSchema): Outcome {
  const { valueType } = leaf.property.input;
  switch (valueType.kind) {
    case 'class':
      return classSchema(leaf, nested(valueType.type, leaf.nullable));
    case 'date':
      return dateSchema(leaf);
    case 'scalar':
      return scalarSchema(leaf, commonTypes(leaf.constraints.types, [valueType.scalar]));
    case 'unsupported':
      return failed(valueType);
    case 'unknown':
  }
  return untypedSchema(leaf);
}

function classSchema({ constraints }: Leaf, schema: JSONSchema7): Outcome {
  if (constraints.types && !constraints.types.includes('object'))
    return failed(contradiction([...constraints.types, 'object']));
  return { schema: hinted(schema, constraints.hints), exact: constraints.exact, problems: [] };
}

function dateSchema({ constraints, nullable }: Leaf): Outcome {
  if (constraints.types && !constraints.date) {
    const remedy =
      'Use @IsDate() with @Type(() => Date), or take the date as text, without @Type().';
    return failed({
      problem: 'is turned into a Date by @Type(), but its validators expect something else',
      remedy,
    });
  }
  const schema: JSONSchema7 = {
    type: nullable ? ['string', 'null'] : 'string',
    format: 'date-time',
  };
  return { schema: hinted(schema, constraints.hints), exact: constraints.exact, problems: [] };
}

function untypedSchema(leaf: Leaf): Outcome {
  const { constraints, designType, item, isNested } = leaf;
  if (constraints.date)
    return failed({
      problem: 'is text in JSON, which @IsDate() never accepts',
      remedy: 'Add @Type(() => Date).',
    });
  if (isNested) {
    return failed({
      problem: 'is nested, but its class is unknown',
      remedy: 'Add @Type(() => Address), with the class it holds.',
    });
  }
  const types = constraints.types ?? (designType && [designType]);
  if (types) return scalarSchema(leaf, types);
  const problem = item
    ? 'is an array, but the type of its items is unknown'
    : 'has no decorator that gives its type';
  const remedy = item
    ? 'Say what its items are, e.g. @IsString({ each: true }).'
    : 'Add one, e.g. @IsString(), @IsInt() or @IsEnum(Status).';
  return failed({ problem, remedy });
}

/** Makes the schema of a scalar, or of a free-form object without declared properties. */
function scalarSchema(
  { constraints, nullable }: Leaf,
  types: readonly JSONSchema7TypeName[] = [],
): Outcome {
  if (types.length === 0) return failed(contradiction(constraints.types));
  const schema = typedSchema(types, constraints.keywords);
  if (schema.enum?.length === 0)
    return failed({
      problem: 'allows no value at all',
      remedy: 'Give its @IsIn() or @IsEnum() values of its type.',
    });
  const open: JSONSchema7 = types.includes('object') ? { additionalProperties: true } : {};
  return {
    schema: hinted({ ...(nullable ? withNull(schema) : schema), ...open }, constraints.hints),
    exact: constraints.exact,
    problems: [],
  };
}

function withNull(schema: JSONSchema7): JSONSchema7 {
  if (acceptsNull(schema)) return schema;
  const types = [schema.type ?? []].flat();
  return {
    ...schema,
    type: [...types, 'null'],
    ...(schema.enum && { enum: [...schema.enum, null] }),
  };
}

function acceptsNull({ type, $ref }: JSONSchema7): boolean {
  return $ref === undefined && (Array.isArray(type) ? type.includes('null') : type === 'null');
}

/** Finds the problems that keep a property of any type from being an argument. */
function generalProblems(
  { name, rules, input, field }: DtoProperty,
  said: Said,
): PropertyProblem[] {
  const problems: PropertyProblem[] = fieldProblems(field, name);
  if (name in Object.prototype)
    problems.push({ problem: 'has a name that every object has', remedy: 'Rename it.' });
  if (!input.settable) {
    const remedy =
      'To hide it from the ui and the audit, use @Exclude({ toPlainOnly: true }) or @Expose({ groups: ["model"] }).';
    problems.push({
      problem: 'never arrives: class-transformer leaves it out of the instance',
      remedy,
    });
  }
  if (input.renamed !== undefined)
    problems.push({
      problem: `is renamed "${input.renamed}" by @Expose({ name })`,
      remedy: 'Give the property itself that name.',
    });
  for (const { arguments: values } of said.patterns) {
    const { broken } = readExpression(values);
    if (broken !== undefined)
      problems.push({
        problem: `has a pattern that is none: ${broken}`,
        remedy: 'Correct its @Matches().',
      });
  }
  if (said.promise)
    problems.push({ problem: 'is a promise, which JSON does not have', remedy: 'Use the value.' });
  if (said.inert) {
    problems.push({
      problem: 'has a validator class that never runs',
      remedy: 'Mark that class with @ValidatorConstraint().',
    });
  }
  if (isUnsaidList(rules, input)) {
    problems.push({
      problem: 'is an array, and @ValidateNested() does not say so',
      remedy: 'Write @ValidateNested({ each: true }).',
    });
  }
  return problems;
}

function fieldProblems(field: ToolFieldOptions | undefined, name: string): PropertyProblem[] {
  return field
    ? TOOL_FIELD.findings(field, name).map(({ problem, remedy }) => ({
        problem: problem.replace(/\.$/, ''),
        remedy,
      }))
    : [];
}

/**
 * Tells whether a property is an array without a decorator that says so, which not every compiler
 * records.
 */
function isUnsaidList(
  rules: readonly ValidationRule[],
  { designType, valueType }: InputProperty,
): boolean {
  if (designType !== 'array' || valueType.kind !== 'class') return false;
  return !rules.some(({ each, name }) => each || name === 'isArray' || name.startsWith('array'));
}

function contradiction(types: readonly string[] = []): PropertyProblem {
  const problem = `has decorators that contradict each other${types.length > 0 ? ` (${types.join(', ')})` : ''}: no value satisfies all`;
  return { problem, remedy: 'Remove one; for the items of an array, add { each: true }.' };
}

function failed({ problem, remedy }: PropertyProblem): Outcome {
  return { schema: {}, exact: true, problems: [{ problem, remedy }] };
}

function scalarOf(designType: DesignType | undefined): JSONSchema7TypeName | undefined {
  return designType === 'array' ? undefined : designType;
}

function hinted(schema: JSONSchema7, hints: readonly string[]): JSONSchema7 {
  return hints.length === 0 ? schema : { ...schema, description: hints.join(' ') };
}

function completed(
  schema: JSONSchema7,
  field: ToolFieldOptions | undefined,
  given: PropertyDefault | undefined,
): JSONSchema7 {
  const { description, example } = field ?? {};
  const words =
    description === undefined
      ? schema.description
      : [description, schema.description ?? []].flat().join(' ');
  return {
    ...schema,
    ...(words && { description: words }),
    ...(example !== undefined && { examples: [example] }),
    ...(given?.json !== undefined && { default: given.json }),
  };
}
