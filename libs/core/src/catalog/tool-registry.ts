import { Injectable } from '@nestjs/common';
import { type Finding, InvalidRequestError, type ToolSpec } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import type { RawTool } from '../tools/decorators/raw-tool.js';
import { type CatalogEntry, namespaceIn, shortNameOf } from './tool-selection.js';
import { closestTools } from './closest-tools.js';
import { isGlob, matchesGlob } from './glob.js';

/**
 * The registry of the application's tools by name. It also takes tools that providers register
 * while the application starts.
 */
@Injectable()
export class ToolRegistry {
  /** The registered tools; undefined once the catalog is being filled. */
  private registered: RawTool[] | undefined = [];
  private takenAt = 0;
  private known: Names | undefined;
  /** Counted where a name is looked up: a hit where it found a tool. */
  readonly lookups = { hits: 0, misses: 0 };
  private suggested = 0;

  /**
   * Adds tools as `forRoot({ tools })` does. Call it in constructors, factories or `onModuleInit`.
   *
   * @throws Error once the application has started
   * @example
   * constructor(registry: ToolRegistry) {
   *   registry.register(rawTool(SearchApi, { as: 'web_search' }));
   * }
   */
  register(...tools: readonly RawTool[]): void {
    if (!this.registered) throw tooLate(tools);
    this.registered.push(...tools);
  }

  /** Returns the registered tools and accepts no more. Called once, by the bootstrap. */
  take(): readonly RawTool[] {
    const tools = this.registered ?? [];
    this.registered = undefined;
    this.takenAt = performance.now();
    return tools;
  }

  /**
   * Loads the tools of the catalog, and the specs of entity tools, which can be suggested too.
   * Called by the catalog, again when tools come or go.
   */
  load(byId: ReadonlyMap<string, CatalogEntry>, entitySpecs: readonly ToolSpec[]): void {
    const entries = [...byId.values()].filter(({ isLatent }) => !isLatent);
    this.known = {
      byId,
      byShortName: grouped(entries),
      listed: entries.map(({ tool }) => tool.spec.declaredId),
      declaredIds: [...byId.keys(), ...entitySpecs.map(({ declaredId }) => declaredId)],
      reads: new Set(
        [...entries.map(({ tool }) => tool.spec), ...entitySpecs]
          .filter(isRead)
          .map(({ declaredId }) => declaredId),
      ),
      build: this.known?.build ?? buildStatsOf(entries, performance.now() - this.takenAt),
    };
  }

  /**
   * Finds a tool by its declared id or by a short name that only one tool has.
   *
   * @throws InvalidRequestError for an unknown or ambiguous name, with the closest ones
   */
  resolve(name: string): Tool {
    const entry = this.entryOf(name);
    this.lookups[entry ? 'hits' : 'misses'] += 1;
    if (!entry) throw unknownTool(this.problemWith(name));
    return entry.tool;
  }

  /** Suggests the declared ids closest to a wrong one, at most three. */
  suggest(name: string): string[] {
    const { declaredIds, reads } = this.names;
    const closest = closestTools(name, declaredIds, { isRead: (id) => reads.has(id) });
    if (closest.length > 0) this.suggested += 1;
    return closest;
  }

  /**
   * Lists the namespaces, such as `crm` in `crm__searchCustomers`, each once, in the order of
   * declaration.
   */
  namespaces(): readonly string[] {
    return [...new Set(this.names.listed.flatMap((declaredId) => namespaceIn(declaredId) ?? []))];
  }

  stats(): RegistryStats {
    const { listed, build } = this.names;
    const { suggested: suggestions } = this;
    const { hits, misses } = this.lookups;
    return {
      tools: listed.length,
      namespaces: this.namespaces().length,
      lookups: hits + misses,
      hits,
      misses,
      suggestions,
      build,
    };
  }

  /** Finds the tool of a name; a whole id wins over a short name. */
  entryOf(name: string): CatalogEntry | undefined {
    const { byId, byShortName } = this.names;
    const [first, ...others] = byShortName.get(name) ?? [];
    return byId.get(name) ?? (others.length === 0 ? first : undefined);
  }

  /** Tells whether a name or a glob matches a tool, entity tools included. */
  isKnown(pattern: string): boolean {
    if (!isGlob(pattern)) return this.entryOf(pattern) !== undefined;
    return (
      pattern === '*' ||
      this.names.declaredIds.some((declaredId) => matchesGlob(pattern, declaredId))
    );
  }

  /** Describes why a name matches no tool. */
  problemWith(name: string): Problem {
    const candidates = this.names.byShortName.get(name) ?? [];
    if (candidates.length > 1) {
      const ids = candidates.map(({ tool }) => tool.spec.declaredId);
      return {
        problem: `"${name}" is short for ${ids.join(' and ')}.`,
        remedy: 'Use the whole id.',
      };
    }
    const closest = this.suggest(name).map((id) => `"${id}"`);
    const remedy =
      closest.length > 0 ? `Did you mean ${closest.join(' or ')}?` : 'The catalog lists all tools.';
    return { problem: `No tool is named "${name}".`, remedy };
  }

  private get names(): Names {
    if (!this.known) throw notReady();
    return this.known;
  }
}

const MOST_SLOW_TOOLS = 5;

/** A problem and its remedy, without a place. */
export type Problem = Omit<Finding, 'at'>;

/**
 * The counts of the registry since the start. Numbers and declared ids only: no name that a model
 * or a client made up is in it.
 */
export interface RegistryStats {
  /** The number of tools that exist from the start. */
  readonly tools: number;
  readonly namespaces: number;
  /** The number of names looked up by `resolve` and by the calls of models: `hits` and `misses`. */
  readonly lookups: number;
  readonly hits: number;
  readonly misses: number;
  /** The number of wrong names for which a close one was found. */
  readonly suggestions: number;
  readonly build: BuildStats;
}

/** The time it took to build the tools when the application started. */
export interface BuildStats {
  /** The whole time, including other sources of tools. */
  readonly totalMs: number;
  /** The median time of the application's own tools; absent where there are none. */
  readonly medianMs?: number;
  /** The slowest of them, slowest first, at most five. */
  readonly slowest: readonly { readonly declaredId: string; readonly ms: number }[];
}

interface Names {
  readonly byId: ReadonlyMap<string, CatalogEntry>;
  readonly byShortName: ReadonlyMap<string, readonly CatalogEntry[]>;
  /** The ids of the tools that exist from the start. */
  readonly listed: readonly string[];
  /** The declared ids, including those of entity tools. */
  readonly declaredIds: readonly string[];
  /** Those of tools that only read. */
  readonly reads: ReadonlySet<string>;
  readonly build: BuildStats;
}

const isRead = ({ effect }: ToolSpec): boolean => effect === 'read_only';

export function unknownTool({ problem, remedy }: Problem): InvalidRequestError {
  return new InvalidRequestError('unknown_tool', `${problem} ${remedy}`);
}

export function notReady(): Error {
  return new Error(
    'The tool catalog is filled when the application has started: call app.init() or app.listen() first.',
  );
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
    for (const name of new Set([shortNameOf(entry.tool.spec.declaredId), entry.shortName])) {
      if (name === undefined) continue;
      const group = groups.get(name);
      if (group) group.push(entry);
      else groups.set(name, [entry]);
    }
  }
  return groups;
}

function buildStatsOf(entries: readonly CatalogEntry[], totalMs: number): BuildStats {
  const built = entries.flatMap(({ tool, buildMs: ms }) =>
    ms === undefined ? [] : [{ declaredId: tool.spec.declaredId, ms }],
  );
  const slowest = built.toSorted((a, b) => b.ms - a.ms);
  const median = slowest[Math.floor(slowest.length / 2)];
  return {
    totalMs,
    ...(median && { medianMs: median.ms }),
    slowest: slowest.slice(0, MOST_SLOW_TOOLS),
  };
}
