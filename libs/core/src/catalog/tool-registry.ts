import { Injectable } from '@nestjs/common';
import { type Finding, InvalidRequestError } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import type { RawTool } from '../decorators/raw-tool.js';
import { type CatalogEntry, closestTo, isGlob, matchesGlob, namespaceIn, shortNameOf } from './tool-selection.js';

const MOST_SLOW_TOOLS = 5;

/** What is wrong, and how to mend it, wherever it was written. */
export type Problem = Omit<Finding, 'at'>;

/** What the registry counted since the start. Numbers and declared ids only: a name that a model or a client made up is nowhere in it. */
export interface RegistryStats {
  /** Tools that are there from the start. */
  readonly tools: number;
  readonly namespaces: number;
  /** Names looked up by `resolve` and by the calls of models: `hits` and `misses`. */
  readonly lookups: number;
  readonly hits: number;
  readonly misses: number;
  /** Wrong names for which a close one was found. */
  readonly suggestions: number;
  readonly build: BuildStats;
}

/** How long it took to make the tools when the application started. */
export interface BuildStats {
  /** All of it, other sources of tools included. */
  readonly totalMs: number;
  /** Of the application's own tools; absent where there are none. */
  readonly medianMs?: number;
  /** The slowest of them first, five at most. */
  readonly slowest: readonly { readonly declaredId: string; readonly ms: number }[];
}

interface Names {
  readonly byId: ReadonlyMap<string, CatalogEntry>;
  readonly byShortName: ReadonlyMap<string, readonly CatalogEntry[]>;
  /** Ids of the tools that are there from the start. */
  readonly listed: readonly string[];
  /** Those of entity tools too. */
  readonly declaredIds: readonly string[];
  readonly build: BuildStats;
}

/** Knows the tools of the application by name, and takes tools that its providers register while it starts. */
@Injectable()
export class ToolRegistry {
  /** Undefined once the catalog is being filled. */
  private registered: RawTool[] | undefined = [];
  private takenAt = 0;
  private known: Names | undefined;
  private hits = 0;
  private misses = 0;
  private suggested = 0;

  /** Adds tools as `forRoot({ tools })` does. For constructors, factories and `onModuleInit`; later it throws. */
  register(...tools: readonly RawTool[]): void {
    if (!this.registered) throw tooLate(tools);
    this.registered.push(...tools);
  }

  /** What was registered; from here on it is too late. Called once, by the bootstrap. */
  take(): readonly RawTool[] {
    const tools = this.registered ?? [];
    this.registered = undefined;
    this.takenAt = performance.now();
    return tools;
  }

  /** Called once, by the catalog: with its tools, and the declared ids of entity tools, which can be suggested too. */
  load(byId: ReadonlyMap<string, CatalogEntry>, entityIds: readonly string[]): void {
    const entries = [...byId.values()].filter(({ isLatent }) => !isLatent);
    this.known = {
      byId,
      byShortName: grouped(entries),
      listed: entries.map(({ tool }) => tool.spec.declaredId),
      declaredIds: [...byId.keys(), ...entityIds],
      build: buildStatsOf(entries, performance.now() - this.takenAt),
    };
  }

  /** A tool by its declared id or by a short name that only one tool has. Throws `InvalidRequestError` with the closest names. */
  resolve(name: string): Tool {
    const entry = this.entryOf(name);
    this.count(entry !== undefined);
    if (!entry) throw unknownTool(this.problemWith(name));
    return entry.tool;
  }

  /** The declared ids closest to a wrong one, at most three. */
  suggest(name: string): string[] {
    const closest = closestTo(name, this.names.declaredIds);
    if (closest.length > 0) this.suggested += 1;
    return closest;
  }

  /** `crm` of `crm__searchCustomers`, each once, in the order of declaration. */
  namespaces(): readonly string[] {
    return [...new Set(this.names.listed.flatMap((declaredId) => namespaceIn(declaredId) ?? []))];
  }

  stats(): RegistryStats {
    const { listed, build } = this.names;
    const { hits, misses, suggested: suggestions } = this;
    return { tools: listed.length, namespaces: this.namespaces().length, lookups: hits + misses, hits, misses, suggestions, build };
  }

  /** Counts a lookup: a hit where it found a tool. */
  count(found: boolean): void {
    if (found) this.hits += 1;
    else this.misses += 1;
  }

  /** What a name stands for; a whole id comes before a short name. */
  entryOf(name: string): CatalogEntry | undefined {
    const { byId, byShortName } = this.names;
    const [first, ...others] = byShortName.get(name) ?? [];
    return byId.get(name) ?? (others.length === 0 ? first : undefined);
  }

  /** Whether a name or a glob stands for anything, entity tools included. */
  isKnown(pattern: string): boolean {
    if (!isGlob(pattern)) return this.entryOf(pattern) !== undefined;
    return pattern === '*' || this.names.declaredIds.some((declaredId) => matchesGlob(pattern, declaredId));
  }

  /** Why a name stands for no tool. */
  problemWith(name: string): Problem {
    const candidates = this.names.byShortName.get(name) ?? [];
    if (candidates.length > 1) {
      const ids = candidates.map(({ tool }) => tool.spec.declaredId);
      return { problem: `"${name}" is short for ${ids.join(' and ')}.`, remedy: 'Use the whole id.' };
    }
    const closest = this.suggest(name).map((id) => `"${id}"`);
    const remedy = closest.length > 0 ? `Did you mean ${closest.join(' or ')}?` : 'The catalog lists all tools.';
    return { problem: `No tool is named "${name}".`, remedy };
  }

  private get names(): Names {
    if (!this.known) throw notReady();
    return this.known;
  }
}

export function unknownTool({ problem, remedy }: Problem): InvalidRequestError {
  return new InvalidRequestError('unknown_tool', `${problem} ${remedy}`);
}

export function notReady(): Error {
  return new Error('The tool catalog is filled when the application has started: call app.init() or app.listen() first.');
}

function tooLate(tools: readonly RawTool[]): Error {
  const names = tools.map(({ at }) => at).join(', ');
  return new Error(
    `Too late to register ${names}: the catalog was filled when the application started. Register tools in a constructor or in onModuleInit(), which all run before, or give them to ToolLoopModule.forRoot({ tools }).`,
  );
}

function grouped(entries: readonly CatalogEntry[]): ReadonlyMap<string, readonly CatalogEntry[]> {
  const groups = new Map<string, CatalogEntry[]>();
  for (const entry of entries) {
    const name = shortNameOf(entry.tool.spec.declaredId);
    const group = groups.get(name);
    if (group) group.push(entry);
    else groups.set(name, [entry]);
  }
  return groups;
}

function buildStatsOf(entries: readonly CatalogEntry[], totalMs: number): BuildStats {
  const built = entries.flatMap(({ tool, buildMs: ms }) => (ms === undefined ? [] : [{ declaredId: tool.spec.declaredId, ms }]));
  const slowest = built.toSorted((a, b) => b.ms - a.ms);
  const median = slowest[Math.floor(slowest.length / 2)];
  return { totalMs, ...(median && { medianMs: median.ms }), slowest: slowest.slice(0, MOST_SLOW_TOOLS) };
}
