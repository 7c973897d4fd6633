import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ToolCatalog } from './catalog/tool.catalog.js';
import type { CatalogEntry } from './catalog/tool.selection.js';
import { contributedFindings, placeOf } from './discovery/contributed-tools.js';
import { ToolExplorer, type Exploration } from './discovery/tool.explorer.js';
import { ToolFeature } from './discovery/tool-feature.js';
import { RESULT_READER } from './execution/result-reader.js';
import { SEARCH_TOOL } from './injection/search.tool.js';
import { DirectiveBootstrap } from './loop/directives/directive.bootstrap.js';
import { DEFAULT_RESERVED_ARGUMENTS } from './loop/tool-loop.options.js';
import { LoopSettings } from './loop/loop.settings.js';
import { ConfigurationError, type Finding } from './protocol/errors.js';
import { SchemaValidators } from './schema/schema.validators.js';

/** Fills the catalog when the application starts, and refuses to start, with every finding at once, when a declaration is wrong. */
@Injectable()
export class ToolLoopBootstrap implements OnApplicationBootstrap {
  private readonly logger = new Logger('ToolLoop');

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly validators: SchemaValidators,
    private readonly directives: DirectiveBootstrap,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { reservedArguments = DEFAULT_RESERVED_ARGUMENTS, actorClass, policy, tools } = this.settings.options;
    const raw = [...(tools ?? []), ...this.catalog.registry.take()];
    const exploration = this.explorer.explore({ reservedArguments, ...(actorClass && { actorClass }) }, raw);
    const contributed = await contributedTools(exploration);
    const rules = { reservedArguments, validators: this.validators };
    const own = [...exploration.tools, ...contributed];
    const collisions = this.catalog.load([LATENT_READER, LATENT_SEARCH, ...own, ...this.directives.entries(own)], exploration.entities);
    const findings = [
      ...exploration.findings,
      ...contributed.flatMap(({ tool }) => contributedFindings(tool, rules)),
      ...collisions,
      ...this.directives.findings(own),
    ];
    // A policy names tools; while tools are missing for a reason of their own, its findings would only repeat them.
    const all = findings.length > 0 ? findings : [...this.settings.findings(), ...this.loopFindings()];
    if (all.length > 0) throw new ConfigurationError(all);
    if (!policy)
      this.logger.warn(
        'No policy: no tool is listed and none can be called. Give one: ToolLoopModule.forRoot({ policy: { allow: [...] } }).',
      );
    await this.directives.start(own);
  }

  /** A name of two loops would be injected by chance. */
  private loopFindings(): Finding[] {
    const loops = this.explorer.instancesOf(ToolFeature).flatMap(({ options }) => Object.entries(options.loops ?? {}));
    const names = loops.map(([name]) => name);
    const shared = new Set(names.filter((name, index) => names.indexOf(name) !== index));
    return [
      ...[...shared].map((name) => ({
        at: `loop "${name}"`,
        problem: 'Several features declare a loop of this name.',
        remedy: 'Give one another name, or declare it in one module only: it can be injected in all of them.',
      })),
      ...loops.flatMap(([name, profile]) => this.settings.profileFindings(name, profile)),
    ];
  }
}

/** Policies name it like any other; a run is offered it once it has something to read. */
const LATENT_READER: CatalogEntry = { tool: RESULT_READER, at: 'Toolloop', isLatent: true };

/** A run has it where a strategy brings it. */
const LATENT_SEARCH: CatalogEntry = { tool: SEARCH_TOOL, at: 'Toolloop', isLatent: true };

async function contributedTools({ sources }: Exploration): Promise<CatalogEntry[]> {
  const lists = await Promise.all(sources.map(async (source) => source.tools()));
  return lists.flat().map((tool) => ({ tool, at: placeOf(tool) }));
}
