import type { LanguageModel, Message, ModelRequest } from '@toolloop/protocol';
import type { RunContext } from './tool-call.js';

/**
 * Decides how much of a transcript a model is sent. Returns data, which the loop applies; the
 * transcript itself stays whole. Holds no state of a run.
 *
 * A cut stays until the policy moves it. Move it seldom and far: each move costs the provider's
 * prompt cache. A policy that throws changes nothing.
 *
 * @example
 * class LastTwenty extends HistoryPolicy {
 *   cut({ messages, cut }: HistoryContext): HistoryCut | undefined {
 *     const from = messages.length - 20;
 *     return from - (cut?.from ?? 0) >= 20 ? { from } : undefined;
 *   }
 * }
 */
export abstract class HistoryPolicy {
  /** Undefined leaves the cut where it is. */
  abstract cut(context: HistoryContext): HistoryCut | undefined | Promise<HistoryCut | undefined>;
}

/**
 * The part of a transcript that a model is sent: a summary in the place of its beginning, then the
 * rest.
 */
export interface HistoryCut {
  /**
   * Index of the first message that is sent. Where no step or user message begins, the loop goes
   * back to where one does; the user message that a step belongs to is sent with it, so the newest
   * one always is. 0 sends everything.
   */
  readonly from: number;
  /**
   * A summary of the messages that are left out. Sent first, as data, in a user message that says
   * so.
   */
  readonly summary?: string;
  /**
   * The reason why the cut is not as it should be, shown as a `warning` event, `history_failed`.
   */
  readonly warning?: string;
}

/** The input of a policy, before every model call. */
export interface HistoryContext {
  readonly run: RunContext;
  /** From 1. */
  readonly step: number;
  /**
   * The whole transcript, past runs of the conversation included. Its messages are the same objects
   * in every step.
   */
  readonly messages: readonly Message[];
  /** The cut that holds; undefined while everything is sent. */
  readonly cut: HistoryCut | undefined;
  /** Aborted with the run, and once the policy has answered. */
  readonly signal: AbortSignal;
  /**
   * Asks a model for a text, under the limits of the run, which counts what it costs. Throws for
   * whatever is no whole answer.
   *
   * @param model the run's by default
   */
  readonly ask: (request: ModelRequest, model?: LanguageModel) => Promise<string>;
}
