import type { Type } from '@nestjs/common';
import type { ToolSpec } from '@toolloop/protocol';
import type { ToolSelector } from '../contracts/tool-selector.js';
import type { Tool } from '../contracts/tool.js';
import { isClassOrBelow } from '../tools/nest/provider-classes.js';
import { isGlob, matchesGlob } from './glob.js';

/**
 * Tells whether a selector includes an entry. A class includes its subclasses' tools too, a module
 * those that it contributes itself.
 */
export function selects(
  selector: ToolSelector,
  {
    tool,
    shortName,
    ...classes
  }: Pick<CatalogEntry, 'type' | 'modules' | 'shortName'> & { readonly tool: Pick<Tool, 'spec'> },
): boolean {
  const { declaredId } = tool.spec;
  if (typeof selector === 'string')
    return isGlob(selector)
      ? matchesGlob(selector, declaredId)
      : [declaredId, shortNameOf(declaredId), shortName].includes(selector);
  if (isToolPredicate(selector)) return selector(tool.spec);
  return isByClass(selector, classes);
}

/**
 * The classes that select a tool: its provider or entity with what that extends, and the modules
 * that contribute it.
 */
export interface ClassesOfTool {
  readonly type?: object;
  readonly modules?: readonly object[];
}

/** A tool with the class that selects it, where it has one. */
export interface CatalogEntry extends ClassesOfTool {
  readonly tool: Tool;
  /** A further short name, by which selections find it. */
  readonly shortName?: string;
  /** The place of its declaration, for findings. */
  readonly at: string;
  /**
   * Set if the tool appears only in the course of a run: policies may name it, but no selection
   * includes it.
   */
  readonly isLatent?: true;
  /** The milliseconds it took to build; unknown for tools from outside. */
  readonly buildMs?: number;
}

/**
 * Tells whether a name or a glob matches a tool by its declared id, its rendered id, or its short
 * name.
 */
export function isNamed(
  { id, declaredId = id }: Partial<Pick<ToolSpec, 'declaredId'>> & Pick<ToolSpec, 'id'>,
  pattern: string,
): boolean {
  if (isGlob(pattern)) return pattern === declaredId || matchesGlob(pattern, declaredId);
  return pattern === declaredId || pattern === id || pattern === shortNameOf(declaredId);
}

/** Tells whether a selector is a class or a module that includes the tools of a class. */
export function selectsClass(selector: ToolSelector, classes: ClassesOfTool): boolean {
  return typeof selector !== 'string' && !isToolPredicate(selector) && isByClass(selector, classes);
}

/** Tells whether a class or a module contributes a tool. */
export function isByClass(selector: Type, { type, modules = [] }: ClassesOfTool): boolean {
  return isClassOrBelow(type, selector) || modules.includes(selector);
}

/** Returns the short name of a tool: `crm__searchCustomers` → `searchCustomers`. */
export function shortNameOf(declaredId: string): string {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? declaredId : declaredId.slice(separator + 2);
}

/**
 * Returns the namespace of a tool: `crm__searchCustomers` → `crm`; undefined where there is none.
 */
export function namespaceIn(declaredId: string): string | undefined {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? undefined : declaredId.slice(0, separator);
}

/**
 * Tells whether an id or a glob stands under a prefix, which may have several parts: `mcp__github`
 * is that of `mcp__github__createIssue`.
 */
export function isUnder(prefix: string, id: string): boolean {
  return id.startsWith(`${prefix}__`);
}

type ToolPredicate = Extract<ToolSelector, (...args: never[]) => boolean>;

/**
 * Tells a predicate from a class by its source text, since an old function has a prototype as well.
 */
export function isToolPredicate(
  selector: Exclude<ToolSelector, string>,
): selector is ToolPredicate {
  return !/^class\b/.test(Function.prototype.toString.call(selector));
}
