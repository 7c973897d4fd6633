import { Inject, Injectable } from '@nestjs/common';
import { BoundedStores } from '../execution/bounded.stores.js';
import { ToolCatalog } from '../catalog/tool.catalog.js';
import { auditFindings } from '../audit/audit.options.js';
import { executionFindings } from '../discovery/execution.findings.js';
import { searchFindings, strategyFindings } from '../injection/strategy-findings.js';
import { CompiledPolicy } from '../policy/compiled.policy.js';
import { DataPolicyEngine, listOf } from '../policy/data.policy.engine.js';
import { priceFindings } from '../model/model-prices.js';
import { priced } from '../model/priced.js';
import { policyFindings } from '../policy/policy-findings.js';
import { VouchedTools } from '../policy/vouched-tools.js';
import { ConfigurationError, InvalidRequestError, type Finding } from '../protocol/errors.js';
import type { ExecutionOptions } from '../protocol/execution-options.js';
import { LanguageModel } from '../protocol/language-model.js';
import { DEFAULT_LIMITS, type Limits } from '../protocol/limits.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import { SAID_BY_THE_RUN, type LoopProfile } from '../protocol/loop-profile.js';
import { PolicyEngine, type Policy } from '../protocol/policy.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { Tool } from '../protocol/tool.js';
import type { ToolInjection } from '../protocol/tool-injection.js';
import { SchemaValidators } from '../schema/schema.validators.js';
import type { ExecutionScope } from '../execution/execution.scope.js';
import { inWords, withoutWrong } from '../findings/option-findings.js';
import { isRecord } from '../protocol/object.guards.js';
import { unknownOptions } from '../findings/unknown-options.js';
import { closestTo } from '../catalog/suggestion.js';
import { quotaFindings } from './quota-findings.js';
import { QuotaGuard } from './quota.guard.js';
import { APPLICATION_OPTIONS, REQUEST_OPTIONS } from './loop-option-names.js';
import { APPLICATION_VALUES, PROFILE_VALUES, shapeFindings } from './loop-option-values.js';
import { choiceFindings } from './choice-findings.js';
import { stopFindings } from './stop.condition.js';
import { ForeignTools } from './foreign-tools.js';
import { outputFindings } from './structured.answer.js';
import { TOOL_LOOP_OPTIONS } from './tool-loop.tokens.js';
import { DEFAULT_RESERVED_ARGUMENTS, type ToolLoopOptions } from './tool-loop.options.js';

/** The application's options with the defaults filled in, and what a request makes of them. */
@Injectable()
export class LoopSettings {
  private readonly compiled = new WeakMap<Policy, CompiledPolicy>();
  private readonly foreign: ForeignTools;
  private readonly vouched: VouchedTools;

  constructor(
    @Inject(TOOL_LOOP_OPTIONS) readonly options: ToolLoopOptions,
    private readonly catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
    private readonly engine: PolicyEngine,
    private readonly stores: BoundedStores,
  ) {
    const { reservedArguments = DEFAULT_RESERVED_ARGUMENTS } = options;
    this.vouched = new VouchedTools(engine);
    this.foreign = new ForeignTools(catalog, { reservedArguments, validators }, this.vouched);
  }

  /** A contributed tool as the catalog takes it in: of an untrusted source, it is what the application vouches for. */
  takeIn(tool: Tool): Tool {
    return this.vouched.take(tool);
  }

  /** What of an injection may be applied: tools that no catalog holds are held to what those of a source are. */
  admit(injection: ToolInjection): ToolInjection {
    return this.foreign.admit(injection);
  }

  /** What is wrong with the options; asked once the catalog is filled. */
  findings(): Finding[] {
    const { model, policy, audit, quotas = [], stopWhen } = this.options;
    const { prices = {}, limits = {}, execution, injection = [] } = withoutWrong(this.options, APPLICATION_VALUES);
    return [
      ...shapeFindings(this.options, APPLICATION_VALUES, 'ToolLoopModule'),
      ...stopFindings(stopWhen, 'ToolLoopModule', this.catalog, this.catalog.announced),
      ...unknownOptions(this.options, APPLICATION_OPTIONS, 'ToolLoopModule.forRoot'),
      ...(model instanceof LanguageModel ? [] : [WITHOUT_MODEL]),
      ...priceFindings(prices, 'ToolLoopModule prices'),
      ...this.applicationPolicyFindings(listOf(policy)),
      ...(audit ? auditFindings(audit, 'ToolLoopModule audit') : []),
      ...limitFindings(limits, 'ToolLoopModule limits'),
      ...(typeof quotas === 'function' ? [] : quotaFindings(quotas, 'ToolLoopModule quotas')),
      ...choiceFindings({ ...this.options }, 'ToolLoopModule'),
      ...executionFindings('ToolLoopModule execution', execution),
      ...strategyFindings(injection, 'ToolLoopModule injection', this.catalog),
      ...searchFindings(injection, 'ToolLoopModule injection', listOf(policy)),
    ];
  }

  /** What is wrong with a named loop or a sub-run; asked once the catalog is filled. */
  profileFindings(at: string, profile: LoopProfile): Finding[] {
    if (!isRecord(profile)) return [{ at, problem: `It is ${inWords(profile)}.`, remedy: 'Give its options as an object.' }];
    const { model, policy, stopWhen } = profile;
    const sound = withoutWrong(profile, PROFILE_VALUES);
    const { limits = {}, execution, injection, output } = sound;
    return [
      ...shapeFindings(profile, PROFILE_VALUES, at),
      ...stopFindings(stopWhen, at, this.catalog, this.catalog.announced),
      ...unknownOptions(profile, REQUEST_OPTIONS, at),
      ...SAID_BY_THE_RUN.filter((option) => option in profile).map((option) => ({
        at,
        problem: `It sets "${option}", which only a run can set.`,
        remedy: 'Give it in the request.',
      })),
      ...(model === undefined ? [] : this.modelFindings(model, at)),
      ...(policy ? this.policyFindings(policy, `${at} policy`) : []),
      ...outputFindings(output, at),
      ...choiceFindings({ ...profile }, at),
      ...limitFindings(limits, `${at} limits`),
      ...executionFindings(`${at} execution`, execution),
      ...strategyFindings(injection || [], `${at} injection`, this.catalog),
      ...this.searchFindingsOf({ ...(injection !== undefined && { injection }), ...(policy && { policy }) }, `${at} injection`),
      ...this.catalog.problemsWith(sound).map(({ problem, remedy }) => ({ at, problem, remedy })),
    ];
  }

  /**
   * The policies of a run and its loop, narrowest first, and the application's behind them; all must allow. Throws `ConfigurationError` for a policy that
   * is wrong.
   */
  policiesFor(narrower: readonly (Policy | undefined)[]): readonly PolicyEngine[] {
    // The narrower come first: where all allow, the record names the narrowest.
    return [...narrower.flatMap((policy) => (policy ? [this.compile(policy)] : [])), this.engine];
  }

  /** Throws `ConfigurationError` for a limit that is no number, or that does not exist. */
  limitsFor(own: Partial<Limits> = {}): Limits {
    const findings = limitFindings(own, 'limits');
    if (findings.length > 0) throw new ConfigurationError(findings, 'request');
    const limits = { ...DEFAULT_LIMITS, ...this.options.limits, ...own };
    const { runMs, modelIdleMs, toolCallMs } = limits;
    return { ...limits, runMs: timerMs(runMs), modelIdleMs: timerMs(modelIdleMs), toolCallMs: timerMs(toolCallMs) };
  }

  /** What a run is told, or else the application's; asked once, when the run starts. */
  instructionsFor<Actor>(
    own: LoopRequest<unknown, Actor>['instructions'] = this.options.instructions,
    run: RunContext<Actor>,
  ): () => string | undefined | Promise<string | undefined> {
    return () => (typeof own === 'function' ? own(run) : own);
  }

  /** What the run's tenant may use. Throws `ConfigurationError` where a function of the options gives what is no quota. */
  quotasFor(run: Pick<RunContext, 'runId' | 'tenant'>): QuotaGuard | undefined {
    const { quotas = [] } = this.options;
    const own = typeof quotas === 'function' ? quotas(run.tenant) : quotas;
    const findings = quotaFindings(own, 'ToolLoopModule quotas');
    if (findings.length > 0) throw new ConfigurationError(findings);
    return own.length > 0 ? new QuotaGuard(this.stores.quotas, run, own) : undefined;
  }

  /** What a run says of its calls and of who makes them. Throws `ConfigurationError` for an option that does not exist or a value it does not take. */
  executionFor(own: Partial<ExecutionOptions> | undefined, { modelId }: LanguageModel): Pick<ExecutionScope, 'options' | 'agentName'> {
    const findings = executionFindings('execution', own);
    if (findings.length > 0) throw new ConfigurationError(findings, 'request');
    const agentName = this.options.agentName ?? modelId;
    return { ...(own && { options: own }), ...(agentName && { agentName }) };
  }

  /** With its price, where the application has prices. Throws `InvalidRequestError` (`unknown_model`) for a name that names none. */
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
    throw new InvalidRequestError('unknown_model', `No model is named "${own}". ${this.knownModels()}`);
  }

  private modelNamed(name: string): LanguageModel | undefined {
    const { models = {} } = this.options;
    return Object.hasOwn(models, name) ? models[name] : undefined;
  }

  private knownModels(): string {
    return `Known: ${Object.keys(this.options.models ?? {}).join(', ') || 'none'}.`;
  }

  private modelFindings(model: LanguageModel | string, at: string): Finding[] {
    if (typeof model !== 'string')
      return model instanceof LanguageModel
        ? []
        : [{ at, problem: 'Its model is not a LanguageModel.', remedy: 'Pass one, or the name of one.' }];
    if (this.modelNamed(model)) return [];
    const remedy = `Name one of ToolLoopModule.forRoot({ models }). ${this.knownModels()}`;
    return [{ at, problem: `No model is named "${model}".`, remedy }];
  }

  /** Application and loop must both allow a search that either of them brings. */
  private searchFindingsOf({ injection, policy }: LoopProfile, at: string): Finding[] {
    if (injection === false) return [];
    const { injection: shared = [], policy: applications } = this.options;
    const own = searchFindings(injection ?? [], at, listOf(applications));
    return own.length > 0 ? own : searchFindings([...shared, ...(injection ?? [])], at, listOf(policy));
  }

  private compile(policy: Policy): CompiledPolicy {
    const known = this.compiled.get(policy);
    if (known) return known;
    const findings = this.policyFindings(policy, 'policy');
    if (findings.length > 0) throw new ConfigurationError(findings, 'request');
    const compiled = new CompiledPolicy(policy, this.validators);
    this.compiled.set(policy, compiled);
    return compiled;
  }

  private policyFindings(policy: Policy, at: string, mayVouch = false): Finding[] {
    return policyFindings(policy, at, {
      mayVouch,
      tools: this.catalog.subjects(),
      announced: this.catalog.announced,
      validators: this.validators,
    });
  }

  /** One is named without its number; policies that nobody reads are a mistake. */
  private applicationPolicyFindings(policies: readonly Policy[]): Finding[] {
    const at = 'ToolLoopModule policy';
    if (policies.length > 0 && !(this.engine instanceof DataPolicyEngine))
      return [{ at, problem: 'The application has its own PolicyEngine, which ignores it.', remedy: 'Give one or the other.' }];
    const findings = policies.flatMap((policy, index) =>
      this.policyFindings(policy, policies.length > 1 ? `${at} ${index + 1}` : at, true),
    );
    if (policies.length === 0 || policies.some(({ shadow }) => !shadow)) return findings;
    return [...findings, { at, problem: 'Every policy is in shadow, so nothing is allowed.', remedy: 'Add one that decides.' }];
  }
}

/** Node's timers know no longer time: a larger number, `Infinity` included, would be taken for 1 ms. */
function timerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

const WITHOUT_MODEL: Finding = {
  at: 'ToolLoopModule model',
  problem: 'There is no model, or it is not a LanguageModel.',
  remedy: 'Pass one: ToolLoopModule.forRoot({ model }). A factory that returns none has the same effect.',
};

function limitFindings(limits: Partial<Limits>, at: string): Finding[] {
  const known = Object.keys(DEFAULT_LIMITS);
  return Object.entries(limits).flatMap(([name, value]: [string, unknown]) => {
    if (!known.includes(name))
      return [
        { at, problem: `There is no limit "${name}".`, remedy: `Did you mean ${closestTo(name, known, 1).join('') || known.join(', ')}?` },
      ];
    if (typeof value === 'number' && value >= 0) return [];
    return [{ at, problem: `The limit "${name}" is ${String(value)}.`, remedy: 'Give a number that is not negative.' }];
  });
}
