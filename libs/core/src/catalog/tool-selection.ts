import type { EntityReference, ToolSpec } from '@toolloop/protocol';
import { distance } from 'fastest-levenshtein';
import type { ToolSelector } from '../contracts/loop-request.js';
import type { Tool } from '../contracts/tool.js';
import { isClassOrBelow } from '../discovery/provider-instances.js';

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

/** Whether a text has a `*` and so names many ids. */
export function isGlob(pattern: string): boolean {
  return pattern.includes('*');
}

/** Matches declared ids; `*` stands for any characters, none included. Linear in the text: a pattern is data and may be hostile. */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  const end = text.length - last.length;
  let position = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, position);
    if (found < 0 || found + part.length > end) return false;
    position = found + part.length;
  }
  return true;
}

/** A name comes from a model or a client, and the distance of two texts takes time in proportion to both lengths. */
const MOST_CHARACTERS = 128;

/** The names closest to a wrong one, best first: by edit distance, those too far off left out. */
export function closestTo(name: string, candidates: Iterable<string>, most = 3): string[] {
  const wanted = name.slice(0, MOST_CHARACTERS).toLowerCase();
  const scored = [...candidates].map((candidate) => ({ candidate, score: scoreOf(wanted, candidate.toLowerCase()) }));
  return scored
    .filter(({ score }) => Number.isFinite(score))
    .toSorted((a, b) => a.score - b.score || a.candidate.localeCompare(b.candidate))
    .slice(0, most)
    .map(({ candidate }) => candidate);
}

/** The distance of the whole names or of their last parts, whichever is less; infinite where neither is close. */
function scoreOf(wanted: string, known: string): number {
  const [tail, knownTail] = [lastPart(wanted), lastPart(known)];
  const whole = distance(wanted, known);
  const last = distance(tail, knownTail);
  return Math.min(
    whole <= Math.max(3, known.length * 0.4) ? whole : Number.POSITIVE_INFINITY,
    last <= knownTail.length * 0.4 ? last + 1 : Number.POSITIVE_INFINITY,
  );
}

/** `crm__searchCustomers` → `searchcustomers`: a model that forgets the namespace is close all the same. */
function lastPart(id: string): string {
  return id.slice(id.lastIndexOf('_') + 1);
}

/** The tool over which everything of every entity is called. */
export const DISPATCHER_ID = 'entity__call';

/** The tool over which one method of all instances is called. No service has the namespace that it would need for that id. */
export function groupedId(declaredId: string): string {
  return `${prefixIn(declaredId)}__${methodIn(declaredId)}`;
}

/** What an instance goes by within a run. The prefix stands for its class: no two classes share one. */
export function instanceKey(declaredId: string, instanceId: string): string {
  return `${prefixIn(declaredId)} ${instanceId}`;
}

/** The same of an entity's tool; of any other it is a key that no instance has. */
export function instanceKeyOf({ spec: { id, declaredId }, entity }: Pick<Tool, 'spec' | 'entity'>): string {
  return entity ? instanceKey(declaredId, entity.instanceId) : `_${id}`;
}

/** What a tool of an instance goes by, whatever its rendered id. */
export function memberKey(declaredId: string, instanceId: string): string {
  return `${declaredId} ${instanceId}`;
}

/** The declared id in such a key; undefined for the id of a tool, in which there are no spaces. */
export function declaredIdOfMember(key: string): string | undefined {
  const end = key.indexOf(' ');
  return end === -1 ? undefined : key.slice(0, end);
}

export function memberKeyOf({ spec }: Pick<Tool, 'spec'>, { instanceId }: EntityReference): string {
  return memberKey(spec.declaredId, instanceId);
}

/** `customer_c-1_getAverageSpend` → `customer_*_getAverageSpend`: neither a prefix nor a name of an instance has a `_`. */
export function declaredIdIn(renderedId: string): string {
  const [prefix, _name, ...method] = renderedId.split('_');
  return `${prefix}_*_${method.join('_')}`;
}

/** `customer_*_getAverageSpend` → `customer`. */
export function prefixIn(declaredId: string): string {
  return declaredId.slice(0, Math.max(0, declaredId.indexOf('_*_')));
}

/** `customer_*_getAverageSpend` → `getAverageSpend`. */
export function methodIn(declaredId: string): string {
  return declaredId.slice(declaredId.indexOf('_*_') + 3);
}
