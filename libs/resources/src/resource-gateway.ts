import type { Type } from '@nestjs/common';
import type { Finding, JsonValue, RegisteredActor, RunContext } from '@toolloop/core';
import { askStore } from '@toolloop/core/internal';

/**
 * The kind of a field's values, whatever the ORM calls it. `enum` is text with a list of values,
 * `json` can only be returned.
 */
export type FieldKind =
  | 'text'
  | 'enum'
  | 'uuid'
  | 'integer'
  | 'number'
  | 'decimal'
  | 'boolean'
  | 'date'
  | 'datetime'
  | 'json';

/** A column of an entity, as the ORM describes it. */
export interface ResourceField {
  readonly name: string;
  readonly kind: FieldKind;
  readonly nullable: boolean;
  readonly description?: string;
  /** The values of an enum. */
  readonly values?: readonly string[];
  /** The most characters of a text. */
  readonly maxLength?: number;
  /**
   * `true` if an integer may be larger than JSON's numbers can say: then it is a text, in arguments
   * and in results.
   */
  readonly isBig?: boolean;
  /** `true` if the ORM hides it or loads it lazily: then it is never public. */
  readonly hidden: boolean;
  /** `true` if the database or the ORM gives it a value where none is given. */
  readonly hasDefault: boolean;
  /**
   * Set if the database or the ORM gives it its value, so that it is no part of an input unless the
   * resource accepts it: a generated value, an expression of the database, a hook of the ORM.
   * `always` cannot be accepted: a version, a moment of a creation or a change, a column that the
   * database computes.
   */
  readonly isSet?: 'always' | 'unless_given';
  /** `true` if its value is computed of other columns, or may be: then it tells what they do. */
  readonly isComputed?: boolean;
  /** The one write in which the ORM takes a value for it. @default both */
  readonly onlyIn?: 'create' | 'update';
  /** The relation to one whose key it is: it is read, and the relation is written. */
  readonly keyOf?: string;
  /**
   * `true` if its values cannot be told apart as precisely as the database stores them, so that no
   * cursor can be made of them.
   */
  readonly imprecise?: boolean;
}

/** Tells whether a field has days or moments. */
export function isMoment(kind: FieldKind): boolean {
  return kind === 'date' || kind === 'datetime';
}

/** Tells whether a default is a text that a database takes for its own clock. */
export function isNow(value: unknown): boolean {
  return (
    typeof value === 'string' &&
    /^\s*(?:now|current_(?:timestamp|date|time)|localtime(?:stamp)?|today)\s*(?:\(\d*\))?\s*$/i.test(
      value,
    )
  );
}

/** A relation to one or many rows of another entity. */
export interface ResourceRelation {
  readonly name: string;
  readonly target: Type;
  readonly many: boolean;
  readonly nullable: boolean;
  readonly hidden: boolean;
  /**
   * The relation of the target that leads back, where the target has the key of the row. Absent
   * where the row has that of the target, and where a table stands between the two.
   */
  readonly back?: string;
  /** `true` if it leads to rows of several entities, which no resource follows. */
  readonly isOfSeveral?: boolean;
  /**
   * `true` if the ORM compares several columns for it, such as a key with the tenant in it, which
   * its gateway cannot follow.
   */
  readonly isByParts?: boolean;
  readonly description?: string;
}

/** An entity, as the ORM describes it. */
export interface EntityModel {
  readonly entity: Type;
  readonly fields: ReadonlyMap<string, ResourceField>;
  readonly relations: ReadonlyMap<string, ResourceRelation>;
  /** The field by which a row is identified within its tenant. Absent where several are needed. */
  readonly key?: string;
  /**
   * The fields of every unique key within a tenant, without the tenant's own, by the name of the
   * key: that of the constraint, or the fields joined by `_`.
   */
  readonly uniqueKeys: ReadonlyMap<string, readonly string[]>;
  /**
   * The names of the unique keys that hold over the rows of all tenants, so that a refused write
   * tells of another tenant's row.
   */
  readonly keysOfAllTenants?: readonly string[];
  /** The field that counts the changes of a row. */
  readonly version?: string;
  /** The field that names the tenant of a row. */
  readonly tenant?: string;
  /**
   * Set if the ORM keeps the places of its rows in a tree in a way that a gateway cannot, so that
   * no tool writes to it: the name of that way.
   */
  readonly unkeptTree?: string;
}

/** Names the unique keys of an entity as {@link EntityModel} has them. */
export function namedKeys(
  keys: readonly {
    readonly name: string | undefined;
    readonly fields: readonly string[];
    readonly isOfTenant: boolean;
  }[],
): Pick<EntityModel, 'uniqueKeys' | 'keysOfAllTenants'> {
  const whole = keys.filter(({ fields }) => fields.length > 0);
  const nameOf = ({ name, fields }: (typeof keys)[number]): string => name ?? fields.join('_');
  return {
    uniqueKeys: new Map(whole.map((key) => [nameOf(key), key.fields])),
    keysOfAllTenants: whole.filter(({ isOfTenant }) => !isOfTenant).map(nameOf),
  };
}

/**
 * A comparison that a database can make. Those that begin with `not_`, and `ne`, say nothing of
 * nulls: {@link Condition} says them.
 */
export type ComparisonOperator =
  | 'eq'
  | 'ne'
  | 'in'
  | 'not_in'
  | 'gt'
  | 'gte'
  | 'lt'
  | 'lte'
  | 'contains'
  | 'not_contains'
  | 'starts_with'
  | 'not_starts_with'
  | 'is_null'
  | 'is_not_null';

/** A value that is compared or written. */
export type ResourceValue = string | number | boolean | Date | bigint | null;

/**
 * A condition on the rows of one entity. It is made of checked input: field names are the model's
 * own, and values are parameters. Text is compared without regard to case by `contains` and
 * `starts_with` alone.
 */
export type Condition =
  | { readonly kind: 'all'; readonly of: readonly Condition[] }
  | { readonly kind: 'any'; readonly of: readonly Condition[] }
  | {
      readonly kind: 'field';
      readonly field: string;
      readonly operator: ComparisonOperator;
      readonly value: ResourceValue | readonly ResourceValue[];
    }
  /** Holds for rows of which a related row (`has`), or none, meets the condition. */
  | {
      readonly kind: 'related';
      readonly relation: string;
      readonly has: boolean;
      readonly where: Condition;
    };

/** One field by which rows are ordered. Nulls come last in either direction. */
export interface ResourceOrder {
  readonly field: string;
  readonly descending: boolean;
}

/** Rows that are asked for. */
export interface ResourceQuery {
  readonly where: Condition;
  readonly order: readonly ResourceOrder[];
  readonly limit: number;
  readonly offset: number;
  /** The fields and to-one relations that are read; all that are not lazy where it is left out. */
  readonly fields?: readonly string[];
}

/** The pairs that are asked for of a relation over a table of its own. */
export interface LinkQuery {
  /** The keys of the rows from which it leads. */
  readonly keys: readonly ResourceValue[];
  /** The rows of the target that count. */
  readonly where: Condition;
  readonly limit: number;
}

export const AGGREGATE_KINDS = ['count', 'sum', 'avg', 'min', 'max', 'list'] as const;

/** A value that is made of one field of many rows. */
export interface ResourceAggregate {
  readonly kind: (typeof AGGREGATE_KINDS)[number];
  readonly field: ResourceField;
  /** The most values of a `list`. */
  readonly limit: number;
}

/** The tenant and the actor for whom a transaction works. */
export type ResourceScope<Actor = RegisteredActor> = Pick<RunContext<Actor>, 'actor' | 'tenant'> & {
  /** `true` within the call's own transaction: the work must be a part of it. */
  readonly isJoined?: boolean;
  /** `true` if nothing is written. */
  readonly isRead?: boolean;
};

/**
 * The rows of one tenant within one transaction, with an identity map of its own. Rows are live
 * instances of the entity.
 */
export interface ResourceSession {
  find(model: EntityModel, query: ResourceQuery): Promise<readonly object[]>;
  /**
   * Finds rows that are only read: of each, the values of these fields as {@link valueOf} tells
   * them, in an object that is the caller's. No instances need be made, which is most of what a
   * read of an ORM takes.
   */
  values(
    model: EntityModel,
    query: ResourceQuery,
    names: readonly string[],
  ): Promise<readonly Record<string, unknown>[]>;
  /**
   * Finds which rows a relation over a table of its own leads to: pairs of the key of one of these
   * rows and that of a row of the target that meets the condition, in the order of the latter.
   */
  links(
    model: EntityModel,
    relation: string,
    query: LinkQuery,
  ): Promise<readonly (readonly [near: unknown, far: unknown])[]>;
  count(model: EntityModel, where: Condition): Promise<number>;
  exists(model: EntityModel, where: Condition): Promise<boolean>;
  aggregate(model: EntityModel, where: Condition, aggregate: ResourceAggregate): Promise<JsonValue>;
  /** The value of a field, or the key of the row that a relation to one leads to. */
  valueOf(model: EntityModel, row: object, name: string): unknown;
  /** Makes a row of the tenant. Relations are given as rows that were found in the same session. */
  create(model: EntityModel, values: ReadonlyMap<string, unknown>): object;
  change(model: EntityModel, row: object, values: ReadonlyMap<string, unknown>): void;
  remove(row: object): void;
  /**
   * Writes what was made, changed and removed.
   *
   * @throws {ResourceWriteError} For what the database refuses.
   */
  flush(): Promise<void>;
}

/** Reads the values of a live row, for {@link ResourceSession.values}. */
export function valuesOf(
  session: ResourceSession,
  model: EntityModel,
  row: object,
  names: readonly string[],
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const name of names) values[name] = session.valueOf(model, row, name);
  return values;
}

/** The reason for which a database refuses a write. Its message is for logs. */
export class ResourceWriteError extends Error {
  override readonly name = 'ResourceWriteError';

  constructor(
    /** `conflict`: another one has written meanwhile. `timeout`: a statement took too long. */
    readonly reason:
      'unique' | 'required' | 'reference' | 'check' | 'tenant' | 'conflict' | 'timeout',
    /** The constraint or the column that the database names. */
    readonly subject: string,
    options: { readonly cause?: unknown },
  ) {
    super(`The database refuses the write (${reason}: ${subject}).`, options);
  }
}

/**
 * The port to a database with tenants. An adapter keeps every statement within the tenant of its
 * scope.
 *
 * @example
 * ResourceToolsModule.forRoot({
 *   gateway: mikroOrmGateway({ tenancy: { property: 'tenant', role: 'desk_tools' } }),
 * });
 */
export abstract class ResourceGateway {
  /**
   * `true` where a write can be a part of the call's own transaction, so that the mark of the call
   * is committed with it. Elsewhere a write is committed by itself, and a call whose process died
   * is not made again by itself.
   */
  get joinsCalls(): boolean {
    return true;
  }

  /** Returns the model of an entity; undefined for a class that the ORM does not know. */
  abstract describe(entity: Type): EntityModel | undefined;

  /**
   * Returns what keeps tenants from being safe in the database as it is: roles, row level security,
   * columns. `shared` are entities whose rows are those of all tenants.
   */
  abstract findings(
    models: readonly EntityModel[],
    shared?: readonly EntityModel[],
  ): Promise<readonly Finding[]>;

  /**
   * Runs `work` in one transaction of a tenant, which is rolled back where it rejects; in another
   * one where the connection was lost before the commit.
   */
  abstract transaction<Result>(
    scope: ResourceScope,
    work: (session: ResourceSession) => Promise<Result>,
  ): Promise<Result>;

  /** Runs `work`, which writes nothing: it may be run again whatever became of its transaction. */
  read<Result>(
    scope: ResourceScope,
    work: (session: ResourceSession) => Promise<Result>,
  ): Promise<Result> {
    return this.transaction({ ...scope, isRead: true }, work);
  }

  /**
   * Runs transactions until one is not lost with its connection: the server has undone those that
   * were. `attempt` says when it asks for its commit, since one that may have been made is not made
   * again. The transaction of a call is repeated as a whole by its owner.
   *
   * @throws {StorageUnavailableError} Where the database has not come back after 8 s.
   */
  protected async repeated<Result>(
    scope: ResourceScope,
    attempt: (onCommit: () => void) => Promise<Result>,
  ): Promise<Result> {
    if (scope.isJoined) return attempt(() => undefined);
    const ended = await askStore<{ readonly result: Result } | { readonly unknown: unknown }>(
      async () => {
        let mayBeMade = false;
        const onCommit = (): void => {
          mayBeMade = scope.isRead !== true;
        };
        try {
          return { result: await attempt(onCommit) };
        } catch (error) {
          if (!mayBeMade) throw error;
          return { unknown: error };
        }
      },
      // the tool's own limit holds, and its errors are its own
      { longestMs: Infinity, isAnswer: () => true },
    );
    if ('unknown' in ended) throw ended.unknown;
    return ended.result;
  }
}
