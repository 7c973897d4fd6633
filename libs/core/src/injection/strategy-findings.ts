import type { ToolCatalog } from '../catalog/tool.catalog.js';
import type { Finding } from '../protocol/errors.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';

/** Names of tools that strategies wait for or keep back, and that no tool has. */
export function strategyFindings(strategies: readonly ToolInjectionStrategy[], at: string, catalog: ToolCatalog): Finding[] {
  return strategies.flatMap(({ name, withheld = [], awaited = [] }) =>
    catalog.problemsWith({ tools: [...withheld, ...awaited] }).map(({ problem, remedy }) => ({ at: `${at} "${name}"`, problem, remedy })),
  );
}
