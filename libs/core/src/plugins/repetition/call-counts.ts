import type { ToolCall, ToolInvocationRecord } from '@toolloop/protocol';
import { canonicalJson, parseJson, sha256 } from '../../schema/canonical-json.js';
import type { EarlierCalls, RunView } from '../../plugin/run-view.js';
import { isRefusal, isSameNo } from './refusals.js';

/** Counts the calls of one run, with those that it made in processes before this one. */
export class CallCounts {
  private readonly ofTools = new Map<string, number>();
  private readonly ofCalls = new Map<string, number>();
  private refusals = 0;

  constructor(
    private readonly terms: Terms,
    { calls, ended, begun }: EarlierCalls = NONE,
  ) {
    for (const record of withThoseWithin([...ended, ...begun]))
      this.ofTool(record.declaredId, record.id);
    for (const call of calls) this.same(call);
    this.refused(ended);
  }

  /** The number of tools and calls that are told apart. */
  get kept(): number {
    return this.ofTools.size + this.ofCalls.size;
  }

  /** Counts a call of a tool, and returns how many there are by now. */
  ofTool(declaredId: string | undefined, name: string): number {
    const id = declaredId ?? name;
    const isLeftOut =
      declaredId === undefined && this.ofTools.size >= MOST_COUNTED && !this.ofTools.has(id);
    return isLeftOut ? 0 : countIn(this.ofTools, id);
  }

  /** Counts a call, and returns how often it was made by now, with these very arguments. */
  same(call: ToolCall): number {
    const made = countIn(this.ofCalls, shortened(`${call.name} ${this.canonical(call.arguments)}`));
    this.forgetOldest();
    return made;
  }

  /** Takes the records of ended steps, and returns the refusals in a row after each of them. */
  refused(records: readonly ToolInvocationRecord[]): readonly number[] {
    return records.map((record, index) => {
      const isSame = this.terms.facts.approvals !== 'deny' && isSameNo(record, records[index - 1]);
      if (!isSame) this.refusals = isRefusal(record) ? this.refusals + 1 : 0;
      return this.refusals;
    });
  }

  /**
   * Forgets the call that was made least recently: one that comes back after a thousand others is
   * no circle.
   */
  private forgetOldest(): void {
    const [oldest] = this.ofCalls.size > MOST_COUNTED ? this.ofCalls.keys() : [];
    if (oldest !== undefined) this.ofCalls.delete(oldest);
  }

  /** Arguments too large to be taken, or too deep to be walked, are compared as they stand. */
  private canonical(text: string): string {
    if (text.length > this.terms.limits.argumentBytes) return text;
    try {
      const value = parseJson(text);
      return value === undefined ? text : canonicalJson(value);
    } catch {
      return text;
    }
  }
}

/**
 * The most different calls that are told apart, and the most names of no tool that are counted: a
 * session may be called without end.
 */
const MOST_COUNTED = 1_000;
/** The most characters of a call that are kept to tell it from others. */
const MOST_KEPT = 200;

/** The limits that counts are held against, and whether people answer in the run. */
type Terms = Pick<RunView, 'limits'> & { readonly facts: Pick<RunView['facts'], 'approvals'> };

const NONE: EarlierCalls = { calls: [], ended: [], begun: [] };

/** Returns records with those of the sub-runs that their calls began. */
function withThoseWithin(
  records: readonly ToolInvocationRecord[],
): readonly ToolInvocationRecord[] {
  return records.flatMap((record) => [record, ...withThoseWithin(record.subRun?.toolCalls ?? [])]);
}

function shortened(call: string): string {
  return call.length > MOST_KEPT ? sha256(call) : call;
}

/** Counts, and puts what was counted last at the end. */
function countIn(counts: Map<string, number>, key: string): number {
  const count = (counts.get(key) ?? 0) + 1;
  counts.delete(key);
  counts.set(key, count);
  return count;
}
