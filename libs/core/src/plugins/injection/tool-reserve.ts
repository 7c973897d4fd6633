import { nameOf } from '../../catalog/list-key.js';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import { unknownTool } from '../../catalog/tool-registry.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { ToolInjectionStrategy, WithheldTools } from '../../contracts/injection.js';
import type { ToolSelector } from '../../contracts/tool-selector.js';
import type { Tool } from '../../contracts/tool.js';
import { ToolIndex } from './tool-index.js';

/**
 * Withholds the tools from runs that strategies add later. Its caches depend on the catalog alone,
 * so all runs share them until it changes.
 */
export class ToolReserve {
  private index: ToolIndex | undefined;
  private selections = new WeakMap<readonly ToolSelector[], ReadonlySet<Tool>>();
  private divisions = new WeakMap<readonly Tool[], Map<string, Division>>();
  private version = 0;

  constructor(private readonly catalog: ToolCatalog) {}

  /**
   * Divides the tools that a run may have into those it starts with and those that strategies
   * withhold.
   *
   * @throws InvalidRequestError if a strategy names a tool that does not exist
   */
  divide(permitted: readonly Tool[], strategies: readonly ToolInjectionStrategy[]): RunReserve {
    const { kept, pools } = this.divisionOf(permitted, strategies);
    return new RunReserve(
      kept,
      new Map(pools.flatMap((pool) => pairOf(strategies[pool.strategy], pool))),
      this,
    );
  }

  private divisionOf(
    permitted: readonly Tool[],
    strategies: readonly ToolInjectionStrategy[],
  ): Division {
    this.follow();
    const said = strategies.map(({ withheld, awaited, yields }) => [
      withheld && nameOf(withheld),
      awaited && nameOf(awaited),
      yields,
    ]);
    const key = JSON.stringify(said);
    const known = this.divisions.get(permitted) ?? new Map<string, Division>();
    const division = known.get(key) ?? this.divided(permitted, strategies);
    if (known.size >= MOST_DIVISIONS && !known.has(key)) known.clear();
    this.divisions.set(permitted, known.set(key, division));
    return division;
  }

  private divided(
    permitted: readonly Tool[],
    strategies: readonly ToolInjectionStrategy[],
  ): Division {
    const [problem] = strategies.flatMap(({ awaited = [] }) =>
      this.catalog.problemsWithCalled(awaited),
    );
    if (problem) throw unknownTool(problem);
    const claims = strategies.flatMap(({ withheld = [], yields }, strategy) =>
      withheld.length === 0
        ? []
        : [{ strategy, yields: yields === true, tools: this.selected(withheld) }],
    );
    if (claims.length === 0) return { kept: permitted, pools: [] };
    const firm = claims.filter(({ yields }) => !yields);
    const pools = claims.map(({ strategy, yields, tools }) => {
      const rivals = yields ? firm : [];
      const all = permitted.filter(
        (tool) => tools.has(tool) && !rivals.some((rival) => rival.tools.has(tool)),
      );
      return { strategy, all, members: new Set(all) };
    });
    return {
      kept: permitted.filter((tool) => !claims.some(({ tools }) => tools.has(tool))),
      pools,
    };
  }

  /**
   * Returns the tools of a list of selectors, cached by list, since a strategy passes the same one
   * in every run.
   */
  selected(selectors: readonly ToolSelector[]): ReadonlySet<Tool> {
    this.follow();
    const known = this.selections.get(selectors);
    if (known) return known;
    const tools = new Set(this.catalog.build({ tools: selectors }));
    this.selections.set(selectors, tools);
    return tools;
  }

  /** Searches the catalog. The first search builds the index. */
  search(text: string, most: number, isWanted: (tool: Tool) => boolean): readonly Tool[] {
    this.follow();
    this.index ??= new ToolIndex(this.catalog.build());
    return this.index.search(text, most, isWanted);
  }

  private follow(): void {
    if (this.version === this.catalog.version) return;
    this.version = this.catalog.version;
    this.index = undefined;
    this.selections = new WeakMap();
    this.divisions = new WeakMap();
  }
}

/** The most divisions of one list, since requests may bring strategies of their own. */
const MOST_DIVISIONS = 16;

/**
 * A list of tools without those that strategies withhold, and for each strategy that withholds some
 * the tools that it may give.
 */
interface Division {
  readonly kept: readonly Tool[];
  readonly pools: readonly WithheldPool[];
}

interface WithheldPool {
  /** The number of the strategy among those of the run. */
  readonly strategy: number;
  readonly all: readonly Tool[];
  readonly members: ReadonlySet<Tool>;
}

const NOTHING: WithheldTools = { all: [], named: () => [], search: () => [] };

/**
 * The tools of one run, divided into those it starts with and those that each strategy withholds.
 */
export class RunReserve {
  private readonly withheld: ReadonlyMap<ToolInjectionStrategy, WithheldTools>;
  private toolset: Pick<Toolset, 'withholds'> | undefined;

  constructor(
    readonly kept: readonly Tool[],
    pools: ReadonlyMap<ToolInjectionStrategy, Pick<WithheldPool, 'all' | 'members'>>,
    private readonly catalog: Pick<ToolReserve, 'selected' | 'search'>,
  ) {
    this.withheld = new Map(
      [...pools].map(([strategy, pool]) => [strategy, this.withheldOf(pool)]),
    );
  }

  /** Returns the part that a sub-run may have. */
  within(isLeft: (tool: Tool) => boolean): RunReserve {
    const pools = [...this.withheld].map(([strategy, { all }]) => {
      const left = all.filter(isLeft);
      return [strategy, { all: left, members: new Set(left) }] as const;
    });
    return new RunReserve(this.kept.filter(isLeft), new Map(pools), this.catalog);
  }

  /** Follows the toolset of the run, so that no search finds tools that it withholds by now. */
  follow(toolset: Pick<Toolset, 'withholds'>): void {
    this.toolset = toolset;
  }

  of(strategy: ToolInjectionStrategy): WithheldTools {
    return this.withheld.get(strategy) ?? NOTHING;
  }

  /** Makes the view of a strategy on the tools that it withholds. */
  private withheldOf({ all, members }: Pick<WithheldPool, 'all' | 'members'>): WithheldTools {
    return {
      all,
      named: (selectors) =>
        [...this.catalog.selected(selectors)].filter((tool) => members.has(tool)),
      search: (text, most) =>
        this.catalog.search(
          text,
          most,
          (tool) => members.has(tool) && !this.toolset?.withholds(tool.spec),
        ),
    };
  }
}

function pairOf(
  strategy: ToolInjectionStrategy | undefined,
  pool: WithheldPool,
): readonly (readonly [ToolInjectionStrategy, WithheldPool])[] {
  return strategy ? [[strategy, pool]] : [];
}
