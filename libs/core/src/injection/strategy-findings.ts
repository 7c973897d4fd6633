import type { ToolCatalog } from '../catalog/tool.catalog.js';
import type { Finding } from '../protocol/errors.js';
import { matches } from '../policy/grants.js';
import { allowedBy } from '../policy/policy-findings.js';
import type { Policy } from '../protocol/policy.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';
import { SEARCH_ID } from './search.tool.js';
import { ToolSearchStrategy } from './tool-search.strategy.js';

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
