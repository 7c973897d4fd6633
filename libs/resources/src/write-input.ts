import { type JsonObject, type JsonValue, ToolError } from '@toolloop/core';
import { type ArgumentProblem, isJsonList, isJsonObject } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import {
  type FilterShape,
  isEverything,
  MOST_VALUES,
  NOTHING,
  Problems,
  readFilter,
  toValue,
  wantedBy,
  where,
  all,
} from './filter.js';
import {
  argumentSchema,
  Definitions,
  filterSchema,
  objectSchema,
  rangeSchema,
} from './input-schema.js';
import { type EntityShape, type EntityShapes, publicFilter, type Resource } from './resource.js';
import type { Condition } from './resource-query.js';
import type { EntityModel, ResourceField, ResourceRelation } from './entity-model.js';
import type { ResourceWrite } from './resource-policy.js';
import type { ResourceWriteError } from './resource-write-error.js';
import type { CreateOptions, DestroyOptions, UpdateOptions } from './tool-resource.decorator.js';

/** Reads and describes the input of one write of a resource. */
export class WriteInput {
  readonly accepted: readonly AcceptedPart[];
  /** The fields that name a row; undefined where a filter does. */
  readonly identity: readonly ResourceField[] | undefined;
  private readonly model: EntityModel;
  private readonly takesMany: boolean;

  constructor(
    private readonly resource: Resource,
    private readonly action: ResourceWrite['action'],
    private readonly options: WriteOptions,
  ) {
    const { shape, shapes } = resource;
    this.model = shape.model;
    this.accepted =
      action === 'destroy' ? [] : acceptedParts(shape, shapes, { ...options, action });
    this.identity = action === 'create' ? undefined : identityOf(shape, options.identity);
    this.takesMany = action === 'create' && options.bulk !== undefined;
  }

  /** Set where one call may write several rows. */
  get isBulk(): boolean {
    return this.takesMany || (this.action !== 'create' && this.identity === undefined);
  }

  get schema(): JSONSchema7 {
    return this.action === 'create' ? this.createSchema() : this.changeSchema();
  }

  private createSchema(): JSONSchema7 {
    const { bulk = 1 } = this.options;
    const definitions = new Definitions();
    if (!this.takesMany) return definitions.complete({ input: this.inputSchema() }, ['input']);
    return definitions.complete(
      { inputs: { type: 'array', items: this.inputSchema(), minItems: 1, maxItems: bulk } },
      ['inputs'],
    );
  }

  private changeSchema(): JSONSchema7 {
    const definitions = new Definitions();
    const keys = (this.identity ?? []).map((field) => [field.name, argumentSchema(field)] as const);
    const rows: Schemas = this.identity
      ? Object.fromEntries(keys)
      : { filter: filterSchema(this.filter, definitions) };
    const version: Schemas = this.version
      ? { version: { type: 'integer', description: VERSION } }
      : {};
    const input: Schemas = this.action === 'update' ? { input: this.inputSchema() } : {};
    const required = [
      ...Object.keys(rows),
      ...(this.options.locks ? Object.keys(version) : []),
      ...Object.keys(input),
    ];
    return definitions.complete(
      { ...rows, ...version, ...input, ...(this.action === 'update' && this.clearSchema()) },
      required,
    );
  }

  /**
   * Reads arguments. `filter` is what the actor may filter by, and `writable` the fields that the
   * actor may write.
   */
  read(
    args: JsonObject,
    filter: FilterShape = this.filter,
    writable?: readonly string[],
  ): { readonly request: WriteRequest; readonly problems: readonly ArgumentProblem[] } {
    const problems = new Problems();
    const { version } = args;
    const request = {
      inputs: this.inputsIn(args).map(([input, pointer]) =>
        this.readInput(input, pointer, { problems, writable, clear: args['clear'] }),
      ),
      ...this.readRows(args, filter, problems),
      ...(typeof version === 'number' && { version }),
    };
    return { request, problems: problems.found };
  }

  /**
   * The argument that a column or a constraint of the database is about; the whole input where the
   * database does not say which of its numbers is beyond its column.
   */
  pointerTo(subject: string, reason?: ResourceWriteError['reason']): string | undefined {
    const words = subject.toLowerCase();
    const key = this.model.uniqueKeys.get(subject) ?? [];
    const names = this.accepted.map(({ name }) => name);
    const found =
      names.find((name) => key.includes(name)) ??
      names.find((name) => `_${words}_`.includes(`_${snake(name)}_`));
    if (found === undefined && (reason !== 'range' || names.length === 0)) return undefined;
    if (this.takesMany) return '/inputs';
    return found === undefined ? '/input' : `/input/${found}`;
  }

  private get filter(): FilterShape {
    return publicFilter(this.resource, { relations: this.options.relations });
  }

  /** The version, where the model can have read it. */
  private get version(): boolean {
    const { version } = this.model;
    return (
      version !== undefined &&
      this.identity !== undefined &&
      this.resource.shape.fields.has(version)
    );
  }

  private inputSchema(): JSONSchema7 {
    const parts = this.accepted.map(
      ({ name, field, relation }) =>
        [name, { ...argumentSchema(field, relation), ...rangeSchema(field) }] as const,
    );
    const required =
      this.action === 'create'
        ? this.accepted.filter(({ isNeeded }) => isNeeded).map(({ name }) => name)
        : [];
    return objectSchema({ ...Object.fromEntries(parts), ...this.options.arguments }, required);
  }

  /** An optional value that is null counts as not given, so nulls are written by name. */
  private clearSchema(): Readonly<Record<string, JSONSchema7>> {
    const names = this.accepted.filter(({ isNullable }) => isNullable).map(({ name }) => name);
    if (names.length === 0) return {};
    return {
      clear: {
        type: 'array',
        items: { type: 'string', enum: names },
        description: 'Fields of which the value is removed.',
      },
    };
  }

  private inputsIn(
    args: JsonObject,
  ): readonly (readonly [input: JsonValue | undefined, pointer: string])[] {
    if (this.action === 'destroy') return [];
    const { inputs } = args;
    if (isJsonList(inputs)) return inputs.map((input, index) => [input, `/inputs/${index}`]);
    return [[args['input'], '/input']];
  }

  private readInput(
    input: JsonValue | undefined,
    pointer: string,
    terms: InputTerms,
  ): WrittenValues {
    const { problems } = terms;
    const values: Record<string, unknown> = {};
    const given: Record<string, JsonObject[string]> = {};
    for (const [name, value] of Object.entries(isJsonObject(input) ? input : {})) {
      const part = this.accepted.find((one) => one.name === name);
      if (!part) given[name] = value;
      else if (isWritable(name, `${pointer}/${name}`, terms))
        values[name] = this.readValue(part, value, `${pointer}/${name}`, problems);
    }
    for (const name of namesIn(terms.clear)) if (this.isClearable(name, terms)) values[name] = null;
    const isEmpty = Object.keys(values).length + Object.keys(given).length === 0;
    if (this.action === 'update' && isEmpty && problems.found.length === 0)
      problems.say(pointer, 'changes nothing.');
    return { pointer, values, given };
  }

  private isClearable(name: string, terms: InputTerms): boolean {
    if (this.accepted.some((one) => one.name === name && one.isNullable))
      return isWritable(name, '/clear', terms);
    terms.problems.say('/clear', `"${name}" cannot be cleared.`);
    return false;
  }

  private readValue(
    { field }: AcceptedPart,
    value: unknown,
    pointer: string,
    problems: Problems,
  ): unknown {
    if (field.kind === 'json') return value;
    const read = toValue(field, value);
    if (read === undefined) problems.say(pointer, `must be ${wantedBy(field)}`);
    return read;
  }

  private readRows(
    args: JsonObject,
    filter: FilterShape,
    problems: Problems,
  ): { readonly where?: Condition; readonly named: string } {
    if (this.action === 'create') return { named: '' };
    if (!this.identity) {
      const condition = readFilter(args['filter'], filter, '/filter', problems);
      const isAll = isEverything(condition);
      if (isAll) problems.say('/filter', ALL_ROWS);
      return { where: isAll ? NOTHING : condition, named: '/filter' };
    }
    const equal = this.identity.map((field) => {
      // a scalar, so that no operator comes in by it
      const value = toValue(field, args[field.name]);
      if (value === undefined) problems.say(`/${field.name}`, `must be ${wantedBy(field)}`);
      return value === undefined ? NOTHING : where(field.name, 'eq', value);
    });
    return { where: all(equal), named: `/${this.identity[0]?.name ?? ''}` };
  }
}

/** The options of any write. */
export type WriteOptions = CreateOptions & UpdateOptions & DestroyOptions;

/** A field or a relation to one that an input may have. */
export interface AcceptedPart {
  readonly name: string;
  /** The field whose values it takes: of a relation, the key of its target. */
  readonly field: ResourceField;
  readonly relation?: ResourceRelation;
  readonly isNeeded: boolean;
  readonly isNullable: boolean;
}

/** One input, read. */
export interface WrittenValues {
  /** The place of the input among the arguments. */
  readonly pointer: string;
  /** Values by field; of a relation the key of its row. */
  readonly values: Readonly<Record<string, unknown>>;
  /** The properties that are no fields, for `change`. */
  readonly given: JsonObject;
}

/** A write that is asked for. */
export interface WriteRequest {
  readonly inputs: readonly WrittenValues[];
  /** The rows that are meant; absent for a create. */
  readonly where?: Condition;
  /** The argument that names the rows. */
  readonly named: string;
  readonly version?: number;
}

type Schemas = Readonly<Record<string, JSONSchema7>>;

const ALL_ROWS = 'holds for all rows. It must say which rows are meant.';
const VERSION = 'The version that was read: nothing is written if it has changed.';

function isWritable(name: string, pointer: string, { writable, problems }: InputTerms): boolean {
  const isOne = writable === undefined || writable.includes(name);
  if (!isOne) problems.say(pointer, `"${name}" cannot be written.`);
  return isOne;
}

function namesIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : [];
}

interface InputTerms {
  readonly problems: Problems;
  readonly writable: readonly string[] | undefined;
  readonly clear: unknown;
}

function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

function identityOf(
  { model, fields }: EntityShape,
  identity: UpdateOptions['identity'] = 'primary',
): readonly ResourceField[] | undefined {
  if (identity === false) return undefined;
  const names = identity === 'primary' ? [model.key ?? ''] : (model.uniqueKeys.get(identity) ?? []);
  return names.flatMap((name) => fields.get(name) ?? []);
}

/**
 * The parts of an input: those that are named, or all public ones that the database does not set
 * itself.
 */
function acceptedParts(
  { model, fields, relations, owners }: EntityShape,
  shapes: EntityShapes,
  { accept, action }: WriteOptions & Pick<ResourceWrite, 'action'>,
): readonly AcceptedPart[] {
  const isOwn = ({ name, kind, hasDefault, isSet, keyOf }: ResourceField): boolean =>
    isSet === undefined &&
    keyOf === undefined &&
    !owners.has(name) &&
    kind !== 'json' &&
    (name !== model.key || (action === 'create' && !hasDefault));
  const names = accept ?? [
    ...[...fields.values()].filter(isOwn).map(({ name }) => name),
    ...relations.keys(),
  ];
  return names.flatMap((name) => {
    const field = model.fields.get(name);
    const relation = model.relations.get(name);
    if (field) return (field.onlyIn ?? action) === action ? [fieldPart(field)] : [];
    return relation ? relationPart(relation, shapes) : [];
  });
}

function fieldPart(field: ResourceField): AcceptedPart {
  const { name, nullable, hasDefault } = field;
  return { name, field, isNeeded: !nullable && !hasDefault, isNullable: nullable };
}

function relationPart(relation: ResourceRelation, shapes: EntityShapes): readonly AcceptedPart[] {
  const { name, nullable } = relation;
  const target = isReference(relation) ? shapes.find(relation.target)?.model : undefined;
  const key = target?.key === undefined ? undefined : target.fields.get(target.key);
  return key ? [{ name, field: key, relation, isNeeded: !nullable, isNullable: nullable }] : [];
}

/** Tells whether a row has the key of the row that a relation leads to. */
export function isReference({ many, back, isOfSeveral = false }: ResourceRelation): boolean {
  return !many && back === undefined && !isOfSeveral;
}

/** @throws {ToolError} Where there are problems. */
export function assertReadable(problems: readonly ArgumentProblem[]): void {
  if (problems.length > 0)
    throw new ToolError('The arguments cannot be used.', {
      problems: problems.slice(0, MOST_VALUES),
    });
}
