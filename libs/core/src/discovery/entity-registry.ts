import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Finding } from '@toolloop/protocol';
import type { EntityContext, Rehydrate, ToolRehydration } from '../contracts/tool.js';
import { methodNamesOf, providerOptionsOf, resolvedEntityOf } from '../decorators/tool-metadata.js';
import { classOf } from '../schema/exposed-properties.js';
import { callMethod } from '../schema/tool-input.js';
import { classOfProvider, type ProviderInstances } from './provider-instances.js';
import type { ToolTemplate } from './tool-template.js';

/** A class whose instances bring tools with them. */
export interface EntityDefinition {
  readonly type: Type;
  /** The module classes whose features name it. */
  readonly modules?: readonly Type[];
  readonly prefix: string;
  readonly idProperty: IdProperty;
  /** The property or method that says whose an instance is, where there is one. */
  readonly tenantProperty?: string;
  /** The way an instance is found again; absent if it never is. */
  readonly rehydration?: {
    readonly when: Exclude<Rehydrate, 'never'>;
    readonly lookup: EntityLookup;
  };
  readonly tools: readonly EntityTool[];
  /** Longest instance id for which every tool's id stays within 64 characters. */
  readonly maxIdLength: number;
}

export interface EntityTool {
  readonly name: string;
  readonly template: ToolTemplate;
}

/** The entity classes of the application, by class. Fixed at bootstrap. */
export class EntityRegistry {
  private readonly byType: ReadonlyMap<object, EntityDefinition>;
  /** The classes of instances by their prototype: a result of many rows is of few. */
  private readonly classes = new WeakMap<object, EntityDefinition | 'unknown' | 'none'>();

  constructor(readonly definitions: readonly EntityDefinition[]) {
    this.byType = new Map(definitions.map((definition) => [definition.type, definition]));
  }

  /** Two classes may have one name, but never one prefix. */
  withPrefix(prefix: string): EntityDefinition | undefined {
    return this.definitions.find((definition) => definition.prefix === prefix);
  }

  /** The definition of an object's class, or of the nearest class it inherits from. */
  find(instance: object): EntityDefinition | undefined {
    const found = this.classOf(instance);
    return typeof found === 'object' ? found : undefined;
  }

  /** Returns whether an object's class is marked `@ToolProvider()` but unknown here. */
  isUnknownProvider(instance: object): boolean {
    return this.classOf(instance) === 'unknown';
  }

  private classOf(instance: object): EntityDefinition | 'unknown' | 'none' {
    const prototype = Reflect.getPrototypeOf(instance) ?? Object.prototype;
    const known = this.classes.get(prototype);
    if (known) return known;
    let found: EntityDefinition | undefined;
    for (
      let level: object | null = prototype;
      level && !found;
      level = Reflect.getPrototypeOf(level)
    )
      found = this.byType.get(level.constructor);
    const kind = found ?? (providerOptionsOf(classOf(instance) ?? Object) ? 'unknown' : 'none');
    this.classes.set(prototype, kind);
    return kind;
  }
}

/** An instance's id as text; undefined when it has none. */
export function instanceIdOf(definition: EntityDefinition, instance: object): string | undefined {
  return instanceIdIn(instance, definition.idProperty);
}

/**
 * Returns whether an instance is known to be another tenant's. An instance without a tenant, whose
 * class has the property, belongs to none.
 */
export function isForeign(
  { tenantProperty }: EntityDefinition,
  instance: object,
  tenant: string,
): boolean {
  return tenantProperty !== undefined && memberOf(instance, tenantProperty) !== tenant;
}

/** Returns the value of a property, or of a method of that name. */
function memberOf(instance: object, property: string): unknown {
  const member: unknown = Reflect.get(instance, property);
  return typeof member === 'function' ? Reflect.apply(member, instance, []) : member;
}

/** Asks the application for an instance; what it answers is not looked at yet. */
export type EntityLookup = (instanceId: string, context: EntityContext) => Promise<unknown>;

/** The resolvers of the application, by entity class. */
export interface FoundResolvers {
  readonly lookups: ReadonlyMap<Type, EntityLookup>;
  readonly findings: readonly Finding[];
}

/** Finds the resolver of each entity class among the providers of every module. */
export function findResolvers(
  wrappers: readonly InstanceWrapper<object>[],
  instances: ProviderInstances,
): FoundResolvers {
  const lookups = new Map<Type, EntityLookup>();
  const places = new Map<Type, Type>();
  const findings: Finding[] = [];
  const classes = wrappers.map((wrapper) =>
    wrapper.isAlias ? undefined : classOfProvider(wrapper),
  );
  const services = new Set(classes);
  for (const [index, wrapper] of wrappers.entries()) {
    const type = classes[index];
    const marked = type && resolvedEntityOf(type);
    if (!type || !marked) continue;
    const { entity } = marked;
    const wrong = resolverFindings(type, entity, {
      taken: entity && places.get(entity),
      isService: services.has(entity),
    });
    findings.push(...wrong);
    if (!entity || wrong.length > 0) continue;
    places.set(entity, type);
    lookups.set(entity, async (instanceId, context) =>
      callMethod(await instances.resolve(wrapper, context), 'resolve', [instanceId, context]),
    );
  }
  return { lookups, findings };
}

/** `taken` resolves the class already; the same class in two modules is two providers too. */
function resolverFindings(
  type: Type,
  entity: Type | undefined,
  { taken, isService }: { readonly taken: Type | undefined; readonly isService: boolean },
): Finding[] {
  const at = type.name;
  if (entity === undefined)
    return [
      {
        at,
        problem: 'It resolves undefined, most likely because files import each other in a circle.',
        remedy: 'Break the circle: let the entity import only the type of the resolver.',
      },
    ];
  if (!providerOptionsOf(entity))
    return [
      {
        at,
        problem: `It resolves ${entity.name}, which is not a provider of tools.`,
        remedy: `Mark ${entity.name} @ToolProvider(), or remove it.`,
      },
    ];
  if (isService)
    return [
      {
        at,
        problem: `It resolves ${entity.name}, which is a service and needs no resolver.`,
        remedy: `Take ${entity.name} out of the providers, or remove it.`,
      },
    ];
  if (!methodNamesOf(type).includes('resolve'))
    return [
      {
        at,
        problem: 'It has no method "resolve".',
        remedy: 'Extend EntityResolver, which says what is missing.',
      },
    ];
  if (!taken) return [];
  const problem =
    taken === type
      ? `It is a provider of several modules`
      : `${taken.name} resolves ${entity.name} too`;
  return [
    {
      at,
      problem: `${problem}, so it is unclear which one to ask.`,
      remedy: 'Keep one: export it, and import its module elsewhere.',
    },
  ];
}

/** The property or method that identifies an instance, or several that do together. */
export type IdProperty = string | readonly string[];

/**
 * An instance's id as text; undefined when it has none. A text stands as it is, and a number as its
 * digits. Several values, in a list or in a plain object, are their JSON without spaces, an
 * object's names in order: `["o-1",3]`, `{"line":3,"order":"o-1"}`.
 */
export function instanceIdIn(instance: object, idProperty: IdProperty): string | undefined {
  if (typeof idProperty !== 'string')
    return listText(idProperty.map((name) => valueOf(instance, name)));
  const value = plainOf(valueOf(instance, idProperty));
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (typeof value === 'number' || typeof value === 'bigint') return partText(value);
  if (Array.isArray(value)) return listText(value);
  return isPlainObject(value) ? objectText(value) : undefined;
}

/** Describes the identity of an instance, for people and models. */
export function idWords(idProperty: IdProperty): string {
  if (typeof idProperty === 'string') return `its ${idProperty}`;
  return `its ${idProperty.join(' and ')} as a JSON list, such as ${JSON.stringify(idProperty.map(() => '…'))}`;
}

function valueOf(instance: object, name: string): unknown {
  const member: unknown = Reflect.get(instance, name);
  return typeof member === 'function' ? Reflect.apply(member, instance, []) : member;
}

/** Ids of databases are objects that say themselves as JSON. */
function plainOf(value: unknown): unknown {
  if (
    typeof value !== 'object' ||
    value === null ||
    !('toJSON' in value) ||
    typeof value.toJSON !== 'function'
  )
    return value;
  const said: unknown = Reflect.apply(value.toJSON, value, []);
  return said;
}

function listText(values: readonly unknown[]): string | undefined {
  const parts = values.map(partText);
  return parts.length > 0 && !parts.includes(undefined) ? `[${parts.join(',')}]` : undefined;
}

function objectText(value: object): string | undefined {
  const parts = Object.entries(value).map(([name, part]: [string, unknown]) => ({
    name: JSON.stringify(name),
    text: partText(part),
  }));
  if (parts.length === 0 || parts.some(({ text }) => text === undefined)) return undefined;
  const sorted = parts.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return `{${sorted.map(({ name, text }) => `${name}:${text}`).join(',')}}`;
}

/** JSON of a scalar; undefined for what identifies nothing. */
function partText(value: unknown): string | undefined {
  const plain = plainOf(value);
  if (typeof plain === 'bigint') return String(plain);
  if (typeof plain === 'number') return Number.isFinite(plain) ? String(plain) : undefined;
  return typeof plain === 'string' || typeof plain === 'boolean'
    ? JSON.stringify(plain)
    : undefined;
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Reflect.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/**
 * The instance behind the tools of one entity in one run: the one that a tool returned, or one that
 * is found when a tool of it is called.
 */
export class HeldInstance {
  private found: object | undefined;

  constructor(
    private readonly definition: EntityDefinition,
    private readonly instanceId: string,
    /** Absent in a resumed run until it was looked up. */
    readonly live?: object,
  ) {}

  /** The same for all that is held of one instance. */
  get key(): string {
    return JSON.stringify([this.definition.prefix, this.instanceId]);
  }

  /** Returns the instance on which tools are called without a look-up. */
  get instance(): object {
    if (this.live) return this.live;
    throw new TypeError(`A ${this.definition.type.name} was called before it was found.`);
  }

  /** Returns the look-up before a call; undefined if the returned instance itself is called. */
  get lookUp(): ToolRehydration['lookUp'] | undefined {
    const { rehydration } = this.definition;
    if (!rehydration) return undefined;
    if (rehydration.when === 'always') return (context) => this.asked(context);
    return this.live ? undefined : async (context) => (this.found ??= await this.asked(context));
  }

  /** Throws `ForeignEntityError` for an instance that is not the one asked for. */
  private async asked(context: EntityContext): Promise<object | undefined> {
    const { definition, instanceId } = this;
    const found: unknown = await definition.rehydration?.lookup(instanceId, context);
    if (found === undefined || found === null) return undefined;
    const { name } = definition.type;
    if (!(found instanceof definition.type))
      throw new ForeignEntityError(name, 'no instance of it');
    if (instanceIdOf(definition, found) !== instanceId)
      throw new ForeignEntityError(name, 'an instance with another id');
    if (isForeign(definition, found, context.tenant))
      throw new ForeignEntityError(name, "another tenant's instance");
    return found;
  }
}

/**
 * A resolver gave another instance than it was asked for: a mistake of the application, of which
 * the model learns nothing.
 */
export class ForeignEntityError extends Error {
  override readonly name = 'ForeignEntityError';

  /** Names the class and what is wrong, never a value. */
  constructor(entity: string, what: string) {
    super(`The resolver of ${entity} gave ${what}. It was not called.`);
  }
}
