import type { LanguageModel, ModelOptions, ToolChoice } from './language-model.js';
import type { ToolSelector } from './loop-request.js';
import type { Message } from './message.js';
import type { RegisteredActor } from './register.js';
import type { RunContext } from './tool-call-context.js';
import type { ToolInvocationRecord } from './tool-invocation-record.js';
import type { ToolSpec } from './tool.js';
import type { Usage } from './usage.js';

/** The step that is about to begin, as it will be unless it is changed. */
export interface UpcomingStep<Actor = RegisteredActor> {
  /** From 1. */
  readonly step: number;
  /** What will be sent: the transcript as the history policy leaves it. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** Of the run so far. */
  readonly usage: Usage;
  /** Of the run so far, in order. */
  readonly toolCalls: readonly ToolInvocationRecord[];
  readonly run: RunContext<Actor>;
  /** Aborted with the run, which does not wait. */
  readonly signal: AbortSignal;
}

/** What is different in one step; the next starts from the run's own again. */
export interface StepChange {
  /** A model, or a name from the module's `models`. */
  readonly model?: LanguageModel | string;
  readonly instructions?: string;
  /**
   * Narrows the run's toolset to these, by selectors or by the ids of its specs. It can add nothing, and what is left out cannot be called in this
   * step either. Tools are injected as ever, and are there in the next step.
   */
  readonly tools?: readonly ToolSelector[];
  /** A forced tool must be among the step's own. @default in the first step the request's, else 'auto' */
  readonly toolChoice?: ToolChoice;
  /** What is sent instead, with a result for every call and a user message at least. The transcript stays whole. */
  readonly messages?: readonly Message[];
  /** Instead of the request's. */
  readonly modelOptions?: ModelOptions;
}

/** Looks at every step before its model call, and may change it. What it throws ends the run with `error`. */
export type PrepareStep<Actor = RegisteredActor> = (step: UpcomingStep<Actor>) => StepChange | undefined | Promise<StepChange | undefined>;
