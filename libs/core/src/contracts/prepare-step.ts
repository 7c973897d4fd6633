import type {
  LanguageModel,
  Message,
  ModelOptions,
  ToolChoice,
  ToolInvocationRecord,
  ToolSpec,
  Usage,
} from '@toolloop/protocol';
import { OBJECT, TEXT, listOf } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';
import type { RegisteredActor } from './registered-actor.js';
import { OF_A_STEP } from './step-options.js';
import type { RunContext } from './tool-call.js';
import type { ToolSelector } from './tool-selector.js';

/**
 * Looks at every step before its model call, and may change it. What it throws ends the run with
 * `error`.
 */
export type PrepareStep<Actor = RegisteredActor> = (
  step: UpcomingStep<Actor>,
) => StepChange | undefined | Promise<StepChange | undefined>;

/** The step that is about to begin, as it will be unless it is changed. */
export interface UpcomingStep<Actor = RegisteredActor> {
  /** From 1. */
  readonly step: number;
  /** The messages to send: the transcript as the history policy leaves it. */
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  /** The usage of the run so far. */
  readonly usage: Usage;
  /** The calls of the run so far, in order. */
  readonly toolCalls: readonly ToolInvocationRecord[];
  readonly run: RunContext<Actor>;
  /** Aborted with the run, which does not wait. */
  readonly signal: AbortSignal;
}

/** The changes for one step; the next starts from the run's own options again. */
export interface StepChange {
  /** A model, or a name from the module's `models`. */
  readonly model?: LanguageModel | string;
  readonly instructions?: string;
  /**
   * Narrows the run's toolset to these, by selectors or by the ids of its specs. It can add
   * nothing, and what is left out cannot be called in this step either. Tools are injected as ever,
   * and are there in the next step.
   */
  readonly tools?: readonly ToolSelector[];
  /**
   * A forced tool must be among the step's own. @default in the first step the request's, else
   * 'auto'
   */
  readonly toolChoice?: ToolChoice;
  /**
   * The messages to send instead, with a result for every call and at least one user message. The
   * transcript stays whole.
   */
  readonly messages?: readonly Message[];
  /** Replaces the request's options. */
  readonly modelOptions?: ModelOptions;
}

/** The options that `prepareStep` may return. */
export const STEP_CHANGE = defineOptions<StepChange>({
  ...OF_A_STEP,
  instructions: TEXT,
  messages: listOf(OBJECT, 'a list of messages'),
});
