import type { Type } from '@nestjs/common';
import type { IntegerRange } from './integer-range.js';

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
  /** The numbers that an integer may be. Absent if the type of its column does not say. */
  readonly range?: IntegerRange;
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
