import type { Type } from '@nestjs/common';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import type { Module } from '@nestjs/core/injector/module.js';
import type { Finding } from '@toolloop/protocol';
import { ModuleTools } from '../decorators/module-tools.js';
import { providerOptionsOf } from '../decorators/tool-metadata.js';
import type { PlacedProvider } from './repeated-providers.js';
import { namespaceOf } from './tool-names.js';

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
