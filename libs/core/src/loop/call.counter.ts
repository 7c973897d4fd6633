import { parseJson } from '../execution/from-arguments.js';
import type { FinishReason } from '../protocol/loop-result.js';
import type { Limits } from '../protocol/limits.js';
import type { ToolCall } from '../protocol/message.js';
import type { ToolErrorCode, ToolFailure } from '../protocol/tool-error.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import { canonicalJson } from '../schema/canonical-json.js';

/** Why a call may not happen, and how the run ends for it. */
export interface LimitReached {
  readonly refusal: ToolFailure;
  readonly reason: FinishReason;
}

/** JSON. */
export interface SavedCounts {
  readonly perTool: readonly (readonly [string, number])[];
  readonly identical: readonly (readonly [string, number])[];
  readonly refusals: number;
}

const REFUSED = new Set<ToolErrorCode>(['unknown_tool', 'policy_denied', 'forbidden', 'approval_denied', 'tenant_override']);

/** Counts one run's calls against its limits. */
export class CallCounter {
  private readonly perTool: Map<string, number>;
  private readonly identical: Map<string, number>;
  private refusals: number;
  /** What was counted since it was taken last. */
  private readonly counted = { perTool: new Set<string>(), identical: new Set<string>() };

  constructor(
    private readonly limits: Limits,
    saved: SavedCounts = { perTool: [], identical: [], refusals: 0 },
    /** Of the run around a sub-run: its calls are that run's too. */
    private readonly outer?: CallCounter,
  ) {
    this.perTool = new Map(saved.perTool);
    this.identical = new Map(saved.identical);
    this.refusals = saved.refusals;
  }

  save(): SavedCounts {
    return { perTool: [...this.perTool], identical: [...this.identical], refusals: this.refusals };
  }

  /** The counts that have changed since they were taken last. */
  takeChanged(): SavedCounts {
    const { perTool, identical } = this.counted;
    const changed = { perTool: changedOf(this.perTool, perTool), identical: changedOf(this.identical, identical), refusals: this.refusals };
    perTool.clear();
    identical.clear();
    return changed;
  }

  /** Counts a call; answers with the limit it goes beyond. */
  admit(call: ToolCall, declaredId: string): LimitReached | undefined {
    const most = this.mostReached(declaredId);
    const key = `${call.name} ${this.canonical(call.arguments)}`;
    const same = countIn(this.identical, key);
    this.counted.identical.add(key);
    if (same > this.limits.identicalCalls) {
      return limit('no_progress', `This very call was made ${this.limits.identicalCalls} times already. Its result will not change.`);
    }
    return most === undefined ? undefined : limit('max_calls', `This tool was called ${most} times already, which is the limit.`);
  }

  /** Counts a call of a tool, here and around; answers with the limit that it goes beyond. */
  private mostReached(declaredId: string): number | undefined {
    const calls = countIn(this.perTool, declaredId);
    this.counted.perTool.add(declaredId);
    const around = this.outer?.mostReached(declaredId);
    return calls > this.limits.callsPerTool ? this.limits.callsPerTool : around;
  }

  /** Looks for unknown tools and refused calls in a row, in the order of the calls. */
  refusalLimit(records: readonly ToolInvocationRecord[]): FinishReason | undefined {
    for (const { error } of records) {
      this.refusals = error && REFUSED.has(error.code) ? this.refusals + 1 : 0;
      if (error && this.refusals > 0 && this.refusals >= this.limits.refusalsInARow)
        return error.code === 'unknown_tool' ? 'no_progress' : 'forbidden';
    }
    return undefined;
  }

  /** Arguments too large to be taken, or too deep to be walked, are compared as they stand. */
  private canonical(text: string): string {
    if (text.length > this.limits.argumentBytes) return text;
    try {
      const value = parseJson(text);
      return value === undefined ? text : canonicalJson(value);
    } catch {
      return text;
    }
  }
}

function limit(reason: FinishReason, safeMessage: string): LimitReached {
  return { reason, refusal: { code: 'budget_exceeded', safeMessage } };
}

function countIn(counts: Map<string, number>, key: string): number {
  const count = (counts.get(key) ?? 0) + 1;
  counts.set(key, count);
  return count;
}

function changedOf(counts: ReadonlyMap<string, number>, changed: ReadonlySet<string>): SavedCounts['perTool'] {
  return [...changed].map((key) => [key, counts.get(key) ?? 0]);
}
