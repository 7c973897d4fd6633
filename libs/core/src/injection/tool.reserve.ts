import type { ToolCatalog } from '../catalog/tool.catalog.js';
import { unknownTool } from '../catalog/tool.registry.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { Tool } from '../protocol/tool.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';
import { RunReserve, WithheldPool, type CatalogSearch } from './run.reserve.js';
import { ToolIndex } from './tool.index.js';

/** Keeps back from runs what strategies give later. What it remembers is of the catalog, which never changes, and so is shared by all runs. */
export class ToolReserve implements CatalogSearch {
  private index: ToolIndex | undefined;
  private readonly selections = new WeakMap<readonly ToolSelector[], ReadonlySet<Tool>>();

  constructor(private readonly catalog: ToolCatalog) {}

  /** `permitted` is all that the run may have. Throws `InvalidRequestError` where a strategy names what does not exist. */
  divide(permitted: readonly Tool[], strategies: readonly ToolInjectionStrategy[]): RunReserve {
    const [problem] = strategies.flatMap(({ awaited = [] }) => this.catalog.problemsWith({ tools: awaited }));
    if (problem) throw unknownTool(problem);
    const claims = strategies.flatMap((strategy) => this.claimOf(strategy) ?? []);
    if (claims.length === 0) return new RunReserve(permitted, new Map());
    const firm = claims.filter(({ strategy }) => strategy.yields !== true);
    const pools = claims.map(({ strategy, tools }): [ToolInjectionStrategy, WithheldPool] => {
      const rivals = strategy.yields === true ? firm : [];
      const own = permitted.filter((tool) => tools.has(tool) && !rivals.some((rival) => rival.tools.has(tool)));
      return [strategy, new WithheldPool(own, this)];
    });
    return new RunReserve(
      permitted.filter((tool) => !claims.some(({ tools }) => tools.has(tool))),
      new Map(pools),
    );
  }

  /** Looked through once per list of selectors: a strategy hands over the same one in every run. */
  selected(selectors: readonly ToolSelector[]): ReadonlySet<Tool> {
    const known = this.selections.get(selectors);
    if (known) return known;
    const tools = new Set(this.catalog.build({ tools: selectors }));
    this.selections.set(selectors, tools);
    return tools;
  }

  /** The first search makes the index. */
  search(text: string, most: number, isWanted: (tool: Tool) => boolean): readonly Tool[] {
    this.index ??= new ToolIndex(this.catalog.build());
    return this.index.search(text, most, isWanted);
  }

  private claimOf(strategy: ToolInjectionStrategy): Claim | undefined {
    const { withheld = [] } = strategy;
    return withheld.length === 0 ? undefined : { strategy, tools: this.selected(withheld) };
  }
}

/** What a strategy wants to keep back. */
interface Claim {
  readonly strategy: ToolInjectionStrategy;
  readonly tools: ReadonlySet<Tool>;
}
