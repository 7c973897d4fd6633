import { isClassOrBelow } from '../discovery/provider-classes.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import { isGlob, matchesGlob } from './glob.js';

/** A tool with the class that selects it, where it has one. */
export interface CatalogEntry {
  readonly tool: Tool;
  readonly type?: object;
  /** Where it is declared, for findings. */
  readonly at: string;
  /** Set where the tool appears only in the course of a run: policies name it, no selection takes it. */
  readonly isLatent?: true;
  /** How long it took to make; unknown of what comes from outside. */
  readonly buildMs?: number;
}

/** Whether one selector names an entry. A class selects its subclasses' tools too. */
export function selects(
  selector: ToolSelector,
  { tool, type }: Pick<CatalogEntry, 'type'> & { readonly tool: Pick<Tool, 'spec'> },
): boolean {
  const { declaredId } = tool.spec;
  if (typeof selector === 'string')
    return isGlob(selector) ? matchesGlob(selector, declaredId) : selector === declaredId || selector === shortNameOf(declaredId);
  if (isToolPredicate(selector)) return selector(tool.spec);
  return isClassOrBelow(type, selector);
}

/** Whether a tool goes by a name or a glob: its declared id, the id that the model knows, or its short name. */
export function isNamed({ id, declaredId = id }: Partial<Pick<ToolSpec, 'declaredId'>> & Pick<ToolSpec, 'id'>, pattern: string): boolean {
  if (isGlob(pattern)) return pattern === declaredId || matchesGlob(pattern, declaredId);
  return pattern === declaredId || pattern === id || pattern === shortNameOf(declaredId);
}

/** Whether a selector is a class that selects the tools of this one. */
export function selectsClass(selector: ToolSelector, type: object): boolean {
  return typeof selector !== 'string' && !isToolPredicate(selector) && isClassOrBelow(type, selector);
}

/** `crm__searchCustomers` → `searchCustomers`. */
export function shortNameOf(declaredId: string): string {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? declaredId : declaredId.slice(separator + 2);
}

/** `crm__searchCustomers` → `crm`; undefined where there is none. */
export function namespaceIn(declaredId: string): string | undefined {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? undefined : declaredId.slice(0, separator);
}

type ToolPredicate = Extract<ToolSelector, (...args: never[]) => boolean>;

/** Told by the source text: a class and an old function both have a prototype. */
export function isToolPredicate(selector: Exclude<ToolSelector, string>): selector is ToolPredicate {
  return !/^class\b/.test(Function.prototype.toString.call(selector));
}
