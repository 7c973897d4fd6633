import type { Type } from '@nestjs/common';
import type { ExecutionOptions } from './execution-options.js';
import type { HistoryPolicy } from './history.js';
import type { LanguageModel, ModelOptions, ToolChoice } from './language-model.js';
import type { Limits } from './limits.js';
import type { Message } from './message.js';
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

/** What a run is told about, for logging and metrics of the application's own. They observe: what they throw is logged, and nothing else. */
export interface LoopHooks {
  onToolStart?(call: ToolCall, tool: ToolSpec): void | Promise<void>;
  onToolEnd?(record: ToolInvocationRecord): void | Promise<void>;
  onIteration?(iteration: LoopIteration): void | Promise<void>;
}

/** A step, as it ended. */
export interface LoopIteration {
  readonly runId: string;
  readonly step: number;
  readonly toolCalls: readonly ToolInvocationRecord[];
  /** Ids of the toolset the model saw. */
  readonly tools: readonly string[];
  readonly usage: Usage;
}

/** One use of the loop. `prompt` or `messages` is needed; who it acts for always is. */
export interface LoopRequest<Output = unknown, Actor = RegisteredActor> {
  readonly prompt?: string;
  /**
   * A conversation so far. It is checked, and it carries no authority: `system` ranks as user, and tool results count as untrusted. Use
   * `instructions` to instruct the model. With a `conversationId` only the newest user message is read.
   */
  readonly messages?: readonly Message[];
  /** @default the module's instructions */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /** A model, or a name from the module's `models`. @default the module's model */
  readonly model?: LanguageModel | string;
  /** Which of the catalog's tools to offer; policy still decides. @default all */
  readonly tools?: readonly ToolSelector[];
  /** Which tools not to offer, injected ones included. */
  readonly exclude?: readonly ToolSelector[];
  readonly actor: Actor;
  /** A single-tenant application passes a constant. */
  readonly tenant: string;
  /** Handed to tools as `context.context`; the model never sees it. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Narrows the module's policy for this run; it can never widen it. */
  readonly policy?: Policy;
  readonly limits?: Partial<Limits>;
  /** How the calls of this run are executed; wins over what the application and the tools say. */
  readonly execution?: Partial<ExecutionOptions>;
  /** Strategies that follow the entity tools' own; `false` turns injection off. */
  readonly injection?: readonly ToolInjectionStrategy[] | false;
  /** How the model is offered the tools of entities. @default the module's, else 'auto' */
  readonly surface?: EntitySurface;
  /** A class the final answer must be; its class-validator decorators give the schema. */
  readonly output?: Type<Output>;
  /**
   * What a failed tool does to the run. `retry` goes on as well, but reads, and tools that are `idempotent` or have an `idempotencyKey`, are attempted up to `limits.attempts` times:
   * after a timeout, an exception that nobody knows, a `ToolError` that says `retryable`, or Nest's 408, 429 and 5xx. @default 'continue'
   */
  readonly onToolError?: 'continue' | 'halt' | 'retry';
  /** What a refused call does to the run. @default 'continue' */
  readonly onForbidden?: 'continue' | 'halt';
  /** How much of the conversation the model is sent. @default the module's, else all of it */
  readonly history?: HistoryPolicy;
  /** Looks at every step before its model call, and may change it. @default the module's */
  readonly prepareStep?: PrepareStep<Actor>;
  /**
   * What becomes of a call that needs a person's yes. `suspend`: the run ends as `waiting`, and `ToolLoopService.resume` goes on with it. `wait`: the run
   * stays open until somebody answers, the approval expires or the run's time (`limits.runMs`) is up. `deny`: the call is refused. @default 'suspend'
   */
  readonly approvals?: 'suspend' | 'wait' | 'deny';
  readonly hooks?: LoopHooks;
  /** Over HTTP the `Idempotency-Key`. @default the run's id */
  readonly requestId?: string;
  /** Loads and keeps the history in the `ConversationStore`, per tenant and actor. */
  readonly conversationId?: string;
  readonly signal?: AbortSignal;
  /**
   * Keeps the run as it goes on, so that it outlives its process; it needs `@toolloop/durable`. What the request says must then be JSON, but for actor and
   * signal: classes and functions belong into a named loop. Whoever stops reading only stops reading. @default false
   */
  readonly durable?: boolean;
  /**
   * Ends the run with `stop` after a step for which one of them holds. Those of the application, the loop and the run add up.
   * @default none: the model decides when it is done
   */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** Holds for the first step only, so that a forced tool cannot loop. @default 'auto' */
  readonly toolChoice?: ToolChoice;
  /** Whether `toolChoice` holds for every step. A forced tool is then called until `stopWhen` or a limit ends the run, or the tool is gone. @default false */
  readonly keepToolChoice?: boolean;
  readonly modelOptions?: ModelOptions;
}

/** A request to go on with a run that waited: what it was asked is kept, everything else is said anew, and decided anew. */
export type ResumeRequest<Output = unknown, Actor = RegisteredActor> = Omit<
  LoopRequest<Output, Actor>,
  'prompt' | 'messages' | 'requestId' | 'conversationId'
>;
