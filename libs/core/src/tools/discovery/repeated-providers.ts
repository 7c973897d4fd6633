import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Finding } from '@toolloop/protocol';

/**
 * The providers whose tools have ids of their own, and a finding for each class with several
 * instances of the same ids.
 */
export function withoutRepeated<Provider extends PlacedProvider>(
  providers: readonly Provider[],
): { readonly providers: readonly Provider[]; readonly findings: readonly Finding[] } {
  const repeated = providers.filter(
    (provider, index) => providers.findIndex((other) => hasTheIdsOf(provider, other)) < index,
  );
  const types = [...new Set(repeated.map(({ type }) => type))];
  const findings = types.map((type) =>
    repeatedFinding(
      type,
      providers.filter((provider) => provider.type === type),
    ),
  );
  return { providers: providers.filter((provider) => !repeated.includes(provider)), findings };
}

/** A class with tools, in one of the modules that provide it. */
export interface PlacedProvider {
  readonly type: Type;
  readonly wrapper: InstanceWrapper<object>;
  /** The first part of the ids of its tools, as its class or its module says. */
  readonly namespace: string;
}

function hasTheIdsOf(one: PlacedProvider, other: PlacedProvider): boolean {
  return one.type === other.type && one.namespace === other.namespace;
}

/**
 * The finding for a raw tool of a class that has several instances; undefined if there is one.
 * `name` is that of the class.
 */
export function repeatedRawFinding(
  name: string,
  wrappers: readonly InstanceWrapper<object>[],
): Finding | undefined {
  if (wrappers.length < 2) return undefined;
  return {
    at: name,
    problem: `${whoProvides(wrappers)}, each with an instance of its own, and the tool can be of one alone.`,
    remedy: `Provide ${name} in one module that exports it; or make a tool of each instance: rawTool(new ${name}(…), { as }).`,
  };
}

/** Names the modules that provide a class. */
function whoProvides(wrappers: readonly Pick<InstanceWrapper, 'host'>[]): string {
  const modules = [...new Set(wrappers.flatMap(({ host }) => host?.metatype.name ?? []))];
  const times = modules.length < wrappers.length ? ` ${wrappers.length} times` : '';
  return `${modules.join(' and ')} ${modules.length > 1 ? 'provide' : 'provides'} it${times}`;
}

function repeatedFinding({ name }: Type, group: readonly PlacedProvider[]): Finding {
  return {
    at: name,
    problem: `${whoProvides(group.map(({ wrapper }) => wrapper))}, each with an instance of its own, and their tools have the same ids.`,
    remedy:
      `Provide it in one module that exports it; or give its tools another namespace in the module, [${name}, namespaceTools(${name}, '…')]; ` +
      `or leave them out there, [${name}, omitTools(${name})].`,
  };
}
