import { createHash } from 'node:crypto';

const MOST_SUMMARIES = 500;

/** The summaries a policy has made, by tenant and by what they are of. The least recently used one goes when there are more than 500. */
export class SummaryCache {
  private readonly summaries = new Map<string, string>();

  get(key: string): string | undefined {
    const summary = this.summaries.get(key);
    if (summary !== undefined) this.set(key, summary);
    return summary;
  }

  set(key: string, summary: string): void {
    this.summaries.delete(key);
    this.summaries.set(key, summary);
    const [oldest] = this.summaries.keys();
    if (this.summaries.size > MOST_SUMMARIES && oldest !== undefined) this.summaries.delete(oldest);
  }
}

/** The keys of the beginnings of a tenant's transcript that end at the given lines. */
export function summaryKeys(tenant: string, lines: readonly string[], ends: readonly number[]): readonly string[] {
  const hash = createHash('sha256').update(JSON.stringify(tenant));
  let hashed = 0;
  return ends.map((end) => {
    for (const line of lines.slice(hashed, end)) hash.update(`\n${line}`);
    hashed = end;
    return hash.copy().digest('hex');
  });
}
