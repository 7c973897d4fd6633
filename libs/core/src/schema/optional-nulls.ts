import { isJsonList, type JsonObject, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import { definitionNamed } from './subset.js';

/**
 * Returns a function that removes the nulls that mean "not given", which models send for arguments
 * they want to leave out: null on an optional property, at any depth, is the same as leaving it
 * out, unless its schema accepts null. The function never changes its argument; where a schema has
 * no such property, it returns it.
 */
export function optionalNullRemoval(schema: JSONSchema7): (args: JsonObject) => JsonObject {
  return removal(schema, { mayEmpty: true });
}

/**
 * The deepest arguments that are visited. Deeper ones are refused later; until then they must not
 * exhaust the stack.
 */
const MAX_DEPTH = 100;

/**
 * Returns the same function for a tool of a source, but an object within the arguments keeps its
 * nulls if nothing else would be left of it, so that its schema refuses them at their place.
 * Without its members a filter would hold for everything, and no one knows what a source takes an
 * empty one for. To leave out the object itself would be the same in silence.
 */
export function sourceNullRemoval(schema: JSONSchema7): (args: JsonObject) => JsonObject {
  return removal(schema, { mayEmpty: false });
}

/** The way in which nulls are removed. */
interface RemovalTerms {
  /** Lets an object within the arguments lose all of its members. */
  readonly mayEmpty: boolean;
}

function removal(schema: JSONSchema7, terms: RemovalTerms): (args: JsonObject) => JsonObject {
  let compiled: { readonly plan: Plan | undefined } | undefined;
  return (args) => {
    const { plan } = (compiled ??= {
      plan: new PlanCompilation(schema.$defs ?? {}, terms).planFor(schema),
    });
    return plan ? objectWithout(args, plan, 0) : args;
  };
}

/**
 * The work at one place of the arguments. The plan of a schema that contains itself contains
 * itself.
 */
interface Plan extends RemovalTerms {
  /** The properties whose null means "not given". */
  readonly optional: ReadonlySet<string>;
  readonly properties: Map<string, Plan | undefined>;
  /** The plan for properties that the schema does not name. */
  others: Plan | undefined;
  items: Plan | undefined;
}

function objectWithout(value: JsonObject, plan: Plan, depth: number): JsonObject {
  const given = Object.entries(value).filter(
    ([name, child]) => child !== null || !plan.optional.has(name),
  );
  if (given.length === 0 && depth > 0 && !plan.mayEmpty) return value;
  return Object.fromEntries(
    given.map(([name, child]) => [name, valueWithout(child, partAt(plan, name), depth + 1)]),
  );
}

function valueWithout(value: JsonValue, plan: Plan | undefined, depth: number): JsonValue {
  if (!plan || typeof value !== 'object' || value === null || depth > MAX_DEPTH) return value;
  return isJsonList(value)
    ? value.map((item) => valueWithout(item, plan.items, depth + 1))
    : objectWithout(value, plan, depth);
}

function partAt({ properties, others }: Plan, name: string): Plan | undefined {
  return properties.has(name) ? properties.get(name) : others;
}

type Definition = JSONSchema7Definition | undefined;

/** Compiles the plan of one schema. */
class PlanCompilation {
  private readonly plans = new Map<JSONSchema7, Plan>();

  constructor(
    private readonly definitions: Readonly<Record<string, JSONSchema7Definition>>,
    private readonly terms: RemovalTerms,
  ) {}

  /** Compiles a plan; undefined if there is no null to remove. */
  planFor(schema: JSONSchema7): Plan | undefined {
    const root = this.planOf(schema);
    for (const plan of this.plans.values()) dropIdleParts(plan);
    return unlessIdle(root);
  }

  private planOf(definition: Definition): Plan | undefined {
    const schema = this.resolve(definition);
    if (!schema || isScalar(schema)) return undefined;
    const known = this.plans.get(schema);
    if (known) return known;
    const { properties = {}, additionalProperties, items } = schema;
    const plan: Plan = {
      ...this.terms,
      optional: this.optionalIn(schema),
      properties: new Map(),
      others: undefined,
      items: undefined,
    };
    this.plans.set(schema, plan); // before its parts, of which one may be the schema itself
    for (const [name, property] of Object.entries(properties))
      plan.properties.set(name, this.planOf(property));
    plan.others = this.planOf(additionalProperties);
    plan.items = Array.isArray(items) ? undefined : this.planOf(items);
    return plan;
  }

  private optionalIn({ properties = {}, required = [] }: JSONSchema7): ReadonlySet<string> {
    const optional = Object.entries(properties).filter(
      ([name, property]) => !required.includes(name) && !this.takesNull(property),
    );
    return new Set(optional.map(([name]) => name));
  }

  private takesNull(definition: Definition): boolean {
    const schema = this.resolve(definition);
    if (!schema) return definition !== false;
    const { type, enum: values, const: only } = schema;
    return (
      (type === undefined || [type].flat().includes('null')) &&
      (values?.includes(null) ?? true) &&
      (only ?? null) === null
    );
  }

  /** Resolves a reference, or a chain of them. */
  private resolve(definition: Definition): JSONSchema7 | undefined {
    if (typeof definition !== 'object') return undefined;
    if (definition.$ref === undefined) return definition;
    const seen = new Set<Definition>();
    let found: Definition = definition;
    while (typeof found === 'object' && found.$ref !== undefined && !seen.has(found)) {
      seen.add(found);
      found = this.definitions[definitionNamed(found.$ref) ?? ''];
    }
    return typeof found === 'object' ? found : undefined;
  }
}

/** Tells whether a schema has no subschemas, as most have none. */
function isScalar({ properties, additionalProperties, items }: JSONSchema7): boolean {
  return properties === undefined && additionalProperties === undefined && items === undefined;
}

/** Drops the parts of a plan without work, so that no object is copied needlessly. */
function dropIdleParts(plan: Plan): void {
  for (const [name, part] of plan.properties) plan.properties.set(name, unlessIdle(part));
  plan.others = unlessIdle(plan.others);
  plan.items = unlessIdle(plan.items);
}

function unlessIdle(plan: Plan | undefined): Plan | undefined {
  return isBusy(plan, new Set()) ? plan : undefined;
}

function isBusy(plan: Plan | undefined, seen: Set<Plan>): boolean {
  if (!plan || seen.has(plan)) return false;
  seen.add(plan);
  return (
    plan.optional.size > 0 ||
    [...plan.properties.values(), plan.others, plan.items].some((part) => isBusy(part, seen))
  );
}

const FIELD = /\{([^{}]*)\}/g;

/** Returns the arguments that a template names, such as `{orderId}`, each once. */
export function fieldsIn(template: string): readonly string[] {
  return [...new Set([...template.matchAll(FIELD)].map(([, name = '']) => name))];
}

/** Renders a template with the arguments. */
export function renderTemplate(template: string, args: JsonObject): string {
  return template.replaceAll(FIELD, (_, name: string) => writeValue(args[name]));
}

function writeValue(value: JsonValue | undefined): string {
  return typeof value === 'string'
    ? value
    : value === undefined || value === null
      ? ''
      : JSON.stringify(value);
}

/** Finds the reason why a template may not name an argument; undefined if it may. */
export function problemWithField(
  name: string,
  schema: JSONSchema7,
  hidden: readonly string[],
): string | undefined {
  const property = Object.hasOwn(schema.properties ?? {}, name)
    ? schema.properties?.[name]
    : undefined;
  if (typeof property !== 'object') return 'the tool has no such argument';
  if (hidden.includes(name)) return 'the argument is hidden from the ui, where this is shown';
  if ([property.type].flat().some((type) => type === 'object' || type === 'array'))
    return 'the argument is not a string, number or boolean';
  const isAlwaysThere = schema.required?.includes(name) === true || property.default !== undefined;
  return isAlwaysThere ? undefined : 'a call may leave the argument out';
}
