import { randomUUID } from 'node:crypto';
import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { StorageUnavailableError } from '@toolloop/protocol';
import type { UsageBatch, UsageIncrement, UsageStore, UsageWindow } from '../../contracts/usage.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import { outsideOfRuns } from '../../call/store-calls.js';
import { Logger } from '../../findings/logger.js';

/**
 * Counts what runs use. What no quota waits for is collected and written each second; while the
 * store fails it is kept and written later, so that no run is harmed. Each batch and each increment
 * with an id counts once, whatever became of an earlier attempt.
 */
@Injectable()
export class UsageLedger implements BeforeApplicationShutdown {
  private readonly logger = new Logger('Usage');
  private readonly store: UsageStore;
  /** In the order in which they have their turn. */
  private readonly tenants = new Map<string, TenantUses>();
  private waiting = 0;
  private lost = 0;
  private pauseMs = FLUSH_MS;
  private timer: NodeJS.Timeout | undefined;
  private flushing: Promise<void> | undefined;
  private isClosing = false;

  constructor(stores: BoundedStores) {
    this.store = stores.usage;
  }

  /** Counts a use, some time soon. Never throws. */
  note(tenant: string, use: UsageIncrement, windows: readonly UsageWindow[] = []): void {
    const waiting = this.tenants.get(tenant) ?? this.added(tenant);
    const key = keyIncrement(use);
    const known = waiting.uses.get(key);
    if (known === undefined && this.waiting >= MOST_WAITING) return this.lose();
    if (known === undefined) this.waiting += 1;
    waiting.uses.set(key, known && use.id === undefined ? sumOf(known, use) : use);
    for (const window of windows)
      waiting.windows.set(`${window.quantity} ${window.windowMs}`, window);
    this.schedule();
  }

  private added(tenant: string): TenantUses {
    const uses: TenantUses = {
      uses: new Map<string, UsageIncrement>(),
      windows: new Map<string, UsageWindow>(),
    };
    this.tenants.set(tenant, uses);
    return uses;
  }

  /**
   * Counts uses at once, and tells the totals of the windows, these uses included. Rejects where
   * the store fails.
   */
  add(
    tenant: string,
    increments: readonly UsageIncrement[],
    windows: readonly UsageWindow[],
  ): Promise<readonly number[]> {
    return this.store.add({ batchId: randomUUID(), tenant, increments, windows });
  }

  totals(tenant: string, windows: readonly UsageWindow[]): Promise<readonly number[]> {
    return this.store.totals(tenant, windows);
  }

  /** Writes what was noted until now, as far as the store takes it. Never rejects. */
  async flush(): Promise<void> {
    await this.flushing;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.flushing ??= outsideOfRuns(() => this.writeAll()).finally(() => {
      this.flushing = undefined;
      if (this.waiting > 0) this.schedule();
    });
    await this.flushing;
  }

  /** From here on nothing is collected: the stores close when the runs have ended. */
  async beforeApplicationShutdown(): Promise<void> {
    this.isClosing = true;
    await this.flush();
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => void this.flush(), this.isClosing ? 0 : this.pauseMs).unref();
  }

  /**
   * One tenant after the other. Where the store does not answer for one, the others have their turn
   * before it next time.
   */
  private async writeAll(): Promise<void> {
    for (const [tenant, waiting] of this.tenants) {
      if (await this.write(tenant, waiting)) continue;
      this.tenants.delete(tenant);
      this.tenants.set(tenant, waiting);
      this.pauseMs = Math.min(this.pauseMs * 2, LONGEST_PAUSE_MS);
      return;
    }
    this.pauseMs = FLUSH_MS;
    this.lost = 0;
  }

  /** Resolves to whether nothing of the tenant waits for the store to answer. */
  private async write(tenant: string, waiting: TenantUses): Promise<boolean> {
    while (waiting.batch || waiting.uses.size > 0) {
      waiting.batch ??= nextBatch(tenant, waiting);
      const { length } = waiting.batch.increments;
      try {
        await this.store.add(waiting.batch);
      } catch (error) {
        if (StorageUnavailableError.in(error)?.mayPass) return false;
        this.logger.error(`${length} uses of the tenant "${tenant}" cannot be counted.`, error);
      }
      delete waiting.batch;
      this.waiting -= length;
    }
    this.tenants.delete(tenant);
    return true;
  }

  private lose(): void {
    this.lost += 1;
    if (this.lost === 1)
      this.logger.error(
        `The store of usage does not answer. ${MOST_WAITING} uses wait for it, and further ones are not counted until it does.`,
      );
  }
}

/**
 * The time for which uses are collected into one write. What a process that is killed has not
 * written is lost.
 */
const FLUSH_MS = 1_000;

/** The longest pause between attempts while the store does not answer. */
const LONGEST_PAUSE_MS = 30_000;

/**
 * Beyond so many that wait for a store, further uses are not counted. Uses of one day, actor, tool
 * and model are one.
 */
const MOST_WAITING = 10_000;

const MOST_OF_A_BATCH = 1_000;

/** Uses of one tenant that are not written yet. */
interface TenantUses {
  /** Sent before, without an answer: it is sent again as it was. */
  batch?: UsageBatch;
  readonly uses: Map<string, UsageIncrement>;
  readonly windows: Map<string, UsageWindow>;
}

function nextBatch(tenant: string, { uses, windows }: TenantUses): UsageBatch {
  const taken = [...uses].slice(0, MOST_OF_A_BATCH);
  for (const [key] of taken) uses.delete(key);
  const counted = [...windows.values()];
  return {
    batchId: randomUUID(),
    tenant,
    increments: taken.map(([, use]) => use),
    ...(counted.length > 0 && { windows: counted }),
  };
}

export function keyIncrement({ id, day, actor, tool, model }: UsageIncrement): string {
  return id ?? `${day} ${withLength(actor)} ${withLength(tool)} ${withLength(model)}`;
}

/**
 * Two uses share a key by no chance: the length tells where a name ends, and a dash that there is
 * none.
 */
function withLength(name: string | undefined): string {
  return name === undefined ? '-' : `${name.length}:${name}`;
}

export function sumOf(one: UsageIncrement, two: UsageIncrement): UsageIncrement {
  return {
    ...one,
    calls: one.calls + two.calls,
    answers: one.answers + two.answers,
    inputTokens: one.inputTokens + two.inputTokens,
    outputTokens: one.outputTokens + two.outputTokens,
    usd: one.usd + two.usd,
    unpricedAnswers: one.unpricedAnswers + two.unpricedAnswers,
  };
}
