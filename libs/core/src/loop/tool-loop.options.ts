import type { Type } from '@nestjs/common';
import type { AuditOptions } from '../audit/audit.options.js';
import type { RawTool } from '../decorators/raw-tool.js';
import type { ModelPrices } from '../model/model-prices.js';
import type { ExecutionOptions } from '../protocol/execution-options.js';
import type { HistoryPolicy } from '../protocol/history.js';
import type { LanguageModel } from '../protocol/language-model.js';
import type { Limits } from '../protocol/limits.js';
import type { Policy } from '../protocol/policy.js';
import type { Quota } from '../protocol/quota.js';
import type { RegisteredActor } from '../protocol/register.js';
import type { PrepareStep } from '../protocol/step-preparation.js';
import type { StopCondition } from '../protocol/stop-condition.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { EntitySurface, ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { DirectiveOptions } from './directives/directive.options.js';

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
