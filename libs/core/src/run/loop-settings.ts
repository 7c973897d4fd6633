import { Inject, Injectable } from '@nestjs/common';
import {
  ConfigurationError,
  type Finding,
  InvalidRequestError,
  isRecord,
  type LanguageModel,
} from '@toolloop/protocol';
import type { ExecutionScope } from '../call/call.js';
import { AnnouncedTools } from '../catalog/announced-tools.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import type { ExecutionOptions } from '../contracts/execution-options.js';
import type { ToolInjection } from '../contracts/injection.js';
import { DEFAULT_LIMITS, LIMITS, type Limits } from '../contracts/limits.js';
import { type LoopProfile, type LoopRequest, PROFILE } from '../contracts/loop-request.js';
import { type Policy, PolicyEngine, policyList } from '../contracts/policy.js';
import { type Quota, QUOTAS } from '../contracts/quota.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import { defineOptions, inWords } from '../findings/options.js';
import { stopFindings } from '../loop/stop-conditions.js';
import { priced } from '../models/priced.js';
import { ForeignTools } from '../plugins/client-tools/foreign-tools.js';
import { StopEngine } from '../plugins/operators/stop-engine.js';
import { VouchedTools } from '../plugins/sources/vouched-tools.js';
import { searchFindings, strategyFindings } from '../plugins/strategies/search-findings.js';
import {
  StructuredAnswers,
  outputFindings,
} from '../plugins/structured-output/structured-answer.js';
import { CompiledPolicy } from '../policy/compiled-policy.js';
import { DataPolicyEngine } from '../policy/policy-engine.js';
import { policyFindings, type PolicyPlace } from '../policy/policy-findings.js';
import { SchemaValidators } from '../schema/validators.js';
import {
  checkContribution,
  type Contribution,
  type ContributionRules,
  type CopiedContribution,
  copyContribution,
} from '../tools/discovery/contributed-tools.js';
import { ToolExplorer } from '../tools/discovery/tool-explorer.js';
import {
  APPLICATION,
  type CandidatePolicy,
  DEFAULT_RESERVED_ARGUMENTS,
  TOOL_LOOP_OPTIONS,
  type ToolLoopOptions,
} from './loop-options.js';

/** The application's options with the defaults filled in, and what a request makes of them. */
@Injectable()
export class LoopSettings {
  /** The classes that answers of runs must be. */
  readonly answers: StructuredAnswers;
  private readonly compiled = new WeakMap<Policy, CompiledPolicy>();
  private readonly foreign: ForeignTools;
  private readonly contributions: ContributionRules;
  private readonly vouched: VouchedTools;
  /** The engine that decides, and behind one of the application's own the stops. */
  private readonly engines: readonly PolicyEngine[];
  private readonly limits = new WeakMap<Partial<Limits>, Limits>();

  constructor(
    @Inject(TOOL_LOOP_OPTIONS) readonly options: ToolLoopOptions,
    private readonly catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
    private readonly engine: PolicyEngine,
    /** The policies and the stops that are in force. */
    readonly inForce: DataPolicyEngine,
    private readonly explorer: ToolExplorer,
  ) {
    const { reservedArguments = DEFAULT_RESERVED_ARGUMENTS } = options;
    this.answers = new StructuredAnswers(validators);
    this.engines = engine === inForce ? [engine] : [engine, new StopEngine(inForce)];
    this.vouched = new VouchedTools(engine);
    this.contributions = { reservedArguments, validators };
    this.foreign = new ForeignTools(catalog, this.contributions, this.vouched);
  }

  /** Reads a tool that was declared elsewhere; see {@link copyContribution}. */
  copy(given: Tool): CopiedContribution {
    return copyContribution(given, this.contributions);
  }

  /** The ids under which clients of a loop may declare tools. */
  clientToolsOf({
    clientTools = this.options.clientTools ?? [],
  }: Pick<LoopProfile, 'clientTools'>): readonly string[] {
    return clientTools;
  }

  /** Checks a tool that was read. */
  check(copy: Contribution): Contribution {
    return checkContribution(copy, this.contributions);
  }

  /**
   * Checks a tool of a source, which has the global guards of the application as its own tools
   * have.
   */
  checkOfSource(copy: Contribution): Contribution {
    const { tool, ...checked } = this.check(copy);
    return { ...checked, tool: this.explorer.guarded(tool) };
  }

  /** Returns the hash of a tool if the policy in force pins another one for its id. */
  hashOtherwisePinned(tool: Tool): string | undefined {
    return this.vouched.hashOtherwisePinned(tool);
  }

  /**
   * A contributed tool as the catalog takes it in: of an untrusted source, it is what the
   * application vouches for, whose pin may be the source's.
   */
  takeIn(tool: Tool, { isPinned = false } = {}): Tool {
    if (isPinned) this.vouched.pin(tool.spec);
    return this.vouched.take(tool);
  }

  /** Returns a tool as the policy in force labels it. */
  label(tool: Tool): Tool {
    return this.vouched.relabel(tool);
  }

  /**
   * Returns the part of an injection that may be applied: tools that no catalog holds are checked
   * like those of a source.
   */
  admit(injection: ToolInjection): ToolInjection {
    return this.foreign.admit(injection);
  }

  /** Returns the findings in the options; called once the catalog is filled. */
  findings(): Finding[] {
    const { policy, stopWhen } = this.options;
    const { injection = [], candidates = {} } = APPLICATION.sound(this.options);
    return [
      ...APPLICATION.findings(this.options, 'ToolLoopModule'),
      ...stopFindings(stopWhen, 'ToolLoopModule', this.catalog),
      ...this.applicationPolicyFindings(policyList(policy)),
      ...Object.entries(candidates).flatMap(([name, one]) => this.candidateFindings(name, one)),
      ...strategyFindings(injection, 'ToolLoopModule injection', this.catalog),
      ...searchFindings(injection, 'ToolLoopModule injection', policyList(policy)),
    ];
  }

  /**
   * Returns the findings in a policy, or in those of the application, where no tool is to come but
   * the announced ones.
   */
  policyFindings(announced: AnnouncedTools, policy?: Policy, at = ''): Finding[] {
    return policy
      ? this.findingsIn(policy, at, { announced })
      : this.applicationPolicyFindings(policyList(this.options.policy), { announced });
  }

  /** Returns the findings in a named loop; called once the catalog is filled. */
  profileFindings(at: string, profile: LoopProfile): Finding[] {
    if (!isRecord(profile))
      return [
        { at, problem: `It is ${inWords(profile)}.`, remedy: 'Give its options as an object.' },
      ];
    return [
      ...PROFILE.findings(profile, at),
      ...this.surroundingFindings(at, PROFILE.sound(profile)),
    ];
  }

  /**
   * Returns findings for names that a loop or a sub-run uses and the application does not have;
   * called once the catalog is filled.
   */
  surroundingFindings(
    at: string,
    { model, policy, stopWhen, injection, output, tools, exclude }: Partial<LoopProfile>,
  ): Finding[] {
    return [
      ...stopFindings(stopWhen, at, this.catalog),
      ...(typeof model === 'string' ? this.modelFindings(model, at) : []),
      ...(policy ? this.findingsIn(policy, `${at} policy`) : []),
      ...outputFindings(output, at),
      ...strategyFindings(injection || [], `${at} injection`, this.catalog),
      ...this.searchFindingsOf(
        { ...(injection !== undefined && { injection }), ...(policy && { policy }) },
        `${at} injection`,
      ),
      ...this.catalog
        .problemsWith({ ...(tools && { tools }), ...(exclude && { exclude }) })
        .map(({ problem, remedy }) => ({ at, problem, remedy })),
    ];
  }

  /**
   * The policies of a run and its loop, narrowest first, and the application's behind them; all
   * must allow. Throws `ConfigurationError` for a policy that is wrong.
   */
  policiesFor(narrower: readonly (Policy | undefined)[]): readonly PolicyEngine[] {
    // The narrower come first: where all allow, the record names the narrowest.
    return [
      ...narrower.flatMap((policy) => (policy ? [this.compile(policy)] : [])),
      ...this.engines,
    ];
  }

  /** The limits of a run: its own, then the application's, then the defaults. */
  limitsFor(own: Partial<Limits> = NO_LIMITS): Limits {
    const known = this.limits.get(own);
    if (known) return known;
    const limits = Object.freeze(this.limitsWith(own)); // shared by the runs of a loop
    this.limits.set(own, limits);
    return limits;
  }

  private limitsWith(own: Partial<Limits>): Limits {
    const given = LIMITS.merge(this.options.limits ?? {}, own);
    const { modelIdleMs: firstByte } = given;
    const limits = LIMITS.merge(
      { ...DEFAULT_LIMITS, ...(firstByte !== undefined && { modelFirstByteMs: firstByte }) },
      given,
    );
    return { ...limits, runMs: timerMs(limits.runMs), toolCallMs: timerMs(limits.toolCallMs) };
  }

  /**
   * Returns the instructions of a run, by default the application's; called once, when the run
   * starts.
   */
  instructionsFor<Actor>(
    own: LoopRequest<unknown, Actor>['instructions'] = this.options.instructions,
    run: RunContext<Actor>,
  ): () => Promise<string | undefined> {
    return async () => (typeof own === 'function' ? await own(run) : own);
  }

  /**
   * Returns the quotas of a tenant.
   *
   * @throws {ConfigurationError} if the function of the options returns something other than quotas
   */
  quotasOf(tenant: string): readonly Quota[] {
    const { quotas = [] } = this.options;
    const own = typeof quotas === 'function' ? quotas(tenant) : quotas;
    QUOTA_OPTIONS.assert({ quotas: own }, 'ToolLoopModule');
    return own;
  }

  /** Returns the options of a run's calls, and the agent that makes them. */
  executionFor(
    own: Partial<ExecutionOptions> | undefined,
    { modelId }: LanguageModel,
  ): Pick<ExecutionScope, 'options' | 'agentName'> {
    const agentName = this.options.agentName ?? modelId;
    return { ...(own && { options: own }), ...(agentName && { agentName }) };
  }

  /**
   * With its price, where the application has prices. Throws `InvalidRequestError`
   * (`unknown_model`) for a name that names none.
   */
  modelFor(own: LanguageModel | string | undefined): LanguageModel {
    const model = this.modelMeant(own);
    const { prices } = this.options;
    return prices ? priced(model, prices) : model;
  }

  private modelMeant(own: LanguageModel | string | undefined): LanguageModel {
    if (own === undefined) return this.options.model;
    if (typeof own !== 'string') return own;
    const named = this.modelNamed(own);
    if (named) return named;
    throw new InvalidRequestError(
      'unknown_model',
      `No model is named "${own}". ${this.knownModels()}`,
    );
  }

  private modelNamed(name: string): LanguageModel | undefined {
    const { models = {} } = this.options;
    return Object.hasOwn(models, name) ? models[name] : undefined;
  }

  private knownModels(): string {
    return `Known: ${Object.keys(this.options.models ?? {}).join(', ') || 'none'}.`;
  }

  private modelFindings(name: string, at: string): Finding[] {
    if (this.modelNamed(name)) return [];
    const remedy = `Name one of ToolLoopModule.forRoot({ models }). ${this.knownModels()}`;
    return [{ at, problem: `No model is named "${name}".`, remedy }];
  }

  /** Application and loop must both allow a search that either of them brings. */
  private searchFindingsOf({ injection, policy }: LoopProfile, at: string): Finding[] {
    if (injection === false) return [];
    const { injection: shared = [], policy: applications } = this.options;
    const own = searchFindings(injection ?? [], at, policyList(applications));
    return own.length > 0
      ? own
      : searchFindings([...shared, ...(injection ?? [])], at, policyList(policy));
  }

  private compile(policy: Policy): CompiledPolicy {
    const known = this.compiled.get(policy);
    if (known) return known;
    const findings = this.findingsIn(policy, 'policy');
    if (findings.length > 0) throw new ConfigurationError(findings, 'request');
    const compiled = new CompiledPolicy(policy, this.validators);
    this.compiled.set(policy, compiled);
    return compiled;
  }

  private findingsIn(
    policy: Policy,
    at: string,
    { author = 'request', announced = this.catalog.announced }: PolicyPlace = {},
  ): Finding[] {
    return policyFindings(policy, at, {
      author,
      announced,
      tools: this.catalog.subjects(),
      validators: this.validators,
    });
  }

  /** One that an engine of the application's own would replace is a candidate all the same. */
  private candidateFindings(name: string, candidate: CandidatePolicy): Finding[] {
    const at = `ToolLoopModule candidates "${name}"`;
    return candidate instanceof PolicyEngine
      ? []
      : policyList(candidate).flatMap((one) => this.findingsIn(one, at, { author: 'application' }));
  }

  /**
   * Returns the findings in the policies of the application, or in the further ones of a tenant. A
   * single one is named without its number.
   */
  applicationPolicyFindings(
    policies: readonly Policy[],
    { at = 'ToolLoopModule policy', isOfTenant = false, announced = this.catalog.announced } = {},
  ): Finding[] {
    if (policies.length > 0 && !(this.engine instanceof DataPolicyEngine))
      return [
        {
          at,
          problem: 'The application has its own PolicyEngine, which ignores it.',
          remedy: 'Give one or the other.',
        },
      ];
    const author = isOfTenant ? 'tenant' : 'application';
    const findings = policies.flatMap((policy, index) =>
      this.findingsIn(policy, policies.length > 1 ? `${at} ${index + 1}` : at, {
        author,
        announced,
      }),
    );
    return isOfTenant || !areAllInShadow(policies)
      ? findings
      : [
          ...findings,
          {
            at,
            problem: 'Every policy is in shadow, so nothing is allowed.',
            remedy: 'Add one that decides.',
          },
        ];
  }
}

/** Tells whether there are policies, and none of them decides. */
function areAllInShadow(policies: readonly unknown[]): boolean {
  return (
    policies.length > 0 && policies.every((policy) => isRecord(policy) && policy['shadow'] === true)
  );
}

const NO_LIMITS: Partial<Limits> = Object.freeze({});

/**
 * Node's timers know no longer time: a larger number, `Infinity` included, would be taken for 1 ms.
 */
function timerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

/** The shape of an answer of the function that returns a tenant's quotas. */
const QUOTA_OPTIONS = defineOptions<{ readonly quotas: readonly Quota[] }>({ quotas: QUOTAS });
