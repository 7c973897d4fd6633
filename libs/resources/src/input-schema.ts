import type { JSONSchema7 } from 'json-schema';
import { type FilterShape, OPERATORS } from './filter.js';
import { AGGREGATE_KINDS } from './resource-query.js';
import type { FieldKind, ResourceField, ResourceRelation } from './entity-model.js';

/** The schema of one value of a field. */
export function valueSchema({ kind, values, maxLength, isBig = false }: ResourceField): Schema {
  if (kind === 'integer' && isBig) return BIG;
  if (kind === 'enum') return { type: 'string', enum: [...(values ?? [])] };
  if (kind === 'text' && maxLength !== undefined) return { type: 'string', maxLength };
  return VALUES[kind];
}

type Schema = JSONSchema7;

/**
 * The schema of one argument for a field, with its description, or that of the relation to whose
 * key it is.
 */
export function argumentSchema(field: ResourceField, relation?: ResourceRelation): Schema {
  const { description, ...schema } = valueSchema(field);
  const words = [(relation ?? field).description, description].filter((one) => one !== undefined);
  return { ...schema, ...(words.length > 0 && { description: words.join(' ') }) };
}

/** The least and the greatest number that can be written; none where a text may say the number. */
export function rangeSchema({ kind, isBig = false, range }: ResourceField): Schema {
  if (kind !== 'integer' || isBig || !range) return {};
  return { minimum: Number(range.least), maximum: Number(range.most) };
}

/** A number of JSON loses the digits behind the fifteenth. */
const BIG: Schema = { type: ['integer', 'string'], pattern: String.raw`^-?\d{1,20}$` };

const VALUES: Readonly<Record<FieldKind, Schema>> = {
  text: { type: 'string' },
  enum: { type: 'string' },
  uuid: { type: 'string', description: 'A UUID.' }, // the format is narrower than a database
  integer: { type: 'integer' },
  number: { type: 'number' },
  decimal: { type: 'string', pattern: String.raw`^-?\d{1,30}(\.\d{1,20})?$` },
  boolean: { type: 'boolean' },
  date: { type: 'string', format: 'date' },
  datetime: { type: 'string', format: 'date-time' },
  json: {},
};

/**
 * The schemas that parts of an input share, by their names, in the order in which they were first
 * used.
 */
export class Definitions {
  private readonly named = new Map<string, Schema>();

  /** Refers to a schema, which is made when it is first used. */
  refer(name: string, make: () => Schema): Schema {
    if (!this.named.has(name)) {
      this.named.set(name, {}); // it may contain itself
      this.named.set(name, make());
    }
    return { $ref: `#/$defs/${name}` };
  }

  /** The schema of an object of arguments, with what its parts refer to. */
  complete(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema {
    const $defs = this.named.size > 0 && { $defs: Object.fromEntries(this.named) };
    return { ...objectSchema(properties, required), ...$defs };
  }
}

/** A closed object. */
export function objectSchema(
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = [],
): Schema {
  return {
    type: 'object',
    properties: { ...properties },
    ...(required.length > 0 && { required: [...required] }),
    additionalProperties: false,
  };
}

const WHOLE = 'filter';

/**
 * The schema of a filter: every public field with the operators of its kind, the relations one
 * level deep, and `and`, `or`, `not`.
 */
export function filterSchema(shape: FilterShape, definitions: Definitions, name = WHOLE): Schema {
  return definitions.refer(name, () => {
    const itself: Schema = { $ref: `#/$defs/${name}` };
    const isWhole = name === WHOLE; // the rows of a relation need no more than their fields
    const list: Schema = { type: 'array', items: itself };
    const fields = [...shape.fields.values()].filter(({ kind }) => OPERATORS[kind].length > 0);
    const relations = [...shape.relations.values()].map(
      ({ relation, shape: related }): [string, Schema] => [
        relation.name,
        { ...filterSchema(related, definitions, `${relation.name}_rows`), ...described(relation) },
      ],
    );
    return objectSchema({
      ...(isWhole && { and: list, or: list, not: itself }),
      ...Object.fromEntries(
        fields.map((field): [string, Schema] => [
          field.name,
          { ...comparisonSchema(field, definitions), ...described(field) },
        ]),
      ),
      ...Object.fromEntries(relations),
    });
  });
}

function described({ description }: { readonly description?: string | undefined }): Schema {
  return description === undefined ? {} : { description };
}

const MOMENT: Schema = { type: 'string', description: 'YYYY-MM-DD, or ISO 8601 with its zone.' };

/** A text says a decimal, or a whole number of any size, exactly; results have them as texts. */
const NUMBER: Schema = { type: ['number', 'string'] };

/**
 * The name and the values of the operators of each kind. Kinds that look alike to a model share
 * them: what a value must be beyond that is said where it is not.
 */
const COMPARED: Readonly<Record<FieldKind, readonly [name: string, value: Schema]>> = {
  text: ['text', { type: 'string' }],
  enum: ['text', { type: 'string' }],
  uuid: ['uuid', { type: 'string' }],
  integer: ['number', NUMBER],
  number: ['number', NUMBER],
  decimal: ['number', NUMBER],
  boolean: ['boolean', { type: 'boolean' }],
  date: ['moment', MOMENT],
  datetime: ['moment', MOMENT],
  json: ['json', {}],
};

/** The operators of a field, as a schema. An enum has its own values. */
function comparisonSchema(
  { name: own, kind, values }: ResourceField,
  definitions: Definitions,
): Schema {
  const [name, value]: readonly [string, Schema] =
    kind === 'enum'
      ? [own, { type: 'string', enum: [...(values ?? [])] } as const]
      : COMPARED[kind];
  return definitions.refer(name, () => {
    const { description, ...plain } = value;
    const schemas = OPERATORS[kind].map((operator): [string, Schema] => {
      if (operator === 'is_null') return [operator, { type: 'boolean' }];
      return [operator, operator === 'in' ? { type: 'array', items: plain } : plain];
    });
    return { ...objectSchema(Object.fromEntries(schemas)), ...described({ description }) };
  });
}

/** The names of the fields that rows can be ordered by. */
export function sortableFields({ fields }: FilterShape): readonly ResourceField[] {
  return [...fields.values()].filter(({ kind }) => kind !== 'json');
}

/** The name of one field that can be compared, as an enum. */
export function fieldNameSchema(shape: FilterShape, definitions: Definitions): Schema {
  return definitions.refer('field', () => ({
    type: 'string',
    enum: sortableFields(shape).map(({ name }) => name),
  }));
}

/** The kinds of aggregates that can be made of a field. */
export function aggregatesOf({ kind }: ResourceField): readonly (typeof AGGREGATE_KINDS)[number][] {
  if (kind === 'integer' || kind === 'number' || kind === 'decimal') return AGGREGATE_KINDS;
  if (kind === 'date' || kind === 'datetime') return ['count', 'min', 'max', 'list'];
  return kind === 'json' ? [] : ['count', 'list'];
}
