import {
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import { SELECTORS, type ToolSelector } from '../../contracts/tool-selector.js';
import type { Tool } from '../../contracts/tool.js';
import { WHOLE_ABOVE_ZERO } from '../../findings/option-rules.js';
import { defineOptions } from '../../findings/options.js';
import { SEARCH_ID, idsFoundIn, searchTool } from './search-tool.js';

/**
 * Creates a strategy that offers the model a search instead of all tools.
 *
 * @throws ConfigurationError for wrong options
 * @example
 * injection: [toolSearch({ always: ['crm__searchCustomers'] })]
 */
export function toolSearch(options: ToolSearchOptions = {}): ToolInjectionStrategy {
  return new ToolSearchStrategy(options);
}

/** Options of {@link toolSearch}. */
export interface ToolSearchOptions {
  /**
   * The tools that runs start without, and can find. Tools that another strategy withholds stay
   * with that one. @default every tool of the catalog
   */
  readonly tools?: readonly ToolSelector[];
  /** The most results of a search. @default 8 */
  readonly most?: number;
  /** The tools that runs start with all the same. @default none */
  readonly always?: readonly ToolSelector[];
}

/**
 * Puts a catalog that is too large for a model behind one tool, `tools__search`, whose results are
 * injected.
 */
export class ToolSearchStrategy extends ToolInjectionStrategy {
  override readonly name = 'tool search';
  override readonly withheld: readonly ToolSelector[];
  override readonly yields = true;
  private readonly most: number;
  private readonly always: readonly ToolSelector[];

  constructor(options: ToolSearchOptions = {}) {
    super();
    OPTIONS.assert(options, 'toolSearch');
    const { tools = ['*'], most = 8, always = [] } = options;
    this.withheld = [...tools, ...always];
    this.always = always;
    this.most = most;
  }

  override begin({ withheld, records, room }: RunBeginning): ToolInjection {
    const found = records
      .filter(({ declaredId }) => declaredId === SEARCH_ID)
      .flatMap(({ result }) => idsFoundIn(result));
    const newest = [...new Set(found.toReversed())].slice(0, room).toReversed();
    return {
      add: [
        ...withheld.named(this.always),
        searchTool(withheld, this.most),
        ...byId(withheld, newest),
      ],
    };
  }

  /**
   * Injects the results of a search. Beyond the cap the oldest results are removed; new ones stay.
   */
  override evaluate({ last, withheld, toolset, room }: ToolInjectionContext): ToolInjection {
    if (last.record.declaredId !== SEARCH_ID) return {};
    const add = byId(withheld, idsFoundIn(last.live));
    const there = new Set(toolset.map(({ id }) => id));
    const excess = add.filter(({ spec }) => !there.has(spec.id)).length - room;
    if (excess <= 0) return { add };
    const staying = new Set([...add, ...withheld.named(this.always)].map(({ spec }) => spec.id));
    const ours = new Set(withheld.all.map(({ spec }) => spec.id));
    const old = toolset.filter(({ id }) => ours.has(id) && !staying.has(id)).map(({ id }) => id);
    return { add, remove: old.slice(0, excess), cause: { kind: 'search', searchId: SEARCH_ID } };
  }
}

const OPTIONS = defineOptions<ToolSearchOptions>({
  tools: SELECTORS,
  most: WHOLE_ABOVE_ZERO,
  always: SELECTORS,
});

function byId({ all }: { readonly all: readonly Tool[] }, ids: readonly string[]): readonly Tool[] {
  const wanted = new Set(ids);
  const found = new Map(
    all.filter(({ spec }) => wanted.has(spec.id)).map((tool) => [tool.spec.id, tool]),
  );
  return ids.flatMap((id) => found.get(id) ?? []);
}
