import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { ConfigurationError, type Finding, isRecord } from '@toolloop/protocol';
import { BoundedStores } from '../call/bounded-stores.js';
import type { AnnouncedTools } from '../catalog/announced-tools.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import type { CatalogEntry } from '../catalog/tool-selection.js';
import { DurableRuns } from '../contracts/durable-runs.js';
import { ActorDirectory } from '../contracts/actor-directory.js';
import type { ToolInjectionStrategy } from '../contracts/injection.js';
import type { LoopProfile } from '../contracts/loop-request.js';
import { PLUGIN_VALUES } from '../contracts/plugin-value.js';
import { Logger } from '../findings/logger.js';
import { findingsOfPlugins } from '../plugin/plugin-findings.js';
import { Plugins } from '../plugin/plugins.js';
import { DeclaredToolAdmission } from '../plugins/client-tools/declared-tools.js';
import {
  declarersIn,
  type DirectiveDeclarer,
  directiveEntries,
  directiveFindings,
  immediateEffectFindings,
  longestDirectiveMs,
} from '../plugins/directives/directive-findings.js';
import { DirectiveRunner } from '../plugins/directives/directive-runner.js';
import { DirectiveService } from '../plugins/directives/directive.service.js';
import { PolicyService } from '../plugins/operators/policy.service.js';
import { RESULT_READER } from '../plugins/pages/result-reader.js';
import { rehearsalFindings } from '../plugins/rehearsals/rehearsal-findings.js';
import { ToolSources } from '../plugins/sources/tool-sources.js';
import { PLAN_TOOL } from '../plugins/strategies/planning.js';
import { SEARCH_TOOL } from '../plugins/strategies/search-tool.js';
import { SubRunPreparation } from '../plugins/sub-runs/sub-run-preparation.js';
import { VALUE_TOOLS } from '../plugins/values/value-tools.js';
import { DEFAULT_RESERVED_ARGUMENTS, FEATURE, type ToolLoopOptions } from '../run/loop-options.js';
import { LoopSettings } from '../run/loop-settings.js';
import { unpricedWarning } from '../run/unpriced-models.js';
import { unlabelledFields } from '../schema/origin-findings.js';
import { ToolExplorer, listedRaw } from '../tools/discovery/tool-explorer.js';
import { ToolFeature } from '../tools/discovery/tool-feature.js';
import type { DeclarationRules } from '../tools/discovery/tool-template.js';

/**
 * Fills the catalog when the application starts, and refuses to start, with every finding at once,
 * when a declaration is wrong.
 */
@Injectable()
export class ToolLoopBootstrap implements OnApplicationBootstrap {
  private readonly logger = new Logger('ToolLoop');

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly catalog: ToolCatalog,
    private readonly settings: LoopSettings,
    private readonly directives: DirectiveService,
    private readonly directiveRunner: DirectiveRunner,
    private readonly subRuns: SubRunPreparation,
    private readonly sources: ToolSources,
    private readonly policies: PolicyService,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    try {
      await this.start();
    } catch (error) {
      this.sources.close(); // no hook is called for an application that does not start
      throw error;
    }
  }

  private async start(): Promise<void> {
    const { policy, tools } = this.settings.options;
    const plugins = this.explorer.plugins();
    for (const installing of this.explorer.instancesOf(Plugins)) installing.install(plugins);
    const raw = [...listedRaw(tools), ...this.catalog.registry.take()];
    const exploration = this.explorer.explore(rulesIn(this.settings.options), raw);
    const contributed = await this.sources.begin(exploration.sources);
    const own = [...exploration.tools, ...contributed.entries];
    const declarers = declarersIn(own, exploration.entities);
    const entries = [
      LATENT_READER,
      ...LATENT_OF_STRATEGIES,
      ...LATENT_VALUES,
      ...own,
      ...directiveEntries(declarers, this.directives),
    ];
    this.catalog.label = (tool) => this.settings.label(tool);
    this.sources.announce(this.announced());
    const findings = [
      ...findingsOfPlugins(plugins),
      ...exploration.findings,
      ...contributed.findings,
      ...this.catalog.load(entries, exploration.entities),
      ...this.sources.findings(),
    ];
    await this.sources.open((announced) => this.policyFindings(announced));
    findings.push(
      ...directiveFindings(declarers, this.explorer.instancesOf(ActorDirectory).length > 0),
      ...immediateEffectFindings(declarers, this.settings.options.directives, 'refuse'),
      ...rehearsalFindings(
        declarers,
        this.explorer.instancesOf(BoundedStores).some(({ transactions }) => transactions),
      ),
      ...(this.settings.options.strictLabels ? declarers.flatMap(labelFindings) : []),
      ...this.settings.findings(),
      ...this.clientToolFindings(),
      ...this.loopFindings(),
      ...this.subRunFindings(entries),
    );
    if (findings.length > 0) throw new ConfigurationError([...findings, ...this.sources.missing()]);
    const warnings = [
      ...immediateEffectFindings(declarers, this.settings.options.directives, 'warn'),
      ...exploration.warnings,
      ...contributed.warnings,
    ];
    this.warnOf(warnings);
    this.catalog.report('declarations', warnings);
    // What a sub-run may do is known once all that it may use is.
    if (entries.some(({ tool }) => tool.subRun))
      this.catalog.rewrite((entry) => this.withEffect(entry));
    if (!policy)
      this.logger.warn(
        'No policy: no tool is listed and none can be called. Give one: ToolLoopModule.forRoot({ policy: { allow: [...] } }).',
      );
    this.warnOfCosts(entries);
    await this.policies.start();
    const longestMs = longestDirectiveMs(declarers, this.settings.limitsFor().toolCallMs);
    if (longestMs !== undefined) await this.directiveRunner.start(longestMs);
    for (const durable of this.explorer.instancesOf(DurableRuns)) await durable.begin();
  }

  /** Logs findings that must not keep the application from starting. */
  private warnOf(findings: readonly Finding[]): void {
    for (const { at, problem, remedy } of findings) this.logger.warn(`${at}: ${problem} ${remedy}`);
  }

  /**
   * Returns what is wrong with the policies of the application and of its loops, of which some
   * tools came after the start.
   */
  private policyFindings(announced: AnnouncedTools): readonly Finding[] {
    const ofLoop = ([name, loop]: readonly [string, LoopProfile | null]): Finding[] =>
      loop?.policy
        ? this.settings.policyFindings(announced, loop.policy, `loop "${name}" policy`)
        : [];
    return [...this.settings.policyFindings(announced), ...this.namedLoops().flatMap(ofLoop)];
  }

  private warnOfCosts(entries: readonly CatalogEntry[]): void {
    const subRuns = entries.flatMap(({ tool }) => tool.subRun ?? []);
    const warning = unpricedWarning({
      application: this.settings.options,
      profiles: [...this.loopProfiles(), ...subRuns],
    });
    if (warning !== undefined) this.logger.warn(warning);
  }

  private loopProfiles(): readonly LoopProfile[] {
    return this.explorer
      .instancesOf(ToolFeature)
      .flatMap(({ options }) => Object.values(options.loops ?? {}));
  }

  private namedLoops(): readonly (readonly [string, LoopProfile | null])[] {
    return this.explorer
      .instancesOf(ToolFeature)
      .flatMap(({ options }) => Object.entries(options.loops ?? {}));
  }

  /**
   * Returns the tools that strategies of the application and its loops announce, and those that
   * clients may declare.
   */
  private announced(): readonly string[] {
    const loops = this.loopProfiles();
    // What is no loop and no strategy is a finding later on.
    const given: readonly (ToolInjectionStrategy | null)[] = [
      this.settings.options,
      ...loops,
    ].flatMap((level: Pick<LoopProfile, 'injection'> | null) => level?.injection || []);
    const declared = [this.settings.options, ...loops].flatMap(listed);
    return [...given.flatMap((strategy) => strategy?.announced ?? []), ...declared];
  }

  private withEffect(entry: CatalogEntry): CatalogEntry {
    return entry.tool.subRun ? { ...entry, tool: this.subRuns.withEffect(entry.tool) } : entry;
  }

  private subRunFindings(entries: readonly CatalogEntry[]): Finding[] {
    return entries.flatMap(({ tool }) => this.subRuns.findings(tool));
  }

  private clientToolFindings(): Finding[] {
    const admission = new DeclaredToolAdmission(this.catalog, this.settings);
    return [
      ...admission.findings(listed(this.settings.options), 'ToolLoopModule'),
      ...this.namedLoops().flatMap(([name, loop]) =>
        admission.findings(listed(loop), `loop "${name}"`),
      ),
    ];
  }

  /** A name of two loops would be injected by chance. */
  private loopFindings(): Finding[] {
    const features = this.explorer.instancesOf(ToolFeature).map(({ options }) => options);
    const loops = features.flatMap((options) => Object.entries(options.loops ?? {}));
    const names = loops.map(([name]) => name);
    const shared = new Set(names.filter((name, index) => names.indexOf(name) !== index));
    return [
      ...features.flatMap((options) => FEATURE.findings(options, 'ToolLoopModule.forFeature')),
      ...[...shared].map((name) => ({
        at: `loop "${name}"`,
        problem: 'Several features declare a loop of this name.',
        remedy:
          'Give one of them another name, or declare it in one module only: it can be injected in all of them.',
      })),
      ...loops.flatMap(([name, profile]) =>
        this.settings.profileFindings(`loop "${name}"`, profile),
      ),
      ...loops.flatMap(([name, profile]) => this.valueFindings(`loop "${name}"`, profile)),
    ];
  }

  /** Finds values for plugins that a loop gives and no plugin takes. */
  private valueFindings(at: string, profile: LoopProfile): readonly Finding[] {
    if (!isRecord(profile)) return [];
    const { plugins } = profile;
    if (!plugins || !PLUGIN_VALUES.accept(plugins)) return [];
    return this.explorer
      .instancesOf(Plugins)
      .flatMap((installed) => installed.findingsIn(plugins, `${at}.plugins`));
  }
}

/** The rules of the application for the declarations of its tools. */
function rulesIn({
  reservedArguments = DEFAULT_RESERVED_ARGUMENTS,
  actorClass,
  identity,
  interceptors,
}: ToolLoopOptions): DeclarationRules {
  return {
    reservedArguments,
    ...(actorClass && { actorClass }),
    ...(identity && { identity }),
    ...(interceptors && { interceptors }),
  };
}

/**
 * Finds values in the results of a tool about which nothing says who wrote them. A sub-run says of
 * itself what its model had read.
 */
function labelFindings({ at, tool: { spec, subRun } }: DirectiveDeclarer): Finding[] {
  const { labels, redaction, outputSchema } = spec;
  const tellsNothing = redaction.kind === 'reveal' && redaction.fields.length === 0;
  if (subRun || tellsNothing || labels.returns === 'trusted') return [];
  const remedy = `Say it with @ToolField({ origin }) or "x-toolloop-origin"; \`returns: 'trusted'\` says it of the whole result.`;
  return unlabelledFields(outputSchema).map((place) => ({
    at,
    problem:
      place === ''
        ? 'Nothing says who wrote its result.'
        : `Nothing says who wrote ${place} of its results.`,
    remedy,
  }));
}

/**
 * Returns the ids that a loop or the application lists; anything else is a finding of the options.
 */
function listed(level: Pick<LoopProfile, 'clientTools'> | null): readonly string[] {
  const ids: unknown = level?.clientTools;
  return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
}

/** Policies name it like any other; a run is offered it once it has something to read. */
const LATENT_READER: CatalogEntry = { tool: RESULT_READER, at: 'Toolloop', isLatent: true };

/** A run is offered them once it has hidden something. */
const LATENT_VALUES: readonly CatalogEntry[] = VALUE_TOOLS.map((tool) => ({
  tool,
  at: 'Toolloop',
  isLatent: true,
}));

/** A run has them where a strategy brings them. */
const LATENT_OF_STRATEGIES: readonly CatalogEntry[] = [SEARCH_TOOL, PLAN_TOOL].map((tool) => ({
  tool,
  at: 'Toolloop',
  isLatent: true,
}));
