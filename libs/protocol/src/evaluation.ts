import type { JsonObject } from './json.js';
import type { FinishReason, ToolInvocationRecord } from './loop-result.js';
import type { Usage } from './message.js';

/** A person's word about what a run did, or about one of its approvals. */
export interface Verdict {
  readonly runId: string;
  /** The approval that it is about. @default the whole run */
  readonly approvalId?: string;
  readonly verdict: 'right' | 'wrong';
  readonly why?: string;
  /** The person who says so. */
  readonly by: string;
  /** ISO 8601. */
  readonly at: string;
}

/** The word of a scorer about a run. */
export interface Score {
  readonly name: string;
  readonly passed: boolean;
  /** From 0 to 1. @default 1 where it passed, else 0 */
  readonly score?: number;
  /** The reason: what was expected and what was found. */
  readonly why?: string;
}

/**
 * A call of a run that was scored: its tool by the declared id, or by the called one where no tool
 * has it.
 */
export interface ScoredCall {
  readonly tool: string;
  readonly args: JsonObject;
  readonly status: ToolInvocationRecord['status'];
  readonly code?: string;
}

/** One run of a case, with its scores; JSON. */
export interface EvalRun {
  readonly case: string;
  readonly variant: string;
  /** From 1. */
  readonly repeat: number;
  readonly passed: boolean;
  readonly scores: readonly Score[];
  readonly runId: string;
  readonly finishReason: FinishReason;
  /** The final answer. */
  readonly text: string;
  readonly calls: readonly ScoredCall[];
  /** The number of calls that a person was to approve. */
  readonly approvals: number;
  readonly usage: Usage;
  readonly steps: number;
  readonly durationMs: number;
  readonly error?: string;
}

/** The runs of a variant together. */
export interface VariantSummary {
  readonly name: string;
  readonly runs: number;
  readonly passed: number;
  /** The share of runs that passed, from 0 to 1. */
  readonly passRate: number;
  /** The cases of which some runs passed and some did not. */
  readonly flaky: readonly string[];
  /** The cost of all runs, as far as it is known. */
  readonly costUsd?: number;
  readonly tokens: number;
  readonly approvals: number;
  /** The median of a run. */
  readonly medianMs: number;
}

/** The result of an evaluation; JSON. */
export interface EvalReport {
  readonly version: 1;
  readonly name: string;
  readonly variants: readonly VariantSummary[];
  readonly runs: readonly EvalRun[];
}
