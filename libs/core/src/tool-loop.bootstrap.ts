import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ToolCatalog } from './catalog/tool.catalog.js';
import type { CatalogEntry } from './catalog/tool.selection.js';
import { ToolExplorer, type Exploration } from './discovery/tool.explorer.js';
import { SAFE_TOOL_ID } from './discovery/tool-names.js';
import { DEFAULT_RESERVED_ARGUMENTS } from './loop/tool-loop.options.js';
import { LoopSettings } from './loop/loop.settings.js';
import { ConfigurationError, type Finding } from './protocol/errors.js';
import type { Tool } from './protocol/tool.js';
import { subsetProblems } from './schema/schema.subset.js';

/** Fills the catalog when the application starts, and refuses to start, with every finding at once, when a declaration is wrong. */
@Injectable()
export class ToolLoopBootstrap implements OnApplicationBootstrap {
  private readonly logger = new Logger('ToolLoop');

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { reservedArguments = DEFAULT_RESERVED_ARGUMENTS, actorClass, policy } = this.settings.options;
    const exploration = this.explorer.explore({ reservedArguments, ...(actorClass && { actorClass }) });
    const contributed = await contributedTools(exploration);
    const entries: CatalogEntry[] = [...exploration.tools, ...contributed];
    const collisions = this.catalog.load(entries, exploration.entities);
    const findings = [...exploration.findings, ...contributed.flatMap(({ tool }) => contributedFindings(tool)), ...collisions];
    // A policy names tools; while tools are missing for a reason of their own, its findings would only repeat them.
    const all = findings.length > 0 ? findings : this.settings.findings();
    if (all.length > 0) throw new ConfigurationError(all);
    if (!policy)
      this.logger.warn(
        'No policy: no tool is listed and none can be called. Give one: ToolLoopModule.forRoot({ policy: { allow: [...] } }).',
      );
  }
}

async function contributedTools({ sources }: Exploration): Promise<CatalogEntry[]> {
  const lists = await Promise.all(sources.map(async (source) => source.tools()));
  return lists.flat().map((tool) => ({ tool }));
}

function contributedFindings({ spec, origin }: Tool): Finding[] {
  const at = `${origin.source}: ${spec.declaredId}`;
  const problems = subsetProblems(spec.inputSchema).map(({ pointer, problem }) => ({
    at,
    problem: `${pointer}: ${problem}`,
    remedy: 'Use the supported subset of JSON Schema 7.',
  }));
  if (SAFE_TOOL_ID.test(spec.id)) return problems;
  return [
    ...problems,
    { at, problem: 'Its id is not accepted by every model provider.', remedy: 'Use letters, digits, - and _, 64 characters at most.' },
  ];
}
