import type {
  FinishReason,
  ToolCall,
  ToolErrorCode,
  ToolFailure,
  ToolInvocationRecord,
} from '@toolloop/protocol';
import type { Limits } from '../../contracts/limits.js';
import { canonicalJson, parseJson, sha256 } from '../../schema/canonical-json.js';
import { NUMBER, list, object, pair } from '../../schema/saved-form.js';
import type { ApprovalMode } from '../approvals/run-approvals.js';

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

export const SAVED_COUNTS = object<SavedCounts>({
  perTool: list(pair(NUMBER)),
  identical: list(pair(NUMBER)),
  refusals: NUMBER,
});

/** Returns whether a call was refused, or named a tool that is not there. */
export function isRefusal({ error }: Pick<ToolInvocationRecord, 'error'>): boolean {
  return error !== undefined && REFUSED.has(error.code);
}

/**
 * Tells whether a call was refused with the one before it: a person who says no to a group says it
 * once.
 */
function isSameNo(
  { error, declaredId }: ToolInvocationRecord,
  before: ToolInvocationRecord | undefined,
): boolean {
  return (
    error?.code === 'approval_denied' &&
    before?.error?.code === error.code &&
    before.declaredId === declaredId
  );
}

const REFUSED = new Set<ToolErrorCode>([
  'unknown_tool',
  'policy_denied',
  'forbidden',
  'approval_denied',
  'tenant_override',
]);

/**
 * The most different calls that are told apart, and the most names of no tool that are counted: a
 * session may be called without end.
 */
const MOST_COUNTED = 1_000;
/** The most characters of a call that are kept to tell it from others. */
const MOST_KEPT = 200;

/** Counts one run's calls against its limits. */
export class CallCounter {
  private readonly perTool: Map<string, number>;
  private readonly identical: Map<string, number>;
  private refusals: number;
  /** The calls that were counted since the last time they were taken. */
  private readonly counted = { perTool: new Set<string>(), identical: new Set<string>() };

  constructor(
    private readonly limits: Limits,
    saved: SavedCounts = { perTool: [], identical: [], refusals: 0 },
    /** The counter of the run around a sub-run, whose calls it counts too. */
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
    const changed = {
      perTool: changedOf(this.perTool, perTool),
      identical: changedOf(this.identical, identical),
      refusals: this.refusals,
    };
    perTool.clear();
    identical.clear();
    return changed;
  }

  /** Counts a call; answers with the limit it goes beyond. A call of no tool has no declared id. */
  admit(call: ToolCall, declaredId: string | undefined): LimitReached | undefined {
    const most = this.mostReached(declaredId ?? call.name, declaredId !== undefined);
    if (this.limits.identicalCalls === Number.POSITIVE_INFINITY) return beyond(most);
    const key = shortenCall(`${call.name} ${this.canonical(call.arguments)}`);
    const same = countIn(this.identical, key);
    this.counted.identical.add(key);
    this.forgetOldest();
    if (same > this.limits.identicalCalls) {
      return limit(
        'no_progress',
        `This very call was made ${this.limits.identicalCalls} times already. Its result will not change.`,
      );
    }
    return beyond(most);
  }

  /**
   * Counts a call of a tool, here and around, where there is a limit; answers with the limit that
   * it goes beyond. A session may be called without end, under any names.
   */
  private mostReached(declaredId: string, isTool: boolean): number | undefined {
    const around = this.outer?.mostReached(declaredId, isTool);
    if (this.limits.callsPerTool === Number.POSITIVE_INFINITY) return around;
    if (!isTool && this.perTool.size >= MOST_COUNTED && !this.perTool.has(declaredId))
      return around;
    const calls = countIn(this.perTool, declaredId);
    this.counted.perTool.add(declaredId);
    return calls > this.limits.callsPerTool ? this.limits.callsPerTool : around;
  }

  /**
   * Forgets the call that was made least recently: one that comes back after a thousand others is
   * no circle.
   */
  private forgetOldest(): void {
    const [oldest] = this.identical.size > MOST_COUNTED ? this.identical.keys() : [];
    if (oldest === undefined) return;
    this.identical.delete(oldest);
    this.counted.identical.delete(oldest);
  }

  /** Looks for unknown tools and refused calls in a row, in the order of the calls of a step. */
  refusalLimit(
    records: readonly ToolInvocationRecord[],
    mode: ApprovalMode,
  ): FinishReason | undefined {
    for (const [index, record] of records.entries()) {
      const { error } = record;
      if (mode !== 'deny' && isSameNo(record, records[index - 1])) continue;
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

function beyond(most: number | undefined): LimitReached | undefined {
  return most === undefined
    ? undefined
    : limit('max_calls', `This tool was called ${most} times already, which is the limit.`);
}

function limit(reason: FinishReason, safeMessage: string): LimitReached {
  return { reason, refusal: { code: 'budget_exceeded', safeMessage } };
}

function shortenCall(call: string): string {
  return call.length > MOST_KEPT ? sha256(call) : call;
}

/** Counts, and puts what was counted last at the end. */
function countIn(counts: Map<string, number>, key: string): number {
  const count = (counts.get(key) ?? 0) + 1;
  counts.delete(key);
  counts.set(key, count);
  return count;
}

function changedOf(
  counts: ReadonlyMap<string, number>,
  changed: ReadonlySet<string>,
): SavedCounts['perTool'] {
  return [...changed].map((key) => [key, counts.get(key) ?? 0]);
}
