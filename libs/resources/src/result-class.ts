import type { Type } from '@nestjs/common';
import type { ToolFieldOptions } from '@toolloop/core/catalog';
import { describeFields } from '@toolloop/core/internal';
import { Expose, Type as TypeOf } from 'class-transformer';

/**
 * Makes the class of a result, whose rows are projected by what the entity exposes. No one outside
 * can have said anything in the parts that are `ours`.
 */
export function resultClass(
  entity: Type,
  name: string,
  parts: ResultParts,
  ours: readonly string[],
): Type {
  const type = class {
    declare readonly rows?: readonly object[];
  };
  Object.defineProperty(type, 'name', { value: `${entity.name}${name}` });
  Expose()(type.prototype, 'rows');
  TypeOf(() => entity)(type.prototype, 'rows');
  for (const [part, kind] of Object.entries(parts)) {
    Expose()(type.prototype, part);
    Reflect.defineMetadata('design:type', kind, type.prototype, part);
  }
  const described = ['rows', ...Object.keys(parts)].map(
    (part) =>
      [part, ours.includes(part) ? { ...CHOSEN, origin: 'application' as const } : CHOSEN] as const,
  );
  describeFields(type, new Map(described));
  return type;
}

/** The properties of a result beside its rows, with their types. */
type ResultParts = Readonly<
  Record<string, typeof Number | typeof String | typeof Boolean | typeof Object>
>;

/** A part of a result that the application, or the call, leaves out where it is not there. */
const CHOSEN: ToolFieldOptions = { absence: 'application' };

/** Makes a result of such a class. */
export function resultOf(type: Type, values: object): object {
  const result: object = Reflect.construct(Object, [], type);
  return Object.assign(result, values);
}
