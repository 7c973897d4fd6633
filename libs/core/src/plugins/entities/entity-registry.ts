import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Finding } from '@toolloop/protocol';
import type { EntityContext, Rehydrate } from '../../contracts/entity.js';
import { callMethod } from '../../schema/call-arguments.js';
import { classOf } from '../../schema/exposed-properties.js';
import {
  methodNamesOf,
  providerOptionsOf,
  resolvedEntityOf,
} from '../../tools/decorators/tool-metadata.js';
import type { ToolTemplate } from '../../tools/discovery/tool-template.js';
import { classOfProvider } from '../../tools/nest/provider-classes.js';
import type { ProviderInstances } from '../../tools/nest/provider-instances.js';
import type { IdProperty } from './instance-id.js';

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
