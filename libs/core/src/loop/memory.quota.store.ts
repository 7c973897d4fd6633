import { Injectable } from '@nestjs/common';
import { QuotaStore, type QuotaUse } from '../protocol/quota.js';

const MOST_COUNTERS = 100_000;

interface Counter {
  readonly window: number;
  readonly total: number;
}

/** Counts for as long as the process lives, and for this process only. The least recently used counter goes when there are more than 100,000. */
@Injectable()
export class MemoryQuotaStore extends QuotaStore {
  private readonly counters = new Map<string, Counter>();

  override use({ tenant, quantity, windowMs, amount }: QuotaUse): Promise<number> {
    const key = JSON.stringify([tenant, quantity, windowMs]);
    const window = Math.floor(Date.now() / windowMs);
    const known = this.counters.get(key);
    const total = (known?.window === window ? known.total : 0) + amount;
    this.counters.delete(key);
    this.counters.set(key, { window, total });
    const [oldest] = this.counters.keys();
    if (this.counters.size > MOST_COUNTERS && oldest !== undefined) this.counters.delete(oldest);
    return Promise.resolve(total);
  }
}
