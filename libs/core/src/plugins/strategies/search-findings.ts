import type { Finding } from '@toolloop/protocol';
import type { ToolCatalog } from '../../catalog/tool-catalog.js';
import { ToolInjectionStrategy } from '../../contracts/injection.js';
import type { Policy } from '../../contracts/policy.js';
import { allowedBy } from '../../policy/policy-findings.js';
import { matches } from '../../policy/rules.js';
import { SEARCH_ID } from './search-tool.js';
import { ToolSearchStrategy } from './tool-search.js';

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

const SEARCH_TOOL_ITSELF = { declaredId: SEARCH_ID, origin: { source: 'toolloop', trusted: true } };
