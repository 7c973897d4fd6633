import type { Type } from '@nestjs/common';
import { type Finding, isObject } from '@toolloop/protocol';
import { decoratedMembersOf } from '../decorators/decorated-members.js';
import { LLM_TOOL_METADATA, REPEATED_METADATA } from '../decorators/llm-tool.decorator.js';
import { chainOf } from '../decorators/tool-metadata.js';
import type { ToolProviderOptions } from '../decorators/tool-provider.decorator.js';

/** The form of a tool's name that every provider accepts. */
export const SAFE_TOOL_ID = /^[a-zA-Z0-9_-]{1,64}$/;
export const TOOL_ID_LENGTH = 64;
export const SAFE_PREFIX = /^[a-zA-Z][a-zA-Z0-9]*$/;

/** An id, and where the tool that has it is declared. */
export interface TakenId {
  readonly declaredId: string;
  readonly at: string;
}

/**
 * The form in which ids are compared: two that differ only in case are taken for one another, by
 * people and by systems that ignore case.
 */
export function foldedId(id: string): string {
  return id.toLowerCase();
}

/** Describes an id that is also another tool's, or differs from it only in case. */
export function sharedIdProblem(declaredId: string, taken: TakenId): string {
  return taken.declaredId === declaredId
    ? `Its id "${declaredId}" is also the id of ${taken.at}.`
    : `Its id "${declaredId}" differs only in case from "${taken.declaredId}", the id of ${taken.at}.`;
}

/**
 * The first part of a service tool's id: `CustomerTools` → `customer`, `OrderDeskService` →
 * `order_desk`.
 */
export function namespaceOf(type: Type, options: ToolProviderOptions): string {
  return options.namespace ?? snakeCase(type.name.replace(/(?<=.)(Tools|Service|Controller)$/, ''));
}

/** The first part of an entity tool's id. */
export function prefixOf(type: Type, options: ToolProviderOptions): string {
  return options.prefix ?? type.name.toLowerCase();
}

function snakeCase(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1_$2')
    .toLowerCase();
}

/**
 * Every `@LlmTool()` of a class that nothing would ever read: on a static method, on one named by a
 * symbol, on a getter or a setter.
 */
export function misplacedFindings(type: Type): Finding[] {
  const prototype: unknown = type.prototype;
  return [...staticFindings(type), ...(isObject(prototype) ? memberFindings(type, prototype) : [])];
}

function staticFindings(type: Type): Finding[] {
  return decoratedKeysOf(type).map(({ key }) => ({
    at: `${type.name}.${String(key)}`,
    problem: 'It is static, and tools are methods of an instance.',
    remedy: 'Remove `static`.',
  }));
}

function memberFindings(type: Type, prototype: object): Finding[] {
  return decoratedKeysOf(prototype).flatMap(({ key, level }) => {
    const at = `${type.name}.${String(key)}`;
    if (typeof key === 'symbol')
      return [
        {
          at,
          problem: 'It is named by a symbol, which no model can call.',
          remedy: 'Give the method a name that is text.',
        },
      ];
    if (Reflect.hasOwnMetadata(REPEATED_METADATA, level, key))
      return [
        {
          at,
          problem: 'It has two @LlmTool()s, of which one would never be read.',
          remedy: 'Remove one, or write a method for each.',
        },
      ];
    const isMethod = typeof Reflect.getOwnPropertyDescriptor(level, key)?.value === 'function';
    return isMethod
      ? []
      : [{ at, problem: 'It is not a method.', remedy: 'Make it a method, or remove @LlmTool().' }];
  });
}

/**
 * The keys that carry the decorator, of an object and of those it inherits from, each with the one
 * that has it.
 */
function decoratedKeysOf(
  start: object,
): { readonly key: string | symbol; readonly level: object }[] {
  return chainOf(start).flatMap((level) =>
    [...new Set(decoratedMembersOf(level))]
      .filter((key) => Reflect.hasOwnMetadata(LLM_TOOL_METADATA, level, key))
      .map((key) => ({ key, level })),
  );
}
