import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { asStoreAttempt, Logger } from '@toolloop/core/internal';
import type { DataPolicyEngine } from '@toolloop/core/policy';
import { StorageUnavailableError } from '@toolloop/protocol';
import { Database } from './database/database.js';

/** Tells a load balancer if this process can take more work. Any answer tells that it lives. */
@Injectable()
export class DurableHealth implements OnModuleDestroy {
  private isLeaving = false;

  /** `policies` tells if it is known what is in force. */
  constructor(
    private readonly database: Pick<Database, 'query'> & Partial<Pick<Database, 'silentMs'>>,
    private readonly policies: Pick<DataPolicyEngine, 'isReliable'> = { isReliable: true },
    private readonly audit?: Pick<AuditProbe, 'isWritable'>,
  ) {}

  onModuleDestroy(): void {
    this.isLeaving = true;
  }

  /**
   * Answers within two seconds: a database that takes longer counts as down, and one that has
   * answered anybody within the last second as up. Never rejects.
   */
  async readiness(): Promise<Readiness> {
    const database = (await this.answers()) ? 'up' : 'down';
    const policy = this.policies.isReliable ? 'readable' : 'unreadable';
    const audit = this.audit && ((await this.audit.isWritable()) ? 'writable' : 'unwritable');
    const isReady =
      database === 'up' && policy === 'readable' && audit !== 'unwritable' && !this.isLeaving;
    return { isReady, database, policy, ...(audit && { audit }), isLeaving: this.isLeaving };
  }

  private async answers(): Promise<boolean> {
    if ((this.database.silentMs ?? Number.POSITIVE_INFINITY) < RECENT_MS) return true;
    const over = new AbortController();
    const late = wait(LONGEST_ANSWER_MS, false, { ref: false, signal: over.signal }).catch(
      () => false,
    );
    const asked = asStoreAttempt(() => this.database.query('select 1', [])).then(
      () => true,
      () => false,
    );
    const isUp = await Promise.race([asked, late]);
    over.abort();
    return isUp;
  }
}

/** The answer to a load balancer: may it send this process more work? */
export interface Readiness {
  /**
   * The database answers, the policy in force is known, the audit can be written, and the process
   * does not leave.
   */
  readonly isReady: boolean;
  readonly database: 'up' | 'down';
  /**
   * Unreadable where this process could not read for 5 seconds which policy is in force: it makes
   * no call but reads of trusted tools.
   */
  readonly policy: 'readable' | 'unreadable';
  /**
   * Unwritable where the database refuses an entry of the audit, so that no call is made; the log
   * says why. Absent without an audit.
   */
  readonly audit?: 'writable' | 'unwritable';
  /** The application shuts down: what is under way ends or is handed over. */
  readonly isLeaving: boolean;
}

/**
 * Tries if the database takes entries of the audit: rights, policies of rows and a full disk may
 * keep it from that while it answers everything else.
 */
export class AuditProbe {
  private readonly logger = new Logger('DurableHealth');
  private known: { readonly isWritable: boolean; readonly until: number } | undefined;

  constructor(private readonly database: Pick<Database, 'query' | 'transaction'>) {}

  /**
   * Resolves at once to what is known since the last few seconds. A database that does not answer
   * in two seconds says nothing of the audit. Never rejects.
   */
  async isWritable(): Promise<boolean> {
    const now = performance.now();
    if (this.known && now < this.known.until) return this.known.isWritable;
    const before = this.known?.isWritable ?? true;
    this.known = { isWritable: before, until: now + TRUST_MS };
    const over = new AbortController();
    const late = wait(LONGEST_ANSWER_MS, before, { ref: false, signal: over.signal }).catch(
      () => before,
    );
    const isWritable = await Promise.race([this.tried(), late]);
    over.abort();
    this.known = { isWritable, until: now + TRUST_MS };
    return isWritable;
  }

  private async tried(): Promise<boolean> {
    const undo = new Error('It was only tried.');
    const trying = this.database.transaction(async () => {
      await this.database.query(TRIED_ENTRY);
      throw undo;
    });
    const error = await asStoreAttempt(() => trying).catch((failure: unknown) => failure);
    if (error === undo || StorageUnavailableError.in(error)?.mayPass) return true;
    if (this.known?.isWritable !== false)
      this.logger.error('The audit cannot be written, so no call is made.', error);
    return false;
  }
}

const LONGEST_ANSWER_MS = 2_000;
/**
 * A database that has answered anybody within this time is up. Where thousands of clients connect
 * at once, a question of its own would wait behind all of theirs.
 */
const RECENT_MS = 1_000;

/** The time for which an entry that could be written, or not, tells that others can. */
const TRUST_MS = 5_000;
/**
 * An entry of a tenant that is in the audit, so that policies of rows judge it as others; behind
 * all that will ever be there.
 */
const TRIED_ENTRY = `
  insert into toolloop.audit (tenant, sequence, hash, entry)
  select coalesce((select tenant from toolloop.audit limit 1), 'toolloop-readiness'), 9223372036854775807, 'tried', '{}'`;
