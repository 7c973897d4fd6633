import type { JsonObject, RegisteredActor, RunContext } from '@toolloop/core';
import type { ToolWord } from '@toolloop/core/contracts';

/**
 * The port that decides what an actor may do with the rows of one entity, beside the policy of the
 * run: which actions, which rows, which fields. A provider of any module;
 * `@ToolResource(Order, { policy: OrderPolicy })` names its class. It is asked at listing
 * (`strictListing`), before a person is asked and in the transaction of the call, and its refusal
 * is a decision with its version in the record. It also holds where another resource filters by, or
 * loads, rows of the entity.
 *
 * @example
 * @Injectable()
 * export class OrderPolicy extends ResourcePolicy<User> {
 *   readonly version = 'orders-1';
 *
 *   canRead(): boolean {
 *     return true;
 *   }
 *
 *   canWrite({ actor }: RunContext<User>, { row }: ResourceWrite<Order>): ToolWord { return
 *   row?.ownerId === actor.id || { rule: 'orders: own rows', reason: 'The order belongs to another
 *   user.' }; }
 *
 *   override rows({ actor }: RunContext<User>): JsonObject {
 *     return { region: { eq: actor.region } };
 *   }
 * }
 */
export abstract class ResourcePolicy<Actor = RegisteredActor, Row extends object = object> {
  /** The version of its rules, for the record. */
  abstract readonly version: string;

  /** Tells whether the actor may read rows at all. Anything but `true` denies. */
  abstract canRead(run: RunContext<Actor>): ToolWord | Promise<ToolWord>;

  /**
   * Tells whether the actor may make a write: without a row and values as such, with them this one.
   * Anything but `true` denies.
   */
  abstract canWrite(
    run: RunContext<Actor>,
    write: ResourceWrite<Row>,
  ): ToolWord | Promise<ToolWord>;

  /**
   * Returns the rows that exist for the actor, as a filter in which every field of the entity may
   * be named: others are neither read nor written, and a write may not make one of them. An empty
   * filter, `and` or `or` is a mistake, and denies the call: for no rows, use an `in` without
   * values. @default all rows of the tenant
   */
  rows(_run: RunContext<Actor>): JsonObject | undefined | Promise<JsonObject | undefined> {
    return undefined;
  }

  /**
   * Returns the fields that the actor may read and write. @default all that the resource declares
   */
  fields(_run: RunContext<Actor>): FieldRules | Promise<FieldRules> {
    return {};
  }
}

/** A write that an actor asks for. */
export interface ResourceWrite<Row extends object = object> {
  readonly action: 'create' | 'update' | 'destroy';
  /** The row as it is, of an update or a destroy whose row is known. */
  readonly row?: Row;
  /**
   * The values by their fields, of a create or an update whose input is known; a relation is the
   * key of its row.
   */
  readonly values?: Readonly<Record<string, unknown>>;
}

/** The fields that an actor may read and write. What is left out is not narrowed. */
export interface FieldRules {
  /** The fields and relations that may be returned, filtered by, sorted by and aggregated. */
  readonly read?: readonly string[];
  /** The fields and relations that may be in the input of a write. */
  readonly write?: readonly string[];
}
