import type { EntityModel, ResourceField } from './entity-model.js';
import type { ResourceSession } from './resource-gateway.js';

/** Rows that are asked for. */
export interface ResourceQuery {
  readonly where: Condition;
  readonly order: readonly ResourceOrder[];
  readonly limit: number;
  readonly offset: number;
  /** The fields and to-one relations that are read; all that are not lazy where it is left out. */
  readonly fields?: readonly string[];
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
