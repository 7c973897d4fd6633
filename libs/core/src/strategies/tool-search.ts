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
import type { ToolSelector } from '../contracts/loop-request.js';
import type { Policy } from '../contracts/policy.js';
import type { Tool } from '../contracts/tool.js';
import { assertOptions, type OptionValues, WHOLE_ABOVE_ZERO } from '../findings/options.js';
import { allowedBy } from '../policy/policy-findings.js';
import { matches } from '../policy/rules.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { compileReveal } from '../schema/reveal.js';
import { compileSchemaInput } from '../schema/tool-input.js';
import { SELECTORS } from './triggers.js';

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
    return { add, remove: old.slice(0, excess), cause: { kind: 'search', searchId: SEARCH_ID } };
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

export const SEARCH_ID = 'tools__search';
/** Of a description in a result: the whole of it comes with the tool. */
const MOST_CHARACTERS = 160;

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    query: { type: 'string', minLength: 1, maxLength: 200, description: 'What the tool should do, in a few words, e.g. "refund an order"' },
  },
  required: ['query'],
  additionalProperties: false,
};

const DESCRIPTION =
  'Finds further tools by what they do. The tools it returns can be called from the next step on; search again when they do not fit.';

const CODEC = compileSchemaInput({ at: SEARCH_ID, reserved: [], schema: INPUT }).input;
const OUTPUT = compileReveal('all');

function specOf(returns: 'trusted' | 'untrusted'): ToolSpec {
  const semantics = { description: DESCRIPTION, inputSchema: INPUT };
  return Object.freeze<ToolSpec>({
    id: SEARCH_ID,
    declaredId: SEARCH_ID,
    ...semantics,
    effect: 'read_only',
    labels: { returns, reads: 'public', egress: false },
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: sha256(canonicalDeclaration(semantics)),
  });
}

const TRUSTED = specOf('trusted');
/** Of a run that may find tools of strangers, who wrote their descriptions. */
const UNTRUSTED = specOf('untrusted');

/** The tool as it is bound to what one run may find. */
export function searchTool(withheld: WithheldTools, most: number): Tool {
  const isTrusted = withheld.all.every(({ origin }) => origin.trusted);
  return {
    spec: isTrusted ? TRUSTED : UNTRUSTED,
    origin: { source: 'toolloop', trusted: true },
    input: CODEC,
    output: OUTPUT,
    invoke: (input) => ({ tools: withheld.search(queryOf(input), most).map(({ spec }) => summaryOf(spec)) }),
  };
}

/** The tool without anything to search: what a policy names and a catalog reserves. */
export const SEARCH_TOOL: Tool = searchTool({ all: [], named: () => [], search: () => [] }, 0);

/** The ids in a result of the tool; none where it is something else. */
export function idsFoundIn(result: unknown): readonly string[] {
  const tools: unknown = isObject(result) ? result['tools'] : undefined;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool: unknown) => (isObject(tool) && typeof tool['id'] === 'string' ? [tool['id']] : []));
}

function summaryOf({ id, description }: ToolSpec): JsonValue {
  return { id, description: description.length > MOST_CHARACTERS ? `${description.slice(0, MOST_CHARACTERS)}…` : description };
}

function queryOf(input: unknown): string {
  return isObject(input) && typeof input['query'] === 'string' ? input['query'] : '';
}

/** Names of tools that strategies wait for or keep back, and that no tool has. */
export function strategyFindings(strategies: readonly ToolInjectionStrategy[], at: string, catalog: ToolCatalog): Finding[] {
  return strategies.flatMap(({ name, withheld = [], awaited = [] }) =>
    catalog.problemsWith({ tools: [...withheld, ...awaited] }).map(({ problem, remedy }) => ({ at: `${at} "${name}"`, problem, remedy })),
  );
}

/** A search that no policy allows: what can be found through it is kept back, and nobody can search. Policies in shadow decide nothing. */
export function searchFindings(strategies: readonly ToolInjectionStrategy[], at: string, policies: readonly Policy[]): Finding[] {
  if (!strategies.some((strategy) => strategy instanceof ToolSearchStrategy)) return [];
  const denying = policies.filter(
    (policy) => !policy.shadow && !allowedBy(policy).some((pattern) => matches(pattern, SEARCH_TOOL_ITSELF, 'allow')),
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
