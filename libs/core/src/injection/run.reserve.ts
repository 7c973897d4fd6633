import type { Toolset } from '../catalog/toolset.js';
import type { Tool } from '../protocol/tool.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { ToolInjectionStrategy, WithheldTools } from '../protocol/tool-injection.js';

/** Answers for the whole catalog, whatever a run may have of it. */
export interface CatalogSearch {
  selected(selectors: readonly ToolSelector[]): ReadonlySet<Tool>;
  search(text: string, most: number, isWanted: (tool: Tool) => boolean): readonly Tool[];
}

/** The tools that one run may have, divided: what it starts with, and what each strategy keeps back. */
export class RunReserve {
  constructor(
    readonly kept: readonly Tool[],
    private readonly pools: ReadonlyMap<ToolInjectionStrategy, WithheldPool>,
  ) {}

  /** What of it a run within the run may have. */
  within(isLeft: (tool: Tool) => boolean): RunReserve {
    const pools = [...this.pools].map(([strategy, pool]): [ToolInjectionStrategy, WithheldPool] => [strategy, pool.within(isLeft)]);
    return new RunReserve(this.kept.filter(isLeft), new Map(pools));
  }

  /** No search finds what the run keeps away by now. */
  follow(toolset: Pick<Toolset, 'keepsAway'>): void {
    for (const pool of this.pools.values()) pool.follow(toolset);
  }

  of(strategy: ToolInjectionStrategy): WithheldTools {
    return this.pools.get(strategy) ?? NOTHING;
  }
}

/** What one strategy keeps back in one run. Whatever it is asked, it knows nothing else. */
export class WithheldPool implements WithheldTools {
  private readonly members: ReadonlySet<Tool>;
  private toolset: Pick<Toolset, 'keepsAway'> | undefined;

  constructor(
    readonly all: readonly Tool[],
    private readonly catalog: CatalogSearch,
  ) {
    this.members = new Set(all);
  }

  follow(toolset: Pick<Toolset, 'keepsAway'>): void {
    this.toolset = toolset;
  }

  within(isLeft: (tool: Tool) => boolean): WithheldPool {
    return new WithheldPool(this.all.filter(isLeft), this.catalog);
  }

  named(selectors: readonly ToolSelector[]): readonly Tool[] {
    return [...this.catalog.selected(selectors)].filter((tool) => this.members.has(tool));
  }

  search(text: string, most: number): readonly Tool[] {
    return this.catalog.search(text, most, (tool) => this.members.has(tool) && !this.toolset?.keepsAway(tool.spec));
  }
}

const NOTHING: WithheldTools = { all: [], named: () => [], search: () => [] };
