import { isRecord, visible } from '@toolloop/protocol';

/**
 * Writes a schema as a type, such as `{ id: string; tags?: string[] } | "none"`, for a model to
 * read. Of a long one the beginning is written.
 */
export function schemaInWords(schema: unknown): string {
  const text = visible(new Words().of(schema, 0));
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

/** The most that is written of one schema: its parts, its levels and its characters. */
const MOST_PARTS = 120;

const MOST_LEVELS = 6;

const MOST_CHARACTERS = 600;

type JsonSchema = Readonly<Record<string, unknown>>;

/** The words for one schema. */
class Words {
  private parts = 0;

  of(schema: unknown, level: number): string {
    this.parts += 1;
    if (this.parts > MOST_PARTS || level > MOST_LEVELS) return '…';
    if (schema === false) return 'nothing';
    if (!isRecord(schema)) return 'anything';
    const said = [
      ...this.values(schema),
      ...this.unions(schema, level),
      ...this.own(schema, level),
    ];
    return said.length === 0 ? 'anything' : said.join(' & ');
  }

  private values({ const: only, enum: values, $ref }: JsonSchema): readonly string[] {
    if (only !== undefined) return [JSON.stringify(only)];
    if (Array.isArray(values)) return [values.map((value) => JSON.stringify(value)).join(' | ')];
    return typeof $ref === 'string'
      ? [
          $ref.startsWith('#')
            ? ($ref.split('/').at(-1) ?? '')
            : 'something that is described elsewhere',
        ]
      : [];
  }

  private unions({ anyOf, oneOf, allOf, not }: JsonSchema, level: number): readonly string[] {
    const written = (parts: unknown, between: string): readonly string[] =>
      Array.isArray(parts) && parts.length > 0
        ? [parts.map((part) => this.inBrackets(part, level)).join(between)]
        : [];
    return [
      ...written(anyOf, ' | '),
      ...written(oneOf, ' | '),
      ...written(allOf, ' & '),
      ...(not === undefined ? [] : [`not ${this.inBrackets(not, level)}`]),
    ];
  }

  private own(schema: JsonSchema, level: number): readonly string[] {
    if (schema['enum'] !== undefined || schema['const'] !== undefined) return [];
    const types: readonly unknown[] =
      schema['type'] === undefined ? implied(schema) : [schema['type']].flat();
    return types.length === 0
      ? []
      : [types.map((type) => this.ofType(type, schema, level)).join(' | ')];
  }

  private ofType(type: unknown, schema: JsonSchema, level: number): string {
    if (type === 'object') return this.object(schema, level);
    if (type === 'array') return this.list(schema, level);
    const { format, pattern } = schema;
    const form = [format, pattern].find((one): one is string => typeof one === 'string');
    return `${String(type)}${form === undefined ? '' : ` (${form})`}`;
  }

  private object(
    { properties, required, additionalProperties, patternProperties }: JsonSchema,
    level: number,
  ): string {
    const needed: readonly unknown[] = Array.isArray(required) ? required : [];
    const declared = isRecord(properties) ? properties : {};
    const names = [
      ...Object.keys(declared),
      ...needed.filter((name) => typeof name === 'string' && !Object.hasOwn(declared, name)),
    ];
    const named = names.map(
      (name) =>
        `${String(name)}${needed.includes(name) ? '' : '?'}: ${this.of(declared[String(name)], level + 1)}`,
    );
    const patterns = isRecord(patternProperties) ? Object.entries(patternProperties) : [];
    const others = patterns.map(([pattern, part]) => `[/${pattern}/]: ${this.of(part, level + 1)}`);
    const rest = isRecord(additionalProperties)
      ? [`[other names]: ${this.of(additionalProperties, level + 1)}`]
      : [];
    const all = [...named, ...others, ...rest];
    return all.length === 0 ? 'object' : `{ ${all.join('; ')} }`;
  }

  private list({ items, prefixItems }: JsonSchema, level: number): string {
    const places: unknown = Array.isArray(items) ? items : prefixItems;
    if (Array.isArray(places))
      return `[${places.map((part) => this.of(part, level + 1)).join(', ')}]`;
    return items === undefined ? 'list' : `${this.inBrackets(items, level)}[]`;
  }

  private inBrackets(schema: unknown, level: number): string {
    const text = this.of(schema, level + 1);
    return / [|&] /.test(text) && !text.startsWith('{') ? `(${text})` : text;
  }
}

function implied(schema: JsonSchema): readonly string[] {
  if (
    ['properties', 'required', 'patternProperties'].some((keyword) => schema[keyword] !== undefined)
  )
    return ['object'];
  return ['items', 'prefixItems'].some((keyword) => schema[keyword] !== undefined) ? ['array'] : [];
}
