import type { Type } from '@nestjs/common';
import type { Finding, JsonValue, RegisteredActor, RunContext } from '@toolloop/core';
import { askStore } from '@toolloop/core/internal';
import type { EntityModel } from './entity-model.js';
import type { Condition, LinkQuery, ResourceAggregate, ResourceQuery } from './resource-query.js';

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
