import { types } from 'node:util';
import type { Type } from '@nestjs/common';
import {
  classOf,
  exposedPropertiesOf,
  findUnready,
  hiddenPropertiesOf,
  providerOptionsOf,
} from '@toolloop/core/internal';
import { isRecord } from '@toolloop/protocol';
import { fromKept } from './filter.js';
import type { EntityModel } from './entity-model.js';

/**
 * A result as it is kept beside the mark of its call: its values, and the places at which they were
 * instances of classes.
 */
export interface KeptResult<Result = unknown> {
  /** As JSON has it. */
  readonly value: Result;
  readonly instances: readonly KeptInstance[];
}

interface KeptInstance {
  readonly path: readonly (string | number)[];
  /** The name of the class. */
  readonly type: string;
}

/**
 * Tells whether a part of a result is one that its row was read without, such as a collection that
 * was not loaded.
 */
type IsMissing = (value: unknown) => boolean;

/**
 * Makes a copy of what a tool of the application returns, to be kept beside the mark of its call.
 * Of an instance it has the properties that its class exposes to anyone, those by which its own
 * tools know it, and of a row every column that the ORM does not hide.
 *
 * @throws {Error} For an object that it is itself a part of.
 */
export function keepResult<Result>(
  value: Result,
  models: readonly EntityModel[],
  isMissing: IsMissing,
): KeptResult<Result>;
export function keepResult(
  value: unknown,
  models: readonly EntityModel[],
  isMissing: IsMissing,
): KeptResult {
  const copy = new ResultCopy(models, isMissing);
  return { value: copy.of(value, []), instances: copy.instances };
}

class ResultCopy {
  readonly instances: KeptInstance[] = [];
  private readonly within: object[] = [];

  constructor(
    private readonly models: readonly EntityModel[],
    private readonly isMissing: IsMissing,
  ) {}

  of(value: unknown, path: KeptInstance['path']): unknown {
    if (typeof value !== 'object' || value === null) return value;
    if (this.isMissing(value)) return undefined;
    if (isForStore(value)) return value;
    if (this.within.includes(value))
      throw new Error(
        `What is returned is a part of itself at "${path.join('.')}". Return a plain object.`,
      );
    this.within.push(value);
    const copy = this.copied(value, path);
    this.within.pop();
    return copy;
  }

  private copied(value: object, path: KeptInstance['path']): unknown {
    if (types.isMap(value))
      return Object.fromEntries(
        [...value].map(([key, one]) => [String(key), this.of(one, [...path, String(key)])]),
      );
    const type = ownClassOf(value);
    const exposed = type ? this.namesOf(type) : [];
    if (exposed.length === 0 && isIterable(value))
      return [...value].map((one, index) => this.of(one, [...path, index]));
    if (type) this.instances.push({ path, type: type.name });
    const names = exposed.length > 0 ? exposed : plainNamesOf(value, type);
    return Object.fromEntries(
      names.map((name) => [name, this.of(Reflect.get(value, name), [...path, name])]),
    );
  }

  /** The properties of a class that are kept; none of a class that exposes nothing. */
  private namesOf(type: Type): readonly string[] {
    const exposed = exposedBy(type);
    const model = this.models.find(({ entity }) => entity === type);
    if (!model) return exposed;
    const columns = [...model.fields.values()]
      .filter(({ hidden }) => !hidden)
      .map(({ name }) => name);
    return [...new Set([...exposed, ...columns])];
  }
}

/**
 * Tells whether the store makes JSON of a value by itself, or refuses it and says why: a date, a
 * decimal, a stream.
 */
export function isForStore(value: object): boolean {
  if (types.isDate(value) || findUnready(value)) return true;
  const type = ownClassOf(value);
  const json: unknown =
    type && exposedBy(type).length === 0 ? Reflect.get(value, 'toJSON') : undefined;
  return typeof json === 'function' && typeof Reflect.apply(json, value, []) !== 'object';
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

/** The class of an instance; undefined for an object that has none. */
function ownClassOf(value: object): Type | undefined {
  const prototype = Reflect.getPrototypeOf(value);
  const isPlain = prototype === null || Reflect.getPrototypeOf(prototype) === null;
  return isPlain ? undefined : classOf(value);
}

/**
 * The properties that a class exposes to anyone, and those by which its own tools know an instance.
 */
function exposedBy(type: Type): readonly string[] {
  const exposed = exposedPropertiesOf(type).filter(({ method }) => !method);
  const provider = providerOptionsOf(type);
  if (exposed.length === 0 || !provider) return exposed.map(({ property }) => property);
  const { instanceIdProperty = 'id', tenantProperty = [] } = provider;
  return [
    ...new Set([
      ...exposed.map(({ property }) => property),
      ...[instanceIdProperty, tenantProperty].flat(),
    ]),
  ];
}

/** The properties of an object that a result shows: those that its class exposes, or all. */
export function shownNamesOf(value: object): readonly string[] {
  const type = ownClassOf(value);
  const exposed = type ? exposedBy(type) : [];
  return exposed.length > 0 ? exposed : plainNamesOf(value, type);
}

/**
 * The properties of an object whose class exposes nothing: it is projected by another class, or by
 * names.
 */
function plainNamesOf(value: object, type: Type | undefined): readonly string[] {
  const hidden = type && hiddenPropertiesOf(type, 'model');
  return Object.keys(value).filter((name) => !hidden?.has(name));
}

/**
 * Makes a result of one that was kept: its instances are instances again, so that it is described
 * as it was the first time.
 */
export function restoreResult<Result>(
  kept: KeptResult<Result>,
  models: readonly EntityModel[],
): Result;
export function restoreResult(
  { value, instances }: KeptResult,
  models: readonly EntityModel[],
): unknown {
  const classes = new Map(instances.map(({ path, type }) => [pathKey(path), type]));
  return new Restoring(classes, models).of(value, []);
}

class Restoring {
  constructor(
    private readonly classes: ReadonlyMap<string, string>,
    private readonly models: readonly EntityModel[],
  ) {}

  of(value: unknown, path: KeptInstance['path']): unknown {
    if (Array.isArray(value))
      return value.map((one: unknown, index) => this.of(one, [...path, index]));
    if (!isRecord(value)) return value;
    const type = this.classes.get(pathKey(path));
    const [model, ...others] =
      type === undefined ? [] : this.models.filter(({ entity }) => entity.name === type);
    const known = others.length === 0 ? model : undefined;
    const instance: object =
      type === undefined ? {} : known ? instanceOf(known.entity) : new KeptObject();
    for (const [name, one] of Object.entries(value))
      define(instance, name, asRead(known, name, this.of(one, [...path, name])));
    return instance;
  }
}

/**
 * An instance of a class of the application that no one can find by its name. It exposes nothing,
 * so the declared class alone shows anything of it.
 */
class KeptObject {
  declare readonly kept: true;
}

/** An instance of a class, which is not run. */
function instanceOf(entity: Type): object {
  const instance: object = Reflect.construct(Object, [], entity);
  return instance;
}

/** Sets a property, also where the class has a getter of the name. */
function define(instance: object, name: string, value: unknown): void {
  Object.defineProperty(instance, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

/** A moment is a date again. */
function asRead(model: EntityModel | undefined, name: string, value: unknown): unknown {
  const field = model?.fields.get(name);
  return field?.kind === 'datetime' ? (fromKept(field, value) ?? value) : value;
}

function pathKey(path: KeptInstance['path']): string {
  return JSON.stringify(path.map(String));
}
