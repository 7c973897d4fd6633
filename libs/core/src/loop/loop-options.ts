import type { Type } from '@nestjs/common';
import { type Finding, isRecord, LanguageModel, type ModelOptions } from '@toolloop/protocol';
import type { AuditOptions } from '../audit/audit-options.js';
import { closestTo } from '../catalog/tool-selection.js';
import type { EntitySurface, ToolInjectionStrategy } from '../contracts/injection.js';
import type { Limits, Quota } from '../contracts/limits.js';
import type {
  HistoryPolicy,
  LoopHooks,
  LoopProfile,
  LoopRequest,
  PrepareStep,
  StepChange,
  StopCondition,
  SubRun,
} from '../contracts/loop-request.js';
import type { Policy } from '../contracts/policy.js';
import type { ExecutionOptions, RegisteredActor, RunContext } from '../contracts/tool-call.js';
import type { RawTool } from '../decorators/raw-tool.js';
import type { DirectiveOptions } from './directive-options.js';
import type { ToolFeatureOptions } from '../discovery/tool-feature.js';
import {
  BOOLEAN,
  CLASS,
  either,
  FUNCTION,
  listOf,
  NUMBER,
  OBJECT,
  oneOf,
  optionFindings,
  type OptionNames,
  type OptionValue,
  type OptionValues,
  TEXT,
  valueFindings,
  whatCan,
  WHOLE_ABOVE_ZERO,
} from '../findings/options.js';
import { type ModelPrices, PricedModel, priceOf } from '../models/priced.js';
import { policyList } from '../policy/policy-engine.js';
import { SELECTORS } from '../strategies/triggers.js';

/** Argument names that no model may send and no tool may declare. */
export const DEFAULT_RESERVED_ARGUMENTS: readonly string[] = ['tenant', 'tenantId', 'actor', 'actorId'];

/** The defaults and the bounds of every run of the application. */
export interface ToolLoopOptions<Actor = RegisteredActor> {
  /** Answers every run that names no other. */
  readonly model: LanguageModel;
  /** Further models, which a request can choose by name. */
  readonly models?: Readonly<Record<string, LanguageModel>>;
  /** What models cost, by model id, for `usage.costUsd` and for budgets and quotas in USD. @default only costs that providers report */
  readonly prices?: ModelPrices;
  /** Sent to the model before everything else. @default none */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /** Who may call what; of several policies the strictest decision wins. @default nothing is allowed, so no tool is listed */
  readonly policy?: Policy | readonly Policy[];
  /**
   * Asks every tool's `canCall` already when a run starts and when tools are injected, so that the model is not told of tools it may not call. Otherwise it is
   * asked only at the call. @default false
   */
  readonly strictListing?: boolean;
  readonly limits?: Partial<Limits>;
  /** What all runs of a tenant together may use; no loop and no run can widen it. A function is called for every run. @default no quotas */
  readonly quotas?: readonly Quota[] | ((tenant: string) => readonly Quota[]);
  /** How calls are executed; a provider, a tool and a run can override it. */
  readonly execution?: Partial<ExecutionOptions>;
  /** How much of a conversation is sent to the model. @default `keepEverything()` */
  readonly history?: HistoryPolicy;
  /** Sees every step before its model call, and may change it. */
  readonly prepareStep?: PrepareStep<Actor>;
  /** Ends a run with `stop` after a step if one of these conditions holds; those of its loop and its request add up. @default none */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** The `agent_name` in the metadata of results. @default the model's id */
  readonly agentName?: string;
  /** Tools that are not methods of a provider, made with `tool()`, `rawTool()` or `subRunTool()`. */
  readonly tools?: readonly RawTool[];
  /** Strategies that run after the one for entity tools, in every run. */
  readonly injection?: readonly ToolInjectionStrategy[];
  /** How entity tools are presented to the model. @default 'auto' */
  readonly surface?: EntitySurface;
  /** Argument names that no tool may declare and no model may send; compared without regard to case, `_` and `-`. @default tenant, tenantId, actor, actorId */
  readonly reservedArguments?: readonly string[];
  /** The class of actors. A tool with a parameter of this class keeps the application from starting, because the model must never choose who acts. */
  readonly actorClass?: Type;
  /** Returns an actor's id, for conversations, idempotency keys and the audit. @default its `id`, if that is a string or a number */
  readonly actorId?: (actor: Actor) => string;
  /** Returns an actor's roles, for policies and approvals. @default its `roles`, those that are strings */
  readonly actorRoles?: (actor: Actor) => readonly string[];
  /** Keeps an audit, chained by an HMAC with this key. @default no audit */
  readonly audit?: AuditOptions;
  /** Who operates directives, and how they are performed. */
  readonly directives?: DirectiveOptions;
}

/** Injects the options given to `ToolLoopModule.forRoot`. */
export const TOOL_LOOP_OPTIONS = Symbol('toolloop:options');

/** What a request takes; a profile takes no others. */
export const REQUEST_OPTIONS: OptionNames<LoopRequest> = {
  prompt: true,
  messages: true,
  labels: true,
  instructions: true,
  model: true,
  tools: true,
  exclude: true,
  actor: true,
  tenant: true,
  context: true,
  policy: true,
  limits: true,
  execution: true,
  injection: true,
  surface: true,
  output: true,
  onToolError: true,
  onForbidden: true,
  history: true,
  prepareStep: true,
  durable: true,
  approvals: true,
  hooks: true,
  requestId: true,
  conversationId: true,
  signal: true,
  stopWhen: true,
  toolChoice: true,
  keepToolChoice: true,
  modelOptions: true,
};

/** What `subRunTool()` takes beside what every tool takes. */
export const SUB_RUN_OPTIONS: OptionNames<SubRun> = {
  prompt: true,
  effect: true,
  tools: true,
  exclude: true,
  model: true,
  instructions: true,
  policy: true,
  limits: true,
  history: true,
  prepareStep: true,
  stopWhen: true,
  toolChoice: true,
  keepToolChoice: true,
  modelOptions: true,
  output: true,
  summaryBytes: true,
};

/** What `forRoot` takes, with what it takes for the module. */
export const APPLICATION_OPTIONS: OptionNames<ToolLoopOptions> & { readonly providers: true; readonly imports: true } = {
  model: true,
  models: true,
  instructions: true,
  policy: true,
  strictListing: true,
  surface: true,
  limits: true,
  quotas: true,
  execution: true,
  history: true,
  prepareStep: true,
  stopWhen: true,
  agentName: true,
  tools: true,
  injection: true,
  reservedArguments: true,
  actorClass: true,
  actorId: true,
  actorRoles: true,
  audit: true,
  directives: true,
  prices: true,
  providers: true,
  imports: true,
};

/** What `forFeature` takes. */
export const FEATURE_OPTIONS: OptionNames<ToolFeatureOptions> = { entities: true, imports: true, tools: true, loops: true };

/** What `prepareStep` may return. */
export const STEP_CHANGES: OptionNames<StepChange> = {
  model: true,
  instructions: true,
  tools: true,
  toolChoice: true,
  messages: true,
  modelOptions: true,
};

type KnownValues = Readonly<Record<string, OptionValue>>;

const MODEL: OptionValue = either({ wanted: 'a LanguageModel', accept: (value) => value instanceof LanguageModel }, TEXT);
const HISTORY: OptionValue = whatCan('cut', 'a HistoryPolicy, such as slidingWindow(…)');
const STRATEGIES: OptionValue = listOf(whatCan('evaluate', ''), 'a list of strategies, such as unlock(…)');
const OFF: OptionValue = { wanted: 'false', accept: (value) => value === false };
const SHARED = {
  instructions: either(TEXT, FUNCTION),
  limits: OBJECT,
  execution: OBJECT,
  history: HISTORY,
  prepareStep: FUNCTION,
} as const satisfies KnownValues;

/** What a named loop, a sub-run and a request have in common. What is not here is checked where it is used. */
export const PROFILE_VALUES: KnownValues = {
  ...SHARED,
  tools: SELECTORS,
  exclude: SELECTORS,
  injection: either(STRATEGIES, OFF),
  output: CLASS,
  hooks: OBJECT,
  labels: OBJECT,
  durable: BOOLEAN,
  keepToolChoice: BOOLEAN,
  modelOptions: OBJECT,
};

export const REQUEST_VALUES: KnownValues = { ...PROFILE_VALUES, model: MODEL };

export const APPLICATION_VALUES: KnownValues = {
  ...SHARED,
  injection: STRATEGIES,
  models: OBJECT,
  prices: OBJECT,
  strictListing: BOOLEAN,
  agentName: TEXT,
  actorId: FUNCTION,
  actorRoles: FUNCTION,
  actorClass: CLASS,
};

/** What a sub-run says beside what a loop does. */
export const SUB_RUN_VALUES: KnownValues = { summaryBytes: WHOLE_ABOVE_ZERO, prompt: FUNCTION, output: CLASS };

/** What `prepareStep` may return. */
export const STEP_VALUES: KnownValues = { model: MODEL, instructions: TEXT, tools: SELECTORS, modelOptions: OBJECT };

const HOOKS: OptionValues<LoopHooks> = { onToolStart: FUNCTION, onToolEnd: FUNCTION, onIteration: FUNCTION };
const LABELS: OptionValues<NonNullable<LoopRequest['labels']>> = { reads: oneOf('public', 'private') };
const MODEL_OPTIONS: OptionValues<ModelOptions> = {
  temperature: NUMBER,
  topP: NUMBER,
  maxOutputTokens: WHOLE_ABOVE_ZERO,
  seed: NUMBER,
  stopSequences: listOf(TEXT, 'a list of texts'),
  provider: OBJECT,
};

/** Values that options do not take, those within `modelOptions`, `hooks` and `labels` as well. */
export function shapeFindings(given: object, known: KnownValues, at: string): Finding[] {
  return [
    ...valueFindings(given, known, at),
    ...withinFindings(given, 'modelOptions', MODEL_OPTIONS, at),
    ...withinFindings(given, 'hooks', HOOKS, at),
    ...withinFindings(given, 'labels', LABELS, at),
  ];
}

function withinFindings(given: object, name: string, known: KnownValues, at: string): Finding[] {
  const options: unknown = Reflect.get(given, name);
  return isRecord(options) ? optionFindings(options, known, `${at} ${name}`) : [];
}

/** The options of a request that are one of a few words. */
const CHOICES = {
  approvals: ['suspend', 'wait', 'deny'],
  onToolError: ['continue', 'halt', 'retry'],
  onForbidden: ['continue', 'halt'],
  surface: ['auto', 'named', 'grouped', 'dispatcher'],
  toolChoice: ['auto', 'none', 'required'],
} as const satisfies { readonly [Option in keyof LoopRequest]?: readonly LoopRequest[Option][] };

/** A word that is none of an option's would be taken for one of them. */
export function choiceFindings(options: Readonly<Record<string, unknown>>, at: string): Finding[] {
  return Object.entries(CHOICES).flatMap(([name, known]: [string, readonly string[]]) => {
    const value = options[name];
    if (name === 'toolChoice' && isForced(value)) return [];
    if (value === undefined || known.some((one) => one === value)) return [];
    const closest = typeof value === 'string' ? closestTo(value, known, 1) : [];
    const remedy = `Did you mean "${closest.join('') || known.join('", "')}"?`;
    return [{ at, problem: `The option "${name}" is ${JSON.stringify(value)}.`, remedy }];
  });
}

function isForced(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'tool' in value && typeof value.tool === 'string';
}

/** Who may be asked, and under which budgets and limits. */
export interface CostSurroundings {
  readonly application: Pick<ToolLoopOptions, 'model' | 'models' | 'prices' | 'policy' | 'limits'>;
  /** Its loops and sub-runs. */
  readonly profiles: readonly Pick<LoopProfile, 'model' | 'policy' | 'limits'>[];
}

/**
 * What to say when the application starts, where a budget or a limit is in USD and a model has no price: whether a provider reports its costs shows only as it
 * answers.
 */
export function unpricedWarning({ application, profiles }: CostSurroundings): string | undefined {
  const { model: shared, models: named = {}, prices = {}, policy, limits } = application;
  const policies = [...policyList(policy), ...profiles.flatMap((profile) => profile.policy ?? [])];
  const hasBudget = policies.some(({ runBudgets = [] }) => runBudgets.some(({ usd }) => usd !== undefined));
  const hasLimit = [limits, ...profiles.map((profile) => profile.limits)].some((own) => own?.usd !== undefined && own.usd < Infinity);
  if (!hasBudget && !hasLimit) return undefined;
  const models = [shared, ...Object.values(named), ...profiles.map(({ model }) => model)];
  const given = models.filter((model) => model instanceof LanguageModel);
  const unpriced = given.filter((model) => !(model instanceof PricedModel) && !priceOf(model, prices));
  if (unpriced.length === 0) return undefined;
  const names = [...new Set(unpriced.map(({ provider, modelId }) => `${provider}/${modelId}`))].join(', ');
  return `A budget or limit is in USD, and there is no price for ${names}. Unless its answers report their cost, calls under the budget are refused, and runs under the limit end. Give ToolLoopModule.forRoot({ prices }).`;
}
