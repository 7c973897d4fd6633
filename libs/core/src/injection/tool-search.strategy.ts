import { WHOLE_ABOVE_ZERO } from '../findings/option-values.js';
import { assertOptions, type OptionValues } from '../findings/option-findings.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { Tool } from '../protocol/tool.js';
import { ToolInjectionStrategy, type RunBeginning, type ToolInjection, type ToolInjectionContext } from '../protocol/tool-injection.js';
import { SEARCH_ID, idsFoundIn, searchTool } from './search.tool.js';
import { SELECTORS } from './trigger-values.js';

/** What can be found, and what need not be. */
export interface ToolSearchOptions {
  /** What runs start without, and can find. Tools that another strategy keeps back are that strategy's. @default every tool of the catalog */
  readonly tools?: readonly ToolSelector[];
  /** Of a search. @default 8 */
  readonly most?: number;
  /** Tools that are there from the start all the same. @default none */
  readonly always?: readonly ToolSelector[];
}

/** Puts a catalog that is too large for a model behind one tool, `tools__search`, whose results are injected. */
export class ToolSearchStrategy extends ToolInjectionStrategy {
  override readonly name = 'tool search';
  override readonly withheld: readonly ToolSelector[];
  override readonly yields = true;
  private readonly most: number;
  private readonly always: readonly ToolSelector[];

  constructor(options: ToolSearchOptions = {}) {
    super();
    assertOptions(options, OPTIONS, 'toolSearch');
    const { tools = ['*'], most = 8, always = [] } = options;
    this.withheld = [...tools, ...always];
    this.always = always;
    this.most = most;
  }

  override begin({ withheld, records, room }: RunBeginning): ToolInjection {
    const found = records.filter(({ declaredId }) => declaredId === SEARCH_ID).flatMap(({ result }) => idsFoundIn(result));
    const newest = [...new Set(found.toReversed())].slice(0, room).toReversed();
    return { add: [...withheld.named(this.always), searchTool(withheld, this.most), ...byId(withheld, newest)] };
  }

  /** Past the cap the oldest results go; what was just found stays. */
  override evaluate({ last, withheld, toolset, room }: ToolInjectionContext): ToolInjection {
    if (last.record.declaredId !== SEARCH_ID) return {};
    const add = byId(withheld, idsFoundIn(last.live));
    const there = new Set(toolset.map(({ id }) => id));
    const excess = add.filter(({ spec }) => !there.has(spec.id)).length - room;
    if (excess <= 0) return { add };
    const staying = new Set([...add, ...withheld.named(this.always)].map(({ spec }) => spec.id));
    const ours = new Set(withheld.all.map(({ spec }) => spec.id));
    const old = toolset.filter(({ id }) => ours.has(id) && !staying.has(id)).map(({ id }) => id);
    return { add, remove: old.slice(0, excess), howToGetBack: `It made room for newer ones: find it again with ${SEARCH_ID}.` };
  }
}

const OPTIONS: OptionValues<ToolSearchOptions> = { tools: SELECTORS, most: WHOLE_ABOVE_ZERO, always: SELECTORS };

/** Offers the model a search instead of all tools. Throws `ConfigurationError` for options that do not exist or cannot be. */
export function toolSearch(options: ToolSearchOptions = {}): ToolSearchStrategy {
  return new ToolSearchStrategy(options);
}

function byId({ all }: { readonly all: readonly Tool[] }, ids: readonly string[]): readonly Tool[] {
  const wanted = new Set(ids);
  const found = new Map(all.filter(({ spec }) => wanted.has(spec.id)).map((tool) => [tool.spec.id, tool]));
  return ids.flatMap((id) => found.get(id) ?? []);
}
