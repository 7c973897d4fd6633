import type { Type } from '@nestjs/common';
import { LanguageModel, isRecord } from '@toolloop/protocol';
import type { ExecutionOptions } from '../contracts/execution-options.js';
import type { HistoryPolicy } from '../contracts/history.js';
import { HOOKS, type LoopHooks } from '../contracts/hooks.js';
import type { RegisteredActor } from '../contracts/registered-actor.js';
import type { EntitySurface, ToolInjectionStrategy } from '../contracts/injection.js';
import type { Limits } from '../contracts/limits.js';
import { CLIENT_TOOLS, OF_ALL_RUNS, STRATEGIES, SURFACE } from '../contracts/loop-request.js';
import type { OperatorRule } from '../contracts/operator.js';
import { type Policy, PolicyEngine } from '../contracts/policy.js';
import { type Quota, QUOTAS } from '../contracts/quota.js';
import { type SessionOptions, SESSIONS } from '../contracts/session.js';
import { type SourceOptions, SOURCES } from '../contracts/source.js';
import type { PrepareStep } from '../contracts/prepare-step.js';
import type { StopCondition } from '../contracts/stop-condition.js';
import type { RunContext } from '../contracts/tool-call.js';
import { type InterceptorOptions, INTERCEPTORS } from '../contracts/tool-settings.js';
import {
  BOOLEAN,
  CLASS,
  FUNCTION,
  MODEL,
  TEXT,
  byNames,
  either,
  foreignModel,
  listOf,
  needed,
  optionsOf,
} from '../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions, type OptionRule } from '../findings/options.js';
import { type ModelPrices, PRICES } from '../models/model-prices.js';
import { AUDIT, type AuditOptions } from '../plugins/audit/audit-options.js';
import { type DirectiveOptions, DIRECTIVES } from '../plugins/directives/directive-options.js';
import type { RawTool } from '../tools/decorators/raw-tool.js';
import type { ToolFeatureOptions } from '../tools/discovery/tool-feature.js';
import { ROUTE_IDENTITY, type RouteIdentity } from '../tools/nest/route-layers.js';

/** The defaults and the bounds of every run of the application. */
export interface ToolLoopOptions<Actor = RegisteredActor> {
  /** Answers every run that names no other. */
  readonly model: LanguageModel;
  /** Further models, which a request can choose by name. */
  readonly models?: Readonly<Record<string, LanguageModel>>;
  /**
   * The prices of models by model id, for `usage.costUsd` and for budgets and quotas in USD.
   * @default only costs that providers report
   */
  readonly prices?: ModelPrices;
  /** Sent to the model before everything else. @default none */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /**
   * The policies; of several the strictest decision wins. @default nothing is allowed, so no tool
   * is listed
   */
  readonly policy?: Policy | readonly Policy[];
  /**
   * Policies with which operators may rehearse stored runs, by their names. They take the place of
   * the application's there, and decide about no call. @default none
   */
  readonly candidates?: Readonly<Record<string, CandidatePolicy>>;
  /**
   * Asks every tool's `canCall` already when a run starts and when tools are injected, so that the
   * model is not told of tools it may not call. Otherwise it is asked only at the call. @default
   * false
   */
  readonly strictListing?: boolean;
  /**
   * Refuses to start while nothing says who wrote some value in a tool's results: neither `origin`
   * of the field or around it, nor `returns: 'trusted'`. Without it such a value counts as a
   * stranger's. @default false
   */
  readonly strictLabels?: boolean;
  readonly limits?: Partial<Limits>;
  /**
   * The quotas of a tenant, over all its runs; no loop and no run can widen them. A function is
   * called for every run. @default no quotas
   */
  readonly quotas?: readonly Quota[] | ((tenant: string) => readonly Quota[]);
  /** Execution options for calls; a provider, a tool and a run can override them. */
  readonly execution?: Partial<ExecutionOptions>;
  /** Called for every call and step of every run, and for every effect of a directive. */
  readonly hooks?: LoopHooks;
  /** Decides how much of a conversation is sent to the model. @default `keepEverything()` */
  readonly history?: HistoryPolicy;
  /** Sees every step before its model call, and may change it. */
  readonly prepareStep?: PrepareStep<Actor>;
  /**
   * Ends a run with `stop` after a step if one of these conditions holds; those of its loop and its
   * request add up. @default none
   */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** The `agent_name` in the metadata of results. @default the model's id */
  readonly agentName?: string;
  /**
   * Tools that are not methods of a provider, made with `tool()`, `rawTool()` or `subRunTool()`.
   */
  readonly tools?: readonly RawTool[];
  /**
   * The ids under which a client may declare tools of its own in its request, for loops that list
   * none. @default none
   */
  readonly clientTools?: readonly string[];
  /** Strategies that run after the one for entity tools, in every run. */
  readonly injection?: readonly ToolInjectionStrategy[];
  /** The way entity tools are presented to the model. @default 'auto' */
  readonly surface?: EntitySurface;
  /**
   * Argument names that no tool may declare and no model may send; compared without regard to case,
   * `_` and `-`. @default tenant, tenantId, actor, actorId
   */
  readonly reservedArguments?: readonly string[];
  /**
   * The class of actors. A tool with a parameter of this class keeps the application from starting,
   * because the model must never choose who acts.
   */
  readonly actorClass?: Type;
  /**
   * The identity with which a controller's handlers are called as tools: what their guards find on
   * the request, and which guards are replaced. @default `user` is the actor
   */
  readonly identity?: RouteIdentity<Actor>;
  /**
   * Leaves interceptors of Nest out of every tool, such as one that wraps each response of HTTP:
   * `{ except: [ResponseWrapper] }`. @default all that apply run
   */
  readonly interceptors?: InterceptorOptions;
  /**
   * Returns an actor's id, for conversations, idempotency keys and the audit. @default its `id`, if
   * that is a string or a number
   */
  readonly actorId?: (actor: Actor) => string;
  /**
   * Returns an actor's roles, for policies and approvals. @default its `roles`, those that are
   * strings
   */
  readonly actorRoles?: (actor: Actor) => readonly string[];
  /** The times and limits for the sources of tools. @default see {@link SourceOptions} */
  readonly sources?: SourceOptions;
  /** Keeps an audit, chained by an HMAC with this key. @default no audit */
  readonly audit?: AuditOptions;
  /**
   * Says who is an operator: who may read the usage of others, change policies and look into runs.
   * Each use is in the audit. @default no actor is
   */
  readonly operators?: OperatorRule<Actor>;
  /** The limits on sessions. They are the application's: no request widens them. */
  readonly sessions?: SessionOptions;
  /** The operators of directives, and the way directives are performed. */
  readonly directives?: DirectiveOptions;
}

/** Argument names that no model may send and no tool may declare. */
export const DEFAULT_RESERVED_ARGUMENTS: readonly string[] = [
  'tenant',
  'tenantId',
  'actor',
  'actorId',
];

/**
 * A policy that decides nothing: operators compare its decisions with those of stored runs. An
 * engine of the application's own is asked like one that is in force.
 */
export type CandidatePolicy = Policy | readonly Policy[] | PolicyEngine;

/** Injects the options given to `ToolLoopModule.forRoot`. */
export const TOOL_LOOP_OPTIONS = Symbol('toolloop:options');

const ITS_MODEL: OptionRule<LanguageModel> = {
  ...MODEL,
  wanted: 'one: ToolLoopModule.forRoot({ model }). A factory that returns none has the same effect',
  problem: (value) => foreignModel(value) ?? 'There is no model, or it is not a LanguageModel.',
};

const CANDIDATE: OptionRule<CandidatePolicy> = {
  wanted: 'a policy, several or an engine',
  accept: (value) =>
    isRecord(value) || (Array.isArray(value) && value.length > 0 && value.every(isRecord)),
};

/**
 * The options of `forRoot`, those of the module included. Raw tools and policies are checked with
 * all that they are about.
 */
export const APPLICATION = defineOptions<
  ToolLoopOptions & { readonly providers?: unknown; readonly imports?: unknown }
>({
  ...OF_ALL_RUNS,
  model: needed(ITS_MODEL),
  models: byNames(MODEL, 'models by their names'),
  candidates: byNames(CANDIDATE, 'policies by their names'),
  prices: PRICES,
  strictListing: BOOLEAN,
  strictLabels: BOOLEAN,
  surface: SURFACE,
  quotas: either(FUNCTION, QUOTAS),
  agentName: TEXT,
  tools: CHECKED_BY_USE,
  clientTools: CLIENT_TOOLS,
  injection: STRATEGIES,
  reservedArguments: listOf(TEXT, 'a list of names'),
  actorClass: CLASS,
  actorId: FUNCTION,
  identity: optionsOf(ROUTE_IDENTITY),
  interceptors: optionsOf(INTERCEPTORS),
  actorRoles: FUNCTION,
  operators: FUNCTION,
  hooks: optionsOf(HOOKS),
  audit: optionsOf(AUDIT),
  directives: optionsOf(DIRECTIVES),
  sources: optionsOf(SOURCES),
  sessions: optionsOf(SESSIONS),
  providers: CHECKED_BY_USE,
  imports: CHECKED_BY_USE,
});

export const FEATURE = defineOptions<ToolFeatureOptions>({
  entities: CHECKED_BY_USE,
  imports: CHECKED_BY_USE,
  tools: CHECKED_BY_USE,
  loops: byNames(CHECKED_BY_USE, 'an object'),
});
