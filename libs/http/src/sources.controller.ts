import { ToolCatalog } from '@toolloop/core';
import { Operators } from '@toolloop/core/internal';
import { type SourceStatus, ToolSources } from '@toolloop/core/sources';
import type { Asks, ListedSource } from '@toolloop/protocol';
import { firstValueFrom } from 'rxjs';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { Route } from './route.decorator.js';

/** The sources of tools, for operators. */
@CallerController()
export class SourcesController {
  constructor(
    private readonly sources: ToolSources,
    private readonly catalog: ToolCatalog,
    private readonly operators: Operators,
  ) {}

  @Route('GET /sources')
  async list(@CurrentCaller() caller: Caller) {
    await this.operators.use(caller, 'sources', { details: { do: 'list' } });
    const findings = await firstValueFrom(this.catalog.findings$);
    return { sources: this.listed(this.sources.list()), findings };
  }

  /**
   * Asks a source for its tools now. They are the tools of all tenants, and so is the permission.
   */
  @Route('POST /sources/:name/refresh')
  async refresh({ name }: Asks<'POST /sources/:name/refresh'>, @CurrentCaller() caller: Caller) {
    return this.listed(await this.sources.refresh(name, caller));
  }

  private listed(sources: readonly SourceStatus[]): readonly ListedSource[] {
    return sources.map(({ tools, ...source }) => ({
      ...source,
      tools: tools.map((declaredId) => {
        const { effect, schemaHash } = this.catalog.describe(declaredId);
        const { pinned } = this.catalog.originOf(declaredId) ?? {};
        return { declaredId, effect, schemaHash, ...(pinned && { pinned }) };
      }),
    }));
  }
}
