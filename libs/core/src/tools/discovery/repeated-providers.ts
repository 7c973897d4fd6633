import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Module } from '@nestjs/core/injector/module.js';
import type { Finding } from '@toolloop/protocol';
import { ModuleTools } from '../decorators/module-tools.js';
import { providerOptionsOf } from '../decorators/tool-metadata.js';
import { namespaceOf } from './tool-names.js';

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

/** Returns the first part of the ids of a class's tools in the module that provides it. */
export function namespaceIn(type: Type, wrapper: Pick<InstanceWrapper, 'host'>): string {
  const { namespace } = wordOfModule(type, wrapper) ?? {};
  return isNamespace(namespace) ? namespace : namespaceOf(type, providerOptionsOf(type) ?? {});
}

/** Returns whether the module of a provider leaves its tools in. */
export function isNotOmitted({
  type,
  wrapper,
}: {
  readonly type: Type;
  readonly wrapper: Pick<InstanceWrapper, 'host'>;
}): boolean {
  return wordOfModule(type, wrapper)?.isOmitted !== true;
}

function wordOfModule(
  type: Type,
  { host }: Pick<InstanceWrapper, 'host'>,
): ModuleTools | undefined {
  return wordsOf(host).findLast((word) => word.type === type);
}

function wordsOf(module: Module | undefined): readonly ModuleTools[] {
  return [...(module?.providers.values() ?? [])].flatMap(({ instance }) =>
    instance instanceof ModuleTools ? [instance] : [],
  );
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

/** Finds words of modules on classes that they do not provide, and those that give no namespace. */
export function wordFindings(
  modules: Iterable<Module>,
  providers: readonly PlacedProvider[],
): Finding[] {
  return [...modules].flatMap((module) =>
    wordsOf(module).flatMap((word) => {
      const isProvided = providers.some(
        ({ type, wrapper }) => type === word.type && wrapper.host === module,
      );
      return wordFinding(module.metatype.name, word, isProvided) ?? [];
    }),
  );
}

function wordFinding(at: string, word: ModuleTools, isProvided: boolean): Finding | undefined {
  const { name } = word.type;
  const said = word.isOmitted ? 'omitTools' : 'namespaceTools';
  if (!isProvided) {
    const problem = `Among its providers is ${said}() for ${name}, which it does not provide as a class with tools.`;
    return { at, problem, remedy: `List ${name} beside it, or move it to the module that does.` };
  }
  if (word.isOmitted || isNamespace(word.namespace)) return undefined;
  return {
    at,
    problem: `Its namespaceTools() for ${name} gives no namespace.`,
    remedy: 'Give a text, or a factory that returns one.',
  };
}

function isNamespace(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
