import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { methodNamesOf, providerOptionsOf, resolvedEntityOf } from '../decorators/tool-metadata.accessor.js';
import type { EntityContext } from '../protocol/entity-resolver.js';
import type { Finding } from '../protocol/errors.js';
import { callNamed } from './named-call.js';
import { classOfProvider } from './provider-classes.js';
import type { ProviderInstances } from './provider.instances.js';

/** Asks the application for an instance; what it answers is not looked at yet. */
export type EntityLookup = (instanceId: string, context: EntityContext) => Promise<unknown>;

/** The resolvers of the application, by entity class. */
export interface FoundResolvers {
  readonly lookups: ReadonlyMap<Type, EntityLookup>;
  readonly findings: readonly Finding[];
}

/** Finds the resolver of each entity class among the providers of every module. */
export function findResolvers(wrappers: readonly InstanceWrapper<object>[], instances: ProviderInstances): FoundResolvers {
  const lookups = new Map<Type, EntityLookup>();
  const places = new Map<Type, Type>();
  const findings: Finding[] = [];
  const classes = wrappers.map((wrapper) => (wrapper.isAlias ? undefined : classOfProvider(wrapper)));
  const services = new Set(classes);
  for (const [index, wrapper] of wrappers.entries()) {
    const type = classes[index];
    const marked = type && resolvedEntityOf(type);
    if (!type || !marked) continue;
    const { entity } = marked;
    const wrong = resolverFindings(type, entity, { taken: entity && places.get(entity), isService: services.has(entity) });
    findings.push(...wrong);
    if (!entity || wrong.length > 0) continue;
    places.set(entity, type);
    lookups.set(entity, async (instanceId, context) =>
      callNamed(await instances.resolve(wrapper, context), 'resolve', [instanceId, context]),
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
    return [{ at, problem: 'It has no method "resolve".', remedy: 'Extend EntityResolver, which says what is missing.' }];
  if (!taken) return [];
  const problem = taken === type ? `It is a provider of several modules` : `${taken.name} resolves ${entity.name} too`;
  return [
    { at, problem: `${problem}, so it is unclear which one to ask.`, remedy: 'Keep one: export it, and import its module elsewhere.' },
  ];
}
