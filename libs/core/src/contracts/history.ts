import type { LanguageModel, Message, ModelRequest } from '@toolloop/protocol';
import type { RunContext } from './tool-call.js';

/** What a model is sent of a transcript: what stands in for its beginning, then the rest. */
export interface HistoryCut {
  /**
   * Index of the first message that is sent. Where no step or user message begins, the loop goes back to where one does; the user message that a
   * step belongs to is sent with it, so the newest one always is. 0 sends everything.
   */
  readonly from: number;
  /** Of what is left out. Sent first, as data, in a user message that says what it is. */
  readonly summary?: string;
  /** Shown as a `warning` event, `history_failed`: why the cut is not what it should be. */
  readonly warning?: string;
}

/** What a policy may look at, before every model call. */
export interface HistoryContext {
  readonly run: RunContext;
  /** From 1. */
  readonly step: number;
  /** The whole transcript, past runs of the conversation included. Its messages are the same objects in every step. */
  readonly messages: readonly Message[];
  /** The cut that holds; undefined while everything is sent. */
  readonly cut: HistoryCut | undefined;
  /** Aborted with the run, and once the policy has answered. */
  readonly signal: AbortSignal;
  /**
   * Asks a model for a text, under the limits of the run, which counts what it costs. Throws for whatever is no whole answer.
   *
   * @param model the run's by default
   */
  readonly ask: (request: ModelRequest, model?: LanguageModel) => Promise<string>;
}

/**
 * Decides how much of a transcript a model is sent. Returns data, the loop applies it; the transcript itself stays whole. Holds no state of a run.
 *
 * A cut stays until the policy moves it. Move it seldom and far: each move costs the provider's prompt cache. A policy that throws changes nothing.
 */
export abstract class HistoryPolicy {
  /** Undefined leaves the cut where it is. */
  abstract cut(context: HistoryContext): HistoryCut | undefined | Promise<HistoryCut | undefined>;
}
