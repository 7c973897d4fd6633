import type { Type } from '@nestjs/common';
import type { ExecutionOptions } from './execution-options.js';
import type { HistoryPolicy } from './history.js';
import type { LanguageModel, ModelOptions, ToolChoice } from './language-model.js';
import type { Limits } from './limits.js';
import type { Message, MessageLabels } from './message.js';
import type { Policy } from './policy.js';
import type { RegisteredActor } from './register.js';
import type { PrepareStep } from './step-preparation.js';
import type { StopCondition } from './stop-condition.js';
import type { RunContext } from './tool-call-context.js';
import type { EntitySurface, ToolInjectionStrategy } from './tool-injection.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { ToolCall } from './message.js';
import type { ToolSpec } from './tool.js';
import type { Usage } from './usage.js';

/**
 * Names tools of the catalog: a declared id, a glob over declared ids, a short name that only one tool has, a provider class, or a predicate.
 */
export type ToolSelector = string | Type | ((tool: ToolSpec) => boolean);

/** Callbacks for the application's own logging and metrics. They only observe: what they throw is logged and changes nothing. */
export interface LoopHooks {
  onToolStart?(call: ToolCall, tool: ToolSpec): void | Promise<void>;
  onToolEnd?(record: ToolInvocationRecord): void | Promise<void>;
  onIteration?(iteration: LoopIteration): void | Promise<void>;
}

/** A step that has ended. */
export interface LoopIteration {
  readonly runId: string;
  readonly step: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Ids of the toolset the model saw. */
  readonly tools: readonly string[];
  readonly usage: Usage;
}

/** One use of the loop. Give `prompt` or `messages`, and always `actor` and `tenant`. */
export interface LoopRequest<Output = unknown, Actor = RegisteredActor> {
  readonly prompt?: string;
  /**
   * The conversation so far. It is checked and carries no authority: `system` ranks as user, and tool results count as untrusted. Use
   * `instructions` to instruct the model. With a `conversationId`, only the newest user message is read.
   */
  readonly messages?: readonly Message[];
  /**
   * Whether anybody may know what the user says and what the instructions say. While it is `private`, a run that has read untrusted content asks before a
   * call that can carry it out. @default { reads: 'private' }
   */
  readonly labels?: Pick<MessageLabels, 'reads'>;
  /** @default the module's instructions */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /** A model, or a name from the module's `models`. @default the module's model */
  readonly model?: LanguageModel | string;
  /** Which of the catalog's tools to offer; policy still decides. @default all */
  readonly tools?: readonly ToolSelector[];
  /** Which tools not to offer, injected ones included. */
  readonly exclude?: readonly ToolSelector[];
  /** Whom the run acts for; an application without users passes a constant. */
  readonly actor: Actor;
  /** Whose data the run is about; a single-tenant application passes a constant. */
  readonly tenant: string;
  /** Handed to tools as `context.context`; the model never sees it. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Narrows the module's policy for this run; it can never widen it. */
  readonly policy?: Policy;
  readonly limits?: Partial<Limits>;
  /** How the calls of this run are executed; overrides what the application and the tools say. */
  readonly execution?: Partial<ExecutionOptions>;
  /** Strategies that run after the one for entity tools; `false` turns injection off, for entity tools as well. */
  readonly injection?: readonly ToolInjectionStrategy[] | false;
  /** How entity tools are presented to the model. @default the module's, else 'auto' */
  readonly surface?: EntitySurface;
  /** The class of the final answer; its class-validator decorators give the schema. */
  readonly output?: Type<Output>;
  /**
   * What a failed tool does to the run. `retry` is like `continue`, but first attempts reads, and tools that are `idempotent` or have an `idempotencyKey`, up to `limits.attempts` times:
   * after a timeout, an unknown exception, a `ToolError` with `retryable`, or Nest's 408, 429 and 5xx. @default 'continue'
   */
  readonly onToolError?: 'continue' | 'halt' | 'retry';
  /** What a refused call does to the run. @default 'continue' */
  readonly onForbidden?: 'continue' | 'halt';
  /** How much of the conversation is sent to the model. @default the module's, else all of it */
  readonly history?: HistoryPolicy;
  /** Sees every step before its model call, and may change it. @default the module's */
  readonly prepareStep?: PrepareStep<Actor>;
  /**
   * What happens to a call that needs approval. `suspend`: the run ends as `waiting`, and `ToolLoopService.resume` continues it. `wait`: the run
   * stays open until somebody answers, the approval expires or the run's time (`limits.runMs`) is up. `deny`: the call is refused. @default 'suspend'
   */
  readonly approvals?: 'suspend' | 'wait' | 'deny';
  readonly hooks?: LoopHooks;
  /** Makes a repeated request recognisable, so that the effects of its calls happen once; over HTTP, the `Idempotency-Key`. @default the run's id */
  readonly requestId?: string;
  /** Loads the history from the `ConversationStore` and adds the run to it, per tenant and actor. @default the run stands alone */
  readonly conversationId?: string;
  readonly signal?: AbortSignal;
  /**
   * Writes the run to storage as it proceeds, so that it outlives its process; needs `@toolloop/durable`. The request must then be JSON, except for actor and
   * signal: classes and functions belong in a named loop. Unsubscribing does not stop the run. @default false
   */
  readonly durable?: boolean;
  /**
   * Ends the run with `stop` after a step if one of these conditions holds. Those of the application, the loop and the run add up.
   * @default none: the model decides when it is done
   */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** Applies to the first step only, so that a forced tool cannot loop. @default 'auto' */
  readonly toolChoice?: ToolChoice;
  /** Applies `toolChoice` to every step. A forced tool is then called until `stopWhen` or a limit ends the run, or the tool is gone. @default false */
  readonly keepToolChoice?: boolean;
  readonly modelOptions?: ModelOptions;
}

/** A request to resume a run that waited. The question is kept; everything else is given again, and policy decides again. */
export type ResumeRequest<Output = unknown, Actor = RegisteredActor> = Omit<
  LoopRequest<Output, Actor>,
  'prompt' | 'messages' | 'requestId' | 'conversationId'
>;
