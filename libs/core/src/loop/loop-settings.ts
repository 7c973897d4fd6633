import { Inject, Injectable } from '@nestjs/common';
import {
  ConfigurationError,
  type Finding,
  InvalidRequestError,
  isRecord,
  type LanguageModel,
} from '@toolloop/protocol';
import { AnnouncedTools, ToolCatalog } from '../catalog/tool-catalog.js';
import type { ToolInjection } from '../contracts/injection.js';
import { DEFAULT_LIMITS, type Limits, LIMITS, type Quota, QUOTAS } from '../contracts/limits.js';
import {
  type LoopProfile,
  type LoopRequest,
  PROFILE,
  type StopCondition,
} from '../contracts/loop-request.js';
import type { LoopHooks } from '../contracts/hooks.js';
import { type Policy, PolicyEngine, policyList } from '../contracts/policy.js';
import type { ExecutionOptions, RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import {
  checkContribution,
  type Contribution,
  type ContributionRules,
  type CopiedContribution,
  copyContribution,
  shownId,
} from '../discovery/contributed-tools.js';
import { ToolExplorer } from '../discovery/tool-explorer.js';
import type { ExecutionScope } from '../execution/call.js';
import { RunHooks } from '../execution/run-hooks.js';
import { Logger } from '../findings/logger.js';
import { RunMeter } from '../usage/run-meter.js';
import { UsageLedger } from '../usage/usage-ledger.js';
import { defineOptions, inWords } from '../findings/options.js';
import { priced } from '../models/priced.js';
import { StopEngine } from '../policy/policy-feed.js';
import { DataPolicyEngine, CompiledPolicy } from '../policy/policy-engine.js';
import { policyFindings, type PolicyPlace } from '../policy/policy-findings.js';
import { VouchedTools } from '../policy/vouched-tools.js';
import { SchemaValidators } from '../schema/validators.js';
import { searchFindings, strategyFindings } from '../strategies/tool-search.js';
import {
  APPLICATION,
  type CandidatePolicy,
  DEFAULT_RESERVED_ARGUMENTS,
  TOOL_LOOP_OPTIONS,
  type ToolLoopOptions,
} from './loop-options.js';
import { outputFindings, StructuredAnswers } from './structured-answer.js';
import { isNamed } from '../catalog/tool-selection.js';

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
    private readonly ledger: UsageLedger,
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
  ): () => string | undefined | Promise<string | undefined> {
    return () => (typeof own === 'function' ? own(run) : own);
  }

  /**
   * Returns what counts the use of a run, with the quotas of its tenant.
   *
   * @throws ConfigurationError if the function of the options returns something other than quotas
   */
  meterFor(
    { runId, tenant }: Pick<RunContext, 'runId' | 'tenant'>,
    actorId: string | undefined,
  ): RunMeter {
    const { quotas } = this.options;
    const own = typeof quotas === 'function' ? quotas(tenant) : quotas;
    if (own) QUOTA_OPTIONS.assert({ quotas: own }, 'ToolLoopModule');
    return new RunMeter(this.ledger, { runId, tenant, actorId }, own);
  }

  /** Returns the hooks of a run: the application's, then those that are given. */
  hooksFor(
    { runId }: Pick<RunContext, 'runId'>,
    ...own: readonly (LoopHooks | undefined)[]
  ): RunHooks | undefined {
    return RunHooks.of(runId, this.options.hooks, ...own);
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

/**
 * Checks the tools of an injection that no catalog holds. They are declared like the tools of a
 * source, and do not take the id of a tool of the application.
 */
export class ForeignTools {
  private readonly known = new WeakMap<Tool, Contribution>();
  /** The same by the declaration, which a strategy may put into a new tool for every result. */
  private readonly declared = new WeakMap<object, Contribution>();
  private readonly logger = new Logger('ToolLoop');

  constructor(
    private readonly catalog: ToolCatalog,
    private readonly rules: ContributionRules,
    private readonly vouched: VouchedTools,
  ) {}

  /**
   * Leaves out the others, and warns of them. Those of untrusted sources are what the application
   * vouches for.
   */
  admit(injection: ToolInjection): ToolInjection {
    const { add: given = [], warnings = [] } = injection;
    const read = given.map((tool) => this.readOnce(tool));
    const problems = read.map((one) => this.problemWith(one));
    const add = read.flatMap(({ tool }, index) =>
      problems[index] === undefined ? this.vouched.take(tool) : [],
    );
    if (add.length === given.length)
      return add.some((tool, index) => tool !== given[index]) ? { ...injection, add } : injection;
    const told = problems.flatMap((message) =>
      message === undefined ? [] : [{ code: 'injection_failed', message } as const],
    );
    return { ...injection, add, warnings: [...warnings, ...told] };
  }

  private readOnce(tool: Tool): Contribution {
    const known = this.known.get(tool);
    if (known) return known;
    const read = this.readDeclared(tool);
    this.known.set(tool, read);
    return read;
  }

  private readDeclared(tool: Tool): Contribution {
    const known = this.declared.get(tool.spec);
    if (known && !tool.origin.trusted)
      return { ...known, tool: { ...tool, spec: known.tool.spec, input: known.tool.input } };
    const read = checkContribution(copyContribution(tool, this.rules), this.rules);
    for (const { at, problem, remedy } of read.notes)
      this.logger.warn(`${at}: ${problem} ${remedy}`);
    this.declared.set(tool.spec, read);
    return read;
  }

  private problemWith({ tool, problems: [finding] }: Contribution): string | undefined {
    const name = JSON.stringify(shownId(tool.spec.id));
    if (!this.isWhatItSays(tool))
      return `The tool ${name} of ${tool.origin.source} was not added: the application has another of its id.`;
    if (this.catalog.isLookalike(tool.spec.id))
      return `The tool ${name} of ${tool.origin.source} was not added: its id differs only in case from that of another tool.`;
    if (tool.origin.trusted || !finding) return undefined;
    return `The tool ${name} of ${tool.origin.source} was not added: ${finding.problem}`;
  }

  /** A policy that names the application's tool must not let in another. */
  private isWhatItSays({ spec, origin }: Tool): boolean {
    return [spec.declaredId, spec.id].every((id) => {
      const known = this.catalog.originOf(id) ?? this.catalog.announced.ownerOf(id);
      return !known || (known.source === origin.source && known.trusted === origin.trusted);
    });
  }
}

/** The tools that a condition waits for. */
const awaited = new WeakMap<StopCondition, readonly string[]>();

/**
 * Holds once one of these tools was called and succeeded: declared ids, short names, ids that the
 * model knows, or globs.
 */
export function calledTool(...tools: readonly [string, ...string[]]): StopCondition {
  const condition = withName(`calledTool(${tools.join(', ')})`, ({ toolCalls }) =>
    toolCalls.some(
      (record) => record.status === 'succeeded' && tools.some((tool) => isNamed(record, tool)),
    ),
  );
  awaited.set(condition, tools);
  return condition;
}

/**
 * Holds after a number of steps. Unlike `limits.steps` it is a wish and no limit: the run ends with
 * `stop`.
 *
 * @throws TypeError for anything but a whole number of 1 or more
 */
export function maxSteps(most: number): StopCondition {
  if (!(Number.isInteger(most) && most > 0))
    throw new TypeError(`maxSteps(${most}): give a whole number, 1 or more.`);
  return withName(`maxSteps(${most})`, ({ step }) => step >= most);
}

/** Names a condition for errors and for the detail of a finish reason. */
function withName(name: string, condition: StopCondition): StopCondition {
  return Object.defineProperty(condition, 'name', { value: name });
}

/**
 * Returns findings for conditions that never hold: values that are no condition, and conditions
 * that wait for tools which do not exist. `announced`: the tools that may join runs.
 */
export function stopFindings(
  stopWhen: unknown,
  at: string,
  catalog: ToolCatalog,
  announced: readonly string[] = [],
): Finding[] {
  const isAnnounced = (name: string): boolean =>
    announced.includes(name) || catalog.announced.has(name);
  const conditions: readonly unknown[] = stopWhen === undefined ? [] : [stopWhen].flat();
  return conditions.flatMap((condition) => {
    if (!isCondition(condition)) return [{ at: `${at} stopWhen`, ...NO_CONDITION }];
    const names = (awaited.get(condition) ?? []).filter((name) => !isAnnounced(name));
    return catalog
      .problemsWithCalled(names)
      .map(({ problem, remedy }) => ({ at: `${at} stopWhen`, problem, remedy }));
  });
}

/** One, several or none, as a list. */
export function stopConditionsOf(
  ...given: readonly (StopCondition | readonly StopCondition[] | undefined)[]
): readonly StopCondition[] {
  return given.flatMap((stopWhen) => stopWhen ?? []);
}

function isCondition(value: unknown): value is StopCondition {
  return typeof value === 'function';
}

const NO_CONDITION = {
  problem: 'A stop condition is not a function.',
  remedy: 'Give calledTool(…), maxSteps(…) or a function of the step.',
} as const;
