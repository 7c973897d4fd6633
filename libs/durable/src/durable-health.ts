import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { asStoreAttempt } from '@toolloop/core/internal';
import type { DataPolicyEngine } from '@toolloop/core/policy';
import { Database } from './database/database.js';

/** The answer to a load balancer: may it send this process more work? */
export interface Readiness {
  /** The database answers, the policy in force is known, and the process does not leave. */
  readonly isReady: boolean;
  readonly database: 'up' | 'down';
  /** Unreadable where this process could not read for 5 seconds which policy is in force: it makes no call but reads of trusted tools. */
  readonly policy: 'readable' | 'unreadable';
  /** The application shuts down: what is under way ends or is handed over. */
  readonly isLeaving: boolean;
}

const LONGEST_ANSWER_MS = 2_000;
/** A database that has answered anybody within this time is up. Where thousands of clients connect at once, a question of its own would wait behind all of theirs. */
const RECENT_MS = 1_000;

/** Tells a load balancer if this process can take more work. Any answer tells that it lives. */
@Injectable()
export class DurableHealth implements OnModuleDestroy {
  private isLeaving = false;

  /** `policies` tells if it is known what is in force. */
  constructor(
    private readonly database: Pick<Database, 'query'> & Partial<Pick<Database, 'silentMs'>>,
    private readonly policies: Pick<DataPolicyEngine, 'isReliable'> = { isReliable: true },
  ) {}

  onModuleDestroy(): void {
    this.isLeaving = true;
  }

  /** Answers within two seconds: a database that takes longer counts as down, and one that has answered anybody within the last second as up. Never rejects. */
  async readiness(): Promise<Readiness> {
    const database = (await this.answers()) ? 'up' : 'down';
    const policy = this.policies.isReliable ? 'readable' : 'unreadable';
    const isReady = database === 'up' && policy === 'readable' && !this.isLeaving;
    return { isReady, database, policy, isLeaving: this.isLeaving };
  }

  private async answers(): Promise<boolean> {
    if ((this.database.silentMs ?? Number.POSITIVE_INFINITY) < RECENT_MS) return true;
    const over = new AbortController();
    const late = wait(LONGEST_ANSWER_MS, false, { ref: false, signal: over.signal }).catch(() => false);
    const asked = asStoreAttempt(() => this.database.query('select 1', [])).then(
      () => true,
      () => false,
    );
    const isUp = await Promise.race([asked, late]);
    over.abort();
    return isUp;
  }
}
