import { hash } from 'node:crypto';
import {
  type JsonObject,
  type RawTool,
  tool,
  type ToolCallContext,
  ToolError,
} from '@toolloop/core';
import { type ArgumentProblem, isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import {
  after,
  all,
  equals,
  EVERYTHING,
  type FilterShape,
  fromKept,
  NOTHING,
  Problems,
  readFilter,
  toKept,
  toValue,
  wantedBy,
  where,
} from './filter.js';
import {
  aggregatesOf,
  Definitions,
  fieldNameSchema,
  filterSchema,
  objectSchema,
  sortableFields,
  valueSchema,
} from './input-schema.js';
import {
  accessTo,
  type AccessTerms,
  type EntityShape,
  publicFilter,
  type Resource,
  type ResourceAccess,
  wordOf,
} from './resource.js';
import {
  AGGREGATE_KINDS,
  type Condition,
  type ResourceAggregate,
  type ResourceOrder,
  type ResourceValue,
} from './resource-query.js';
import { type EntityModel, type ResourceField } from './entity-model.js';
import { type ResourceGateway, type ResourceSession } from './resource-gateway.js';
import { checkedInput, performed } from './resource-input.js';
import {
  ACTION_PARAMETERS,
  type ActionParameter,
  type ReadOptions,
} from './tool-resource.decorator.js';
import { findRows, isKey } from './views.js';
import { resultClass, resultOf } from './result-class.js';

/** Makes the tool that reads a resource. */
export function readTool(
  resource: Resource,
  options: ReadOptions,
  gateway: ResourceGateway,
): RawTool {
  const { declaration, shape } = resource;
  const { entity } = shape.model;
  const terms: AccessTerms = { relations: options.relations, load: options.load };
  const output = resultClass(entity, 'Page', PAGE_PARTS, ownParts(shape));
  const schema = readSchema(resource, options);
  const filter = publicFilter(resource, terms);
  return tool<JsonObject>({
    id: `${declaration.namespace}__read`,
    description: options.description ?? describeRead(shape, options),
    effect: 'read_only',
    ...(options.labels && { labels: options.labels }),
    output,
    input: checkedInput(
      schema,
      (input) => new ReadInput(shape, filter, options).read(input).problems,
    ),
    canCall: (run) => wordOf(() => accessTo(resource, run, terms)),
    execute: (input, context) =>
      performed(
        () => readRows({ resource, terms, options, gateway, output }, input, context),
        () => VALUED.find((place) => input[place.slice(1)] !== undefined),
      ),
  });
}

const PAGE = { default: 20, most: 50 };
const MOST_SORTS = 3;
const MOST_SKIPPED = 10_000;
/** The most values of an aggregate that is a list. */
const MOST_LISTED = 100;
const RESULT_TYPES = ['run_query', 'count', 'exists', 'aggregate'] as const;

/** The places of arguments with values that a column may not be able to hold. */
const VALUED = ['/filter', '/get_by'] as const;

/** The arguments of a read in the gateway's words. */
interface ReadRequest {
  readonly where: Condition;
  readonly order: readonly ResourceOrder[];
  readonly limit: number;
  readonly offset: number;
  readonly resultType: (typeof RESULT_TYPES)[number];
  readonly aggregate: ResourceAggregate | undefined;
  readonly select: readonly string[] | undefined;
  readonly load: readonly string[];
  /** The last row of the page before, where its cursor names no more than its key. */
  readonly last?: Condition;
  /** Set where a cursor can be made of the last row. */
  readonly cursor?: { readonly signature: string; readonly fields: readonly string[] };
}

interface ReadParts {
  readonly resource: Resource;
  readonly terms: AccessTerms;
  readonly options: ReadOptions;
  readonly gateway: ResourceGateway;
  readonly output: ReturnType<typeof resultClass>;
}

async function readRows(
  { resource, terms, options, gateway, output }: ReadParts,
  input: JsonObject,
  context: ToolCallContext,
): Promise<object> {
  const access = await accessTo(resource, context, terms);
  const { request, problems } = new ReadInput(resource.shape, access.filter, options).read(input);
  const wrong = [...problems, ...selectionProblems(request, access)];
  if (wrong.length > 0) throw new ToolError('The arguments cannot be used.', { problems: wrong });
  const values = await gateway.read(context, (session) => answer(session, access, request));
  return resultOf(output, values);
}

async function answer(
  session: ResourceSession,
  access: ResourceAccess,
  request: ReadRequest,
): Promise<object> {
  const { model } = access.shape;
  const condition = all([access.rows, request.where, await behindLast(session, access, request)]);
  if (request.resultType === 'count') return { count: await session.count(model, condition) };
  if (request.resultType === 'exists') return { exists: await session.exists(model, condition) };
  if (request.aggregate) return aggregated(session, model, condition, request.aggregate);
  const { order, limit, offset, select, load, cursor } = request;
  const chosen = select && [...select, ...access.loaded];
  const found = await findRows(
    session,
    access,
    { where: condition, order, limit: limit + 1, offset },
    { select: chosen, load },
  );
  const rows = found.rows.slice(0, limit);
  const last = rows.at(-1);
  const hasMore = found.rows.length > limit && last !== undefined && cursor !== undefined;
  const next = hasMore && {
    cursor: encodeCursor(
      cursor.signature,
      cursor.fields.map((field) => found.valueOf(last, field)),
    ),
  };
  return { rows: await found.toViews(rows), ...next };
}

/** The rows behind the last one of the page before, where only its key is known. */
async function behindLast(
  session: ResourceSession,
  { shape, rows }: ResourceAccess,
  { last, order }: ReadRequest,
): Promise<Condition> {
  if (!last) return EVERYTHING;
  const { model } = shape;
  const names = order.map(({ field }) => field);
  const [row] = await session.values(
    model,
    { where: all([rows, last]), order: [], limit: 1, offset: 0, fields: names },
    names,
  );
  if (!row)
    throw new ToolError('The page cannot be found.', {
      problems: [{ pointer: '/cursor', message: GONE }],
    });
  const values = names.map((name) => toComparable(row[name], model.fields.get(name)));
  return after(order, values, model);
}

/** A moment without an end is no date of JavaScript's, and is read as a cursor has it. */
function toComparable(value: unknown, field: ResourceField | undefined): ResourceValue {
  if (field?.kind === 'datetime' && isKey(value)) return fromKept(field, toKept(value)) ?? null;
  return isKey(value) || typeof value === 'boolean' || value instanceof Date ? value : null;
}

const GONE = 'names a row that is gone. Leave it out to begin anew, or use an offset.';

async function aggregated(
  session: ResourceSession,
  model: EntityModel,
  condition: Condition,
  aggregate: ResourceAggregate,
): Promise<object> {
  const value = await session.aggregate(model, condition, aggregate);
  if (!Array.isArray(value)) return { value };
  const isCut = value.length > aggregate.limit;
  return { values: value.slice(0, aggregate.limit), ...(isCut && { approximate: true }) };
}

const PAGE_PARTS = {
  cursor: String,
  count: Number,
  exists: Boolean,
  value: Object,
  values: Object,
  approximate: Boolean,
} as const;

/**
 * The parts of a page, beside its rows, in which no one outside can have said anything. A list of
 * values has texts, where a field that it can be made of has.
 */
function ownParts({ model, fields, ours }: EntityShape): readonly string[] {
  const listed = [...fields.values()].filter((field) => aggregatesOf(field).length > 0);
  const measured = listed.filter((field) => aggregatesOf(field).includes('max'));
  const areOurs = (some: readonly ResourceField[]): boolean =>
    some.every(({ name }) => ours.has(name));
  return [
    'count',
    ...(model.key !== undefined && ours.has(model.key) ? ['cursor'] : []),
    ...(areOurs(measured) ? ['value'] : []),
    ...(areOurs(listed) ? ['values'] : []),
  ];
}

function selectionProblems(
  { select = [], load }: ReadRequest,
  access: ResourceAccess,
): ArgumentProblem[] {
  return [
    ...unreadable(select, (name) => access.filter.fields.has(name), 'select'),
    ...unreadable(load, (name) => access.related.has(name), 'load'),
  ];
}

function unreadable(
  names: readonly string[],
  isKnown: (name: string) => boolean,
  at: string,
): ArgumentProblem[] {
  return names.flatMap((name, index) =>
    isKnown(name) ? [] : [{ pointer: `/${at}/${index}`, message: `"${name}" cannot be read.` }],
  );
}

/** Reads the arguments of a read. */
class ReadInput {
  private readonly problems = new Problems();
  private readonly model: EntityModel;

  constructor(
    private readonly shape: EntityShape,
    private readonly filter: FilterShape,
    private readonly options: ReadOptions,
  ) {
    this.model = shape.model;
  }

  read(input: JsonObject): {
    readonly request: ReadRequest;
    readonly problems: readonly ArgumentProblem[];
  } {
    const { page = PAGE } = this.options;
    const order = this.readOrder(input['sort']);
    const signature = this.signatureOf(order);
    const { where: behind, last } = this.readCursor(input, order, signature);
    const conditions = [this.readKey(input['get_by']), this.readFilter(input['filter']), behind];
    const resultType = RESULT_TYPES.find((one) => one === input['result_type']) ?? 'run_query';
    const request: ReadRequest = {
      where: all(conditions),
      ...(last && { last }),
      order,
      limit: Math.min(numberIn(input['limit'], page.default), page.most),
      offset: numberIn(input['offset'], 0),
      resultType,
      aggregate: resultType === 'aggregate' ? this.readAggregate(input['aggregate']) : undefined,
      select: namesIn(input['select']),
      load: namesIn(input['load']) ?? [],
      ...(signature !== undefined && { cursor: { signature, fields: this.cursorFields(order) } }),
    };
    return { request, problems: this.problems.found };
  }

  private readFilter(filter: unknown): Condition {
    return filter === undefined
      ? EVERYTHING
      : readFilter(filter, this.filter, '/filter', this.problems);
  }

  /** The primary key comes last, so that every order is one of single rows. */
  private readOrder(sort: unknown): readonly ResourceOrder[] {
    const items: readonly unknown[] = Array.isArray(sort) ? sort : [];
    const order = items.flatMap((item, index) => {
      const field = isRecord(item)
        ? this.sortable(item['field'], `/sort/${index}/field`)
        : undefined;
      return field && isRecord(item)
        ? [{ field: field.name, descending: item['descending'] === true }]
        : [];
    });
    const { key } = this.model;
    const isUnique = key === undefined || order.some(({ field }) => field === key);
    return isUnique ? order : [...order, { field: key, descending: false }];
  }

  private sortable(name: unknown, pointer: string): ResourceField | undefined {
    const field = sortableFields(this.filter).find((one) => one.name === name);
    if (!field) this.problems.say(pointer, 'is no field that can be compared.');
    return field;
  }

  private readAggregate(given: unknown): ResourceAggregate | undefined {
    if (!isRecord(given)) {
      this.problems.say(
        '/aggregate',
        'must say { "kind": …, "field": … } where result_type is "aggregate"',
      );
      return undefined;
    }
    const field = this.sortable(given['field'], '/aggregate/field');
    const kind = AGGREGATE_KINDS.find((one) => one === given['kind']);
    if (!field || !kind) return undefined;
    const kinds = aggregatesOf(field);
    if (!kinds.includes(kind))
      this.problems.say(
        '/aggregate/kind',
        `cannot be made of ${field.name}. Use one of ${kinds.join(', ')}.`,
      );
    return { kind, field, limit: MOST_LISTED };
  }

  private readKey(given: unknown): Condition {
    if (!isRecord(given)) return EVERYTHING;
    const names = Object.keys(given).toSorted();
    const keys = keysOf(this.model, this.filter.fields);
    if (!keys.some((key) => key.toSorted().join() === names.join())) {
      this.problems.say(
        '/get_by',
        `must name the fields of one key: ${keys.map((key) => key.join(' and ')).join('; ')}.`,
      );
      return NOTHING;
    }
    return all(
      Object.entries(given).map(([name, value]) => this.readEqual(name, value, `/get_by/${name}`)),
    );
  }

  private readEqual(name: string, given: unknown, pointer: string): Condition {
    const field = this.filter.fields.get(name);
    const value = field && toValue(field, given);
    if (field && value === undefined) this.problems.say(pointer, `must be ${wantedBy(field)}`);
    return value === undefined ? NOTHING : where(name, 'eq', value);
  }

  private readCursor(
    input: JsonObject,
    order: readonly ResourceOrder[],
    signature: string | undefined,
  ): Pick<ReadRequest, 'where' | 'last'> {
    const { cursor } = input;
    if (typeof cursor !== 'string') return { where: EVERYTHING };
    if (numberIn(input['offset'], 0) > 0)
      this.problems.say('/offset', 'cannot be given with a cursor');
    const names = this.cursorFields(order);
    const values = signature === undefined ? undefined : decodeCursor(cursor, signature);
    const read = values?.map((value, index) => {
      const field = this.model.fields.get(names[index] ?? '');
      return field && fromKept(field, value);
    });
    if (read?.length !== names.length || read.includes(undefined)) {
      this.problems.say(
        '/cursor',
        'is none that the last page gave for this sort. Leave it out to begin anew.',
      );
      return { where: NOTHING };
    }
    if (names.length === order.length) return { where: after(order, read, this.model) };
    return {
      where: EVERYTHING,
      last: all(names.map((name, index) => equals(name, read[index] ?? null))),
    };
  }

  private signatureOf(order: readonly ResourceOrder[]): string | undefined {
    const { key = '', entity } = this.model;
    const { actionParameters = ACTION_PARAMETERS } = this.options;
    const fields = order.map(({ field }) => this.model.fields.get(field));
    // A cursor has the values of the last row: they are the model's to see.
    const isExact = fields.every(
      (field) => field && !field.imprecise && this.filter.fields.has(field.name),
    );
    if (
      !actionParameters.includes('cursor') ||
      !isExact ||
      !order.some(({ field }) => field === key)
    )
      return undefined;
    return signatureFor(JSON.stringify([entity.name, order]));
  }

  /**
   * The fields whose values a cursor has: those of the order, or the key alone where one of the
   * others may be a text from outside, which a cursor would carry past the labels of fields.
   */
  private cursorFields(order: readonly ResourceOrder[]): readonly string[] {
    const { key } = this.model;
    const { ours } = this.shape;
    const names = order.map(({ field }) => field);
    return key === undefined || !ours.has(key) || names.every((name) => ours.has(name))
      ? names
      : [key];
  }
}

/** The signatures of the orders that were asked for last: most reads have the same. */
const SIGNATURES = new Map<string, string>();
const MOST_SIGNATURES = 200;

function signatureFor(order: string): string {
  const signature = SIGNATURES.get(order) ?? hash('sha256', order).slice(0, 12);
  if (SIGNATURES.size >= MOST_SIGNATURES) SIGNATURES.clear();
  SIGNATURES.set(order, signature);
  return signature;
}

/** The form of a cursor, so that no other text is taken for one. */
const CURSOR = { type: 'string', pattern: String.raw`^[\w-]{20,}$`, maxLength: 2_000 } as const;

function encodeCursor(signature: string, values: readonly unknown[]): string {
  return Buffer.from(JSON.stringify([signature, ...values.map(toKept)])).toString('base64url');
}

function decodeCursor(cursor: string, signature: string): readonly unknown[] | undefined {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (!Array.isArray(parts)) return undefined;
    const values: readonly unknown[] = parts;
    return values[0] === signature ? values.slice(1) : undefined;
  } catch {
    return undefined;
  }
}

function numberIn(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function namesIn(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter((name) => typeof name === 'string') : undefined;
}

/** The keys of which all fields are public: the primary key first. */
export function keysOf(
  model: EntityModel,
  fields: FilterShape['fields'],
): readonly (readonly string[])[] {
  const primary = model.key === undefined ? [] : [[model.key]];
  return [...primary, ...model.uniqueKeys.values()].filter(
    (key) => key.length > 0 && key.every((name) => fields.has(name)),
  );
}

function readSchema(resource: Resource, options: ReadOptions): JSONSchema7 {
  const { actionParameters = ACTION_PARAMETERS, page = PAGE, relations } = options;
  const filter = publicFilter(resource, { relations });
  const definitions = new Definitions();
  const field = (): JSONSchema7 => fieldNameSchema(filter, definitions);
  const keys = keysOf(resource.shape.model, filter.fields);
  const hasKey = resource.shape.model.key !== undefined;
  const keyFields = [...new Set(keys.flat())].flatMap((name) => filter.fields.get(name) ?? []);
  const loadable = [...filter.relations.keys()];
  const parameters: Readonly<Record<ActionParameter, () => JSONSchema7 | undefined>> = {
    filter: () => filterSchema(filter, definitions),
    sort: () => ({
      type: 'array',
      items: objectSchema({ field: field(), descending: { type: 'boolean' } }, ['field']),
      maxItems: MOST_SORTS,
    }),
    limit: () => ({ type: 'integer', minimum: 1, maximum: page.most, default: page.default }),
    offset: () => ({ type: 'integer', minimum: 0, maximum: MOST_SKIPPED }),
    cursor: () =>
      hasKey ? { ...CURSOR, description: 'Of the page before, same sort.' } : undefined,
    result_type: () => ({ type: 'string', enum: [...RESULT_TYPES], default: 'run_query' }),
    aggregate: () =>
      objectSchema({ kind: { type: 'string', enum: [...AGGREGATE_KINDS] }, field: field() }, [
        'kind',
        'field',
      ]),
    get_by: () =>
      keyFields.length > 0
        ? objectSchema(Object.fromEntries(keyFields.map((one) => [one.name, valueSchema(one)])))
        : undefined,
    select: () => ({ type: 'array', items: selectable(filter) ?? field() }),
    load: () =>
      loadable.length > 0
        ? { type: 'array', items: { type: 'string', enum: loadable } }
        : undefined,
  };
  const chosen = ACTION_PARAMETERS.filter((name) => actionParameters.includes(name)).flatMap(
    (name) => {
      const schema = parameters[name]();
      return schema ? [[name, schema] as const] : [];
    },
  );
  return definitions.complete(Object.fromEntries(chosen));
}

/** Undefined where what can be selected is what can be compared. */
function selectable({ fields }: FilterShape): JSONSchema7 | undefined {
  const isSame = [...fields.values()].every(({ kind }) => kind !== 'json');
  return isSame ? undefined : { type: 'string', enum: [...fields.keys()] };
}

function describeRead(
  { model }: EntityShape,
  { actionParameters = ACTION_PARAMETERS }: ReadOptions,
): string {
  const also = actionParameters.includes('result_type')
    ? ' Can also count them, tell if there are any, or aggregate one field.'
    : '';
  return `Read ${model.entity.name} rows.${also}`;
}
