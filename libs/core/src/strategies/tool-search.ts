import { type Finding, isObject, type JsonValue, type ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import {
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
  type WithheldTools,
} from '../contracts/injection.js';
import { SELECTORS, type ToolSelector } from '../contracts/loop-request.js';
import type { Policy } from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import { defineOptions, WHOLE_ABOVE_ZERO } from '../findings/options.js';
import { OF_APPLICATION } from '../schema/field-origins.js';
import { allowedBy } from '../policy/policy-findings.js';
import { matches } from '../policy/rules.js';
import { builtInTool } from '../schema/built-in-tool.js';
import { compileReveal } from '../schema/reveal.js';

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

/**
 * Creates a strategy that offers the model a search instead of all tools.
 *
 * @throws ConfigurationError for wrong options
 * @example
 * injection: [toolSearch({ always: ['crm__searchCustomers'] })]
 */
export function toolSearch(options: ToolSearchOptions = {}): ToolSearchStrategy {
  return new ToolSearchStrategy(options);
}

function byId({ all }: { readonly all: readonly Tool[] }, ids: readonly string[]): readonly Tool[] {
  const wanted = new Set(ids);
  const found = new Map(
    all.filter(({ spec }) => wanted.has(spec.id)).map((tool) => [tool.spec.id, tool]),
  );
  return ids.flatMap((id) => found.get(id) ?? []);
}

export const SEARCH_ID = 'tools__search';
/** The longest description in a result; the tool itself has the whole of it. */
const MOST_CHARACTERS = 160;

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    query: {
      type: 'string',
      minLength: 1,
      maxLength: 200,
      description: 'What the tool should do, in a few words, e.g. "refund an order"',
    },
  },
  required: ['query'],
  additionalProperties: false,
};

const DESCRIPTION =
  'Finds further tools by what they do. The tools it returns can be called from the next step on; search again when they do not fit.';

const OUTPUT = compileReveal('all');

/**
 * A description is a stranger's text. The id stands in the list of tools as well, which tells what
 * it is worth.
 */
const FOUND: JSONSchema7 = {
  type: 'object',
  properties: {
    tools: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          id: OF_APPLICATION,
          description: { type: 'string' },
        },
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
};

function searching(returns: 'trusted' | 'untrusted'): ReturnType<typeof builtInTool> {
  const labels = { returns, reads: 'public', egress: false } as const;
  return builtInTool({
    id: SEARCH_ID,
    description: DESCRIPTION,
    inputSchema: INPUT,
    labels,
    ...(returns === 'untrusted' && { outputSchema: FOUND }),
  });
}

const TRUSTED = searching('trusted');
/**
 * The tool of a run that may find tools of untrusted sources, whose descriptions are in the
 * results.
 */
const UNTRUSTED = searching('untrusted');

/** Makes the search tool of one run. */
export function searchTool(withheld: WithheldTools, most: number): Tool {
  const isTrusted = withheld.all.every(({ origin }) => origin.trusted);
  return {
    ...(isTrusted ? TRUSTED : UNTRUSTED),
    output: OUTPUT,
    invoke: (input) => ({
      tools: withheld.search(queryOf(input), most).map(({ spec }) => summaryOf(spec)),
    }),
  };
}

/**
 * The search tool without anything to find, for policies and for the catalog, which reserves its
 * id.
 */
export const SEARCH_TOOL: Tool = searchTool({ all: [], named: () => [], search: () => [] }, 0);

/** Reads the ids in a result of the search tool; none if it has another form. */
export function idsFoundIn(result: unknown): readonly string[] {
  const tools: unknown = isObject(result) ? result['tools'] : undefined;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool: unknown) =>
    isObject(tool) && typeof tool['id'] === 'string' ? [tool['id']] : [],
  );
}

function summaryOf({ id, description }: ToolSpec): JsonValue {
  return {
    id,
    description:
      description.length > MOST_CHARACTERS
        ? `${description.slice(0, MOST_CHARACTERS)}…`
        : description,
  };
}

function queryOf(input: unknown): string {
  return isObject(input) && typeof input['query'] === 'string' ? input['query'] : '';
}

/** Finds names in strategies' triggers and withheld tools that no tool has. */
export function strategyFindings(
  strategies: readonly ToolInjectionStrategy[],
  at: string,
  catalog: ToolCatalog,
): Finding[] {
  return strategies.flatMap(({ name, withheld = [], awaited = [] }) =>
    [...catalog.problemsWith({ tools: withheld }), ...catalog.problemsWithCalled(awaited)].map(
      ({ problem, remedy }) => ({
        at: `${at} "${name}"`,
        problem,
        remedy,
      }),
    ),
  );
}

/**
 * Finds policies that do not allow the search: its tools would be withheld without a way to find
 * them. Policies in shadow do not count.
 */
export function searchFindings(
  strategies: readonly ToolInjectionStrategy[],
  at: string,
  policies: readonly Policy[],
): Finding[] {
  if (!strategies.some((strategy) => strategy instanceof ToolSearchStrategy)) return [];
  const denying = policies.filter(
    (policy) =>
      !policy.shadow &&
      !allowedBy(policy).some((pattern) => matches(pattern, SEARCH_TOOL_ITSELF, 'allow')),
  );
  return denying.length === 0
    ? []
    : [
        {
          at,
          problem: `Its policy does not allow "${SEARCH_ID}", so no tool could ever be found.`,
          remedy: `Allow "${SEARCH_ID}", or leave toolSearch() out.`,
        },
      ];
}

const SEARCH_TOOL_ITSELF = { declaredId: SEARCH_ID, origin: { source: 'toolloop', trusted: true } };
