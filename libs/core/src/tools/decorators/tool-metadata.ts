import type { Type } from '@nestjs/common';
import { decoratedMembersOf } from './decorated-members.js';
import { LLM_TOOL_METADATA, type LlmToolOptions } from './llm-tool.decorator.js';
import { TOOL_PARAMETERS_METADATA, type ToolParameter } from './tool-parameters.decorator.js';
import {
  ENTITY_RESOLVER_METADATA,
  TOOL_PROVIDER_METADATA,
  type ToolProviderOptions,
} from './tool-provider.decorator.js';

/**
 * A method as its decorators describe it. `options` is absent where parameters are decorated and
 * the method is not.
 */
export interface ToolMethod {
  readonly property: string;
  readonly options: LlmToolOptions | undefined;
  readonly parameters: readonly ToolParameter[];
  /**
   * The types that the compiler recorded; it differs between compilers, so explicit options win.
   */
  readonly designTypes: readonly unknown[];
}

/**
 * The options of a class marked `@ToolProvider()`, its own or inherited; undefined for other
 * classes.
 */
export function providerOptionsOf(type: object): ToolProviderOptions | undefined {
  return Reflect.getMetadata(TOOL_PROVIDER_METADATA, type) as ToolProviderOptions | undefined;
}

/**
 * Returns the class that a class marked `@ToolEntityResolver()` resolves; `entity` is undefined if
 * files import each other in a circle.
 */
export function resolvedEntityOf(type: object): { readonly entity: Type | undefined } | undefined {
  return Reflect.getMetadata(ENTITY_RESOLVER_METADATA, type) as
    { readonly entity: Type | undefined } | undefined;
}

/**
 * Tells whether a class, or one that it inherits from, has a method or a static member with a
 * decorator of ours.
 */
export function hasDecoratedMembers(type: Type): boolean {
  return [...chainOf(type.prototype as object | null), ...chainOf(type)].some(
    (level) => decoratedMembersOf(level).length > 0,
  );
}

/**
 * Every method of a class that carries a decorator of ours, inherited and overridden ones included,
 * in the order of declaration.
 */
export function toolMethodsOf(type: Type): ToolMethod[] {
  const prototype = type.prototype as object;
  const decorated = new Set(chainOf(prototype).flatMap(decoratedMembersOf));
  if (decorated.size === 0) return [];
  return methodNamesOf(type).flatMap((property) => {
    if (!decorated.has(property)) return [];
    const options = Reflect.getMetadata(LLM_TOOL_METADATA, prototype, property) as
      LlmToolOptions | undefined;
    const parameters = (Reflect.getMetadata(TOOL_PARAMETERS_METADATA, prototype, property) ??
      []) as ToolParameter[];
    if (!options && parameters.length === 0) return [];
    const designTypes = (Reflect.getMetadata('design:paramtypes', prototype, property) ??
      []) as unknown[];
    return [
      {
        property,
        options,
        parameters: parameters.toSorted((a, b) => a.index - b.index),
        designTypes,
      },
    ];
  });
}

/**
 * Returns the names of the methods that a class and those it inherits from define for their
 * instances, each once.
 */
export function methodNamesOf(type: Type): string[] {
  const names = chainOf(type.prototype as object | null).flatMap((level) =>
    Object.getOwnPropertyNames(level),
  );
  return [...new Set(names)].filter((name) => name !== 'constructor');
}

/** Returns a prototype, or a class, and those it inherits from, the topmost first. */
export function chainOf(from: object | null): object[] {
  const chain: object[] = [];
  for (let level = from; level && !ROOTS.has(level); level = Reflect.getPrototypeOf(level))
    chain.unshift(level);
  return chain;
}

const ROOTS: ReadonlySet<object> = new Set([Object.prototype, Function.prototype]);
