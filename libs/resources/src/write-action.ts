import {
  type JsonObject,
  type JsonValue,
  type RawTool,
  type RunContext,
  tool,
  type ToolCallContext,
  ToolError,
} from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import type { PreviewChange, ToolPreview } from '@toolloop/protocol';
import { all, EVERYTHING, where } from './filter.js';
import {
  accessTo,
  type AccessTerms,
  assertWrite,
  RefusedError,
  type Resource,
  type ResourceAccess,
  wordOf,
} from './resource.js';
import type { ResourceGateway, ResourceSession } from './resource-gateway.js';
import { checkedInput, performed, toldWell } from './resource-input.js';
import type { ResourceWrite } from './resource-policy.js';
import { isKey, plainCopy, toViews } from './views.js';
import { resultClass, resultOf } from './result-class.js';
import {
  assertReadable,
  WriteInput,
  type WriteOptions,
  type WriteRequest,
  type WrittenValues,
} from './write-input.js';

/** One write of a resource, and what it needs. */
export interface WriteTerms {
  readonly action: ResourceWrite['action'];
  readonly options: WriteOptions;
  readonly gateway: ResourceGateway;
  /**
   * `true` where the mark of a call is committed with its write, so that a call whose process died
   * can be made again.
   */
  readonly isIdempotent: boolean;
}

/** Makes the tool that creates, updates or destroys rows of a resource. */
export function writeTool(resource: Resource, terms: WriteTerms): RawTool {
  const { action, options, isIdempotent } = terms;
  const { entity } = resource.shape.model;
  const write = new WriteAction(resource, terms);
  const { preflight = action === 'create' ? 'empty' : 'identity', directive } = options;
  return tool<JsonObject>({
    id: `${resource.declaration.namespace}__${action}`,
    description: options.description ?? describeWrite(entity.name, action, write.input),
    effect: 'state_change',
    ...(isIdempotent && { idempotent: true }),
    ...rehearsalOf(write, terms),
    ...(options.labels && { labels: options.labels }),
    ...(directive && { directive }),
    output: write.output,
    input: checkedInput(write.input.schema, (input) => write.input.read(input).problems),
    canCall: (run) => wordOf(() => assertWrite(resource, run, { action })),
    ...(preflight !== 'none' && {
      preflight: (input, context) => wordOf(() => write.preflight(input, context, preflight)),
    }),
    preview: (input, context) => write.preview(input, context),
    execute: (input, context) => write.perform(input, context),
  });
}

/**
 * A rehearsal makes the write where it is part of the transaction of its call, and stays in the
 * database.
 */
function rehearsalOf(
  write: WriteAction,
  { isIdempotent, options }: WriteTerms,
): Pick<RawToolDeclaration<JsonObject>, 'rehearse' | 'rowsBefore'> {
  if (!isIdempotent || options.directive || options.labels?.egress) return {};
  return {
    rehearse: 'transaction',
    rowsBefore: (input, context) => write.rowsBefore(input, context),
  };
}

function describeWrite(name: string, action: ResourceWrite['action'], input: WriteInput): string {
  const verb = { create: 'Create', update: 'Change', destroy: 'Delete' }[action];
  if (!input.isBulk) return `${verb} one ${name}.`;
  return action === 'create'
    ? `${verb} several ${name} rows at once, all or none.`
    : `${verb} the ${name} rows that a filter matches, all or none.`;
}

/** The rows of one write as they are in a session. */
interface MeantRows {
  readonly session: ResourceSession;
  readonly access: ResourceAccess;
  readonly request: WriteRequest;
  readonly rows: readonly object[];
}

class WriteAction {
  readonly input: WriteInput;
  readonly output: ReturnType<typeof resultClass>;
  private readonly readable: AccessTerms;

  constructor(
    private readonly resource: Resource,
    private readonly terms: WriteTerms,
  ) {
    const { entity } = resource.shape.model;
    this.input = new WriteInput(resource, terms.action, terms.options);
    this.readable = { relations: terms.options.relations };
    this.output = this.input.isBulk
      ? resultClass(entity, 'Rows', { count: Number }, ['count'])
      : entity;
  }

  /**
   * Asks the policy about a call before a person is asked: about its rows as they are, or about its
   * input alone.
   */
  async preflight(
    args: JsonObject,
    context: ToolCallContext,
    asked: 'identity' | 'empty',
  ): Promise<void> {
    const { access, request } = await this.read(args, context);
    if (asked === 'empty' || this.terms.action === 'create')
      return this.assertPermitted(context, request);
    await this.inSession(context, async (session) => {
      const rows = await this.meantRows(session, access, request);
      for (const row of rows) await this.assertPermitted(context, request, row);
    });
  }

  /** Shows the rows before and after. It reads, and writes nothing. */
  async preview(args: JsonObject, context: ToolCallContext): Promise<ToolPreview> {
    const { access, request } = await this.read(args, context);
    return this.inSession(context, async (session) => {
      const rows =
        this.terms.action === 'create' ? [] : await this.meantRows(session, access, request);
      return {
        sentence: this.sentence(session, rows, request),
        changes: this.changes({ session, access, request, rows }),
      };
    });
  }

  /**
   * The rows that a rehearsed call would change, as they are now. A row without a version is
   * compared by all of its fields.
   */
  async rowsBefore(args: JsonObject, context: ToolCallContext): Promise<JsonObject> {
    if (this.terms.action === 'create') return {};
    const { access, request } = await this.read(args, context);
    const { model, forPeople } = access.shape;
    const compared = [
      ...forPeople,
      ...(model.version === undefined ? model.fields.keys() : [model.version]),
    ];
    return this.inSession(context, async (session) => {
      const rows = await this.meantRows(session, access, request);
      const valuesOf = (row: object): JsonObject =>
        Object.fromEntries(
          compared.map((name) => [name, toShown(session.valueOf(model, row, name))]),
        );
      return Object.fromEntries(
        rows.map((row, index) => [
          this.nameOf(session, row) ?? `${model.entity.name} ${index + 1}`,
          valuesOf(row),
        ]),
      );
    });
  }

  /** Makes the write and the mark of its call in one transaction. */
  async perform(args: JsonObject, context: ToolCallContext): Promise<unknown> {
    const { gateway } = this.terms;
    const { transaction } = context;
    let live: unknown;
    const write = async (): Promise<unknown> => {
      const { access, request } = await this.read(args, context);
      const work = (session: ResourceSession): Promise<object> =>
        this.write({ session, access, request, rows: [] }, context);
      if (!transaction || !gateway.joinsCalls) return gateway.transaction(context, work);
      return transaction(async () => {
        live = await gateway.transaction({ ...context, isJoined: true }, work);
        return plainCopy(live);
      });
    };
    const kept = await performed(write, (subject, reason) => this.input.pointerTo(subject, reason));
    return live ?? kept; // another attempt may have written it
  }

  private async read(
    args: JsonObject,
    run: RunContext,
  ): Promise<{ readonly access: ResourceAccess; readonly request: WriteRequest }> {
    const { resource } = this;
    const access = await accessTo(resource, run, this.readable);
    const { write } =
      (await resource.shapes.policyOf(resource.shape.model.entity)?.fields(run)) ?? {};
    const { request, problems } = this.input.read(args, access.filter, write);
    assertReadable(problems);
    return { access, request };
  }

  private inSession<Result>(
    context: ToolCallContext,
    work: (session: ResourceSession) => Promise<Result>,
  ): Promise<Result> {
    return toldWell(() => this.terms.gateway.read(context, work));
  }

  private async write(meant: MeantRows, context: ToolCallContext): Promise<object> {
    const { session, access, request } = meant;
    const { action } = this.terms;
    const rows =
      action === 'create'
        ? await this.created(meant, context)
        : await this.meantRows(session, access, request);
    if (action === 'update') for (const row of rows) await this.change(meant, row, context);
    if (action === 'destroy') {
      for (const row of rows) await this.assertPermitted(context, request, row);
      const views = await toViews(session, rows, access);
      for (const row of rows) session.remove(row);
      await session.flush();
      return this.result(views);
    }
    await session.flush();
    await this.assertOwnRows(meant, rows);
    return this.result(await toViews(session, rows, access));
  }

  private result(views: readonly object[]): object {
    const [only] = views;
    return this.input.isBulk || !only
      ? resultOf(this.output, { count: views.length, rows: views })
      : only;
  }

  private async created(
    { session, access, request }: MeantRows,
    context: ToolCallContext,
  ): Promise<readonly object[]> {
    await this.assertPermitted(context, request);
    const rows: object[] = [];
    for (const input of request.inputs)
      rows.push(
        session.create(
          access.shape.model,
          await this.valuesFor({ session, access }, input, context),
        ),
      );
    return rows;
  }

  private async change(
    { session, access, request }: MeantRows,
    row: object,
    context: ToolCallContext,
  ): Promise<void> {
    await this.assertPermitted(context, request, row);
    for (const input of request.inputs)
      session.change(
        access.shape.model,
        row,
        await this.valuesFor({ session, access }, input, context),
      );
  }

  /** The rows that a call names, which the actor may see. */
  private async meantRows(
    session: ResourceSession,
    access: ResourceAccess,
    request: WriteRequest,
  ): Promise<readonly object[]> {
    const { model } = access.shape;
    const most = this.input.isBulk ? (this.terms.options.bulk ?? 1) : 1;
    const query = {
      where: all([access.rows, request.where ?? EVERYTHING]),
      order: [],
      limit: most + 1,
      offset: 0,
    };
    const rows = await session.find(model, query);
    const { name } = model.entity;
    if (rows.length === 0) throw problem(request.named, `There is no such ${name}.`);
    if (rows.length > most)
      throw problem(request.named, `This is about more than ${most} rows of ${name}. Narrow it.`);
    if (request.version !== undefined && model.version !== undefined) {
      const { version } = model;
      const isChanged = rows.some(
        (row) => session.valueOf(model, row, version) !== request.version,
      );
      if (isChanged) throw problem('/version', `The ${name} was changed meanwhile. Read it again.`);
    }
    return rows;
  }

  /**
   * The values of one input, with the rows that its relations name: each is looked for in the
   * tenant, since a foreign key would take any.
   */
  private async valuesFor(
    { session, access }: Pick<MeantRows, 'session' | 'access'>,
    { pointer, values, given }: WrittenValues,
    context: ToolCallContext,
  ): Promise<ReadonlyMap<string, unknown>> {
    const found: Record<string, unknown> = { ...values };
    for (const { name, relation } of this.input.accepted) {
      if (!relation || found[name] === undefined || found[name] === null) continue;
      found[name] = await this.relatedRow({ session, access }, name, found[name], context);
      if (found[name] === undefined)
        throw problem(`${pointer}/${name}`, `There is no such ${relation.target.name}.`);
    }
    return this.changed(found, given, context);
  }

  /** @throws {Error} Where the application's `change` sets what it cannot. */
  private changed(
    found: Readonly<Record<string, unknown>>,
    given: JsonObject,
    context: ToolCallContext,
  ): ReadonlyMap<string, unknown> {
    const { change } = this.terms.options;
    const { model } = this.resource.shape;
    const written = Object.entries(change ? change(found, given, context) : found);
    const wrong = written.find(
      ([name]) => name === model.tenant || !(model.fields.has(name) || model.relations.has(name)),
    );
    if (wrong)
      throw new Error(
        `The \`change\` of ${this.resource.declaration.namespace} sets "${wrong[0]}", which cannot be written.`,
      );
    return new Map(written.filter(([, value]) => value !== undefined));
  }

  private async relatedRow(
    { session, access }: Pick<MeantRows, 'session' | 'access'>,
    name: string,
    key: unknown,
    run: RunContext,
  ): Promise<object | undefined> {
    const relation = access.shape.model.relations.get(name);
    const shape = relation && this.resource.shapes.find(relation.target);
    if (!shape || shape.model.key === undefined || !isKey(key)) return undefined;
    const target =
      access.related.get(name) ??
      (await accessTo({ shape, shapes: this.resource.shapes }, run, { relations: [] }));
    const condition = all([target.rows, where(shape.model.key, 'eq', key)]);
    const [row] = await session.find(shape.model, {
      where: condition,
      order: [],
      limit: 1,
      offset: 0,
    });
    return row;
  }

  private async assertPermitted(
    run: RunContext,
    { inputs }: WriteRequest,
    row?: object,
  ): Promise<void> {
    const { action } = this.terms;
    if (inputs.length === 0)
      return assertWrite(this.resource, run, { action, ...(row && { row }) });
    for (const { values } of inputs)
      await assertWrite(this.resource, run, { action, values, ...(row && { row }) });
  }

  /**
   * A write must not make rows that do not exist for its actor.
   *
   * @throws {RefusedError}
   */
  private async assertOwnRows(
    { session, access }: MeantRows,
    rows: readonly object[],
  ): Promise<void> {
    const { model } = access.shape;
    const { key } = model;
    if (access.rows === EVERYTHING || key === undefined) return;
    const keys = rows.map((row) => session.valueOf(model, row, key)).filter(isKey);
    const own = await session.count(model, all([access.rows, where(key, 'in', keys)]));
    const { version } = this.resource.shapes.policyOf(model.entity) ?? {};
    if (own < rows.length)
      throw new RefusedError({
        rule: 'rows',
        reason: 'The row would not be one that the actor may see.',
        ...(version !== undefined && { version }),
      });
  }

  private sentence(
    session: ResourceSession,
    rows: readonly object[],
    { inputs }: WriteRequest,
  ): string {
    const { model } = this.resource.shape;
    const { action } = this.terms;
    const [only] = rows;
    if (action === 'create')
      return inputs.length === 1
        ? `Creates one ${model.entity.name}.`
        : `Creates ${inputs.length} ${model.entity.name} rows.`;
    const verb = action === 'update' ? 'Changes' : 'Deletes';
    if (rows.length > 1 || !only) return `${verb} ${rows.length} ${model.entity.name} rows.`;
    return `${verb} ${this.nameOf(session, only) ?? model.entity.name}.`;
  }

  /** The name of a row for people; undefined where no single field identifies it. */
  private nameOf(session: ResourceSession, row: object): string | undefined {
    const { model } = this.resource.shape;
    return model.key === undefined
      ? undefined
      : `${model.entity.name} ${String(session.valueOf(model, row, model.key))}`;
  }

  /** The values that people may see, before and after. */
  private changes({ session, access, request, rows }: MeantRows): readonly PreviewChange[] {
    const { model, forPeople } = access.shape;
    const isMany = rows.length > 1 || request.inputs.length > 1;
    const named = (name: string, index: number): string =>
      isMany ? `${index + 1}. ${name}` : name;
    const shownNames = (names: readonly string[]): readonly string[] =>
      names.filter((name) => forPeople.has(name));
    if (this.terms.action === 'create')
      return request.inputs.flatMap(({ values }, index) =>
        shownNames(Object.keys(values)).map((name) => ({
          field: named(name, index),
          after: toShown(values[name]),
        })),
      );
    return rows.flatMap((row, index) => {
      const before = (name: string): JsonValue => toShown(session.valueOf(model, row, name));
      if (this.terms.action === 'destroy')
        return shownNames(access.returned).map((name) => ({
          field: named(name, index),
          before: before(name),
        }));
      const values = request.inputs[0]?.values ?? {};
      return shownNames(Object.keys(values)).map((name) => ({
        field: named(name, index),
        before: before(name),
        after: toShown(values[name]),
      }));
    });
  }
}

function problem(pointer: string, message: string): ToolError {
  return new ToolError(message, { problems: [{ pointer, message }] });
}

/** A value of a row as people see it in a preview. */
function toShown(value: unknown): JsonValue {
  if (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'number' ||
    typeof value === 'boolean'
  )
    return value;
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? null);
}
