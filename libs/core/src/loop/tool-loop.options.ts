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

/** What holds for every run of the application, unless its request narrows it. */
export interface ToolLoopOptions<Actor = RegisteredActor> {
  readonly model: LanguageModel;
  /** Further models, which a request may name. */
  readonly models?: Readonly<Record<string, LanguageModel>>;
  /** What models cost, by their ids, for `usage.costUsd`, budgets and quotas in USD. @default only what providers say themselves */
  readonly prices?: ModelPrices;
  /** What the model is told before everything else. */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /** @default nothing is allowed, so no tool is listed */
  readonly policy?: Policy | readonly Policy[];
  /**
   * Asks every tool's `canCall` when a run starts and when tools are injected, so that the model is not told of what it may not call. Else it is asked at the
   * call alone. @default false
   */
  readonly strictListing?: boolean;
  readonly limits?: Partial<Limits>;
  /** What each tenant may use across its runs; no loop and no run can widen it. A function is asked for every run. @default no quotas */
  readonly quotas?: readonly Quota[] | ((tenant: string) => readonly Quota[]);
  /** How calls are executed, unless a provider, a tool or a run says otherwise. */
  readonly execution?: Partial<ExecutionOptions>;
  /** How much of a conversation the model is sent. @default `keepEverything()` */
  readonly history?: HistoryPolicy;
  /** Looks at every step before its model call, and may change it. */
  readonly prepareStep?: PrepareStep<Actor>;
  /** Each of them ends a run with `stop` after a step for which it holds, beside those of its loop and its request. */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** Who calls, in the metadata of results. @default the model's id */
  readonly agentName?: string;
  /** Tools that are no methods of providers, made by `tool()`, `rawTool()` or `subRunTool()`. */
  readonly tools?: readonly RawTool[];
  /** Strategies that follow the entity tools' own, in every run. */
  readonly injection?: readonly ToolInjectionStrategy[];
  /** How models are offered the tools of entities. @default 'auto' */
  readonly surface?: EntitySurface;
  /** @default tenant, tenantId, actor, actorId; compared without regard to case, `_` and `-` */
  readonly reservedArguments?: readonly string[];
  /** A tool's parameter of this class stops the start: the model never chooses who acts. */
  readonly actorClass?: Type;
  /** What identifies an actor, for conversations, idempotency keys and the audit. @default its `id`, where that is a string or a number */
  readonly actorId?: (actor: Actor) => string;
  /** What an actor may be called by in policies and approvals. @default its `roles`, where those are strings */
  readonly actorRoles?: (actor: Actor) => readonly string[];
  /** Keeps an audit, chained by an HMAC with this key. @default no audit is kept */
  readonly audit?: AuditOptions;
  /** Who looks after directives, and how they are performed. */
  readonly directives?: DirectiveOptions;
}
