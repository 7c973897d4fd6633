import { randomUUID } from 'node:crypto';
import type { BeforeApplicationShutdown } from '@nestjs/common';
import { StorageUnavailableError, timestampOfNow } from '@toolloop/protocol';
import {
  type AuditEntry,
  AuditError,
  type AuditEvent,
  type AuditEvidence,
  type AuditHead,
  type AuditStore,
  type AuditSubject,
  type SignedAuditHead,
} from '../../contracts/audit.js';
import { Logger } from '../../findings/logger.js';
import { KeyedMutex } from '../inbox/keyed-mutex.js';
import { genesisOf, isAuthentic, sealed, shownArguments, signedHead } from './audit-entry.js';
import { AuditKeyring } from './audit-keyring.js';
import { toAuditLine } from './audit-lines.js';
import { AUDIT, type AuditOptions } from './audit-options.js';

const FIRST_PAUSE_MS = 1_000;

const LONGEST_PAUSE_MS = 60_000;

/** The entries that wait to be kept later: each holds no more than its draft. */
const MOST_LATE = 10_000;

const MOST_OF_A_NAME = 64;

const PAGE = 500;

const NOT_OURS =
  'was not signed with a key that is configured here, or was changed since: the chain cannot be checked beyond it. Configure the key it was signed with, beside the new one where the key was changed.';

const logger = new Logger('Audit');

/**
 * Records decisions and calls in a chain per tenant. The caller awaits each entry before it
 * continues. The store bounds its own time, and nothing here gives up before it: what was given up
 * might be kept yet.
 */
export class AuditTrail implements BeforeApplicationShutdown {
  private readonly keyring: AuditKeyring;
  private readonly keepsArguments: boolean;
  private readonly turns = new KeyedMutex();
  /** The entries about what has happened that could not be kept yet, in their order. */
  private readonly late: LateDraft[] = [];
  private keepingLate: Promise<void> | undefined;
  private pauseMs = FIRST_PAUSE_MS;
  private timer: NodeJS.Timeout | undefined;
  /** The tenants whose chain was checked for its last key. */
  private readonly known = new Set<string>();

  /** @throws ConfigurationError for wrong options */
  constructor(
    private readonly store: AuditStore,
    options: AuditOptions,
  ) {
    AUDIT.assert(options, 'audit');
    this.keyring = new AuditKeyring(options.key);
    this.keepsArguments = options.arguments === 'redacted';
  }

  /**
   * Records an entry, and resolves once it is stored. If it rejects, the caller must not do what
   * the entry is about, though a slow store may still store it.
   *
   * @throws AuditError if the store refuses the entry, or fails for a reason that does not pass by
   *   itself
   * @throws StorageUnavailableError if the store is temporarily unavailable; `AuditError` is one as
   *   well
   */
  async record(draft: AuditDraft, at = timestampOfNow()): Promise<void> {
    const { tenant } = draft;
    try {
      const content = { entryId: randomUUID(), ...this.toContent(draft) };
      const build = (head = genesisOf(tenant)) => sealed(content, at, head, this.keyring);
      const append = (): Promise<void> => this.append(tenant, build);
      await (this.store.storesTogether ? append() : this.turns.run(tenant, append));
    } catch (cause) {
      throw notKept(draft, cause);
    }
  }

  /**
   * Records an entry about what has happened, which nothing can undo: one that cannot be kept now
   * is kept later, with the time at which it happened. Never rejects.
   */
  async after(draft: AuditDraft): Promise<void> {
    const at = timestampOfNow();
    try {
      await this.record(draft, at);
    } catch (error) {
      this.postpone({ draft, at }, error);
    }
  }

  /** Keeps what could not be kept, as far as the store takes it, before the process ends. */
  async beforeApplicationShutdown(): Promise<void> {
    clearTimeout(this.timer);
    await this.keepLate();
    clearTimeout(this.timer);
    if (this.late.length > 0)
      logger.error(
        `${this.late.length} entries of the audit could not be kept before the process ended.`,
      );
  }

  private postpone(late: LateDraft, error: unknown): void {
    const isKeptLater = this.late.length < MOST_LATE;
    if (isKeptLater) this.late.push(late);
    logger.error(
      `The audit could not keep an entry ${isKeptLater ? 'yet' : 'and forgets it'} (${nameOf(late.draft)}).`,
      error,
    );
    this.schedule();
  }

  private schedule(): void {
    if (this.late.length === 0) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.keepLate(), this.pauseMs).unref();
    this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
  }

  private keepLate(): Promise<void> {
    this.keepingLate ??= this.keepAllLate().finally(() => {
      this.keepingLate = undefined;
      this.schedule();
    });
    return this.keepingLate;
  }

  private async keepAllLate(): Promise<void> {
    try {
      for (let [late] = this.late; late; [late] = this.late) {
        await this.record(late.draft, late.at);
        this.late.shift();
      }
      this.pauseMs = FIRST_PAUSE_MS;
    } catch {
      // it is logged already, and tried again
    }
  }

  private async append(tenant: string, build: (head?: AuditHead) => AuditEntry): Promise<void> {
    if (!this.known.has(tenant)) await this.checkLastKey(tenant);
    await this.store.append(tenant, build);
  }

  /**
   * Returns the signed head of a tenant's chain. Stored elsewhere, it later proves that no entries
   * were cut from the end.
   */
  async exportHead(tenant: string): Promise<SignedAuditHead> {
    return signedHead(
      (await this.store.head(tenant)) ?? genesisOf(tenant),
      new Date().toISOString(),
      this.keyring,
    );
  }

  /**
   * Exports a tenant's chain as JSON Lines, each with its line break: all of it, or from a sequence
   * on.
   */
  async *exportLines(tenant: string, from = 1): AsyncGenerator<string> {
    for await (const entry of this.entries(tenant, from)) yield toAuditLine(entry);
  }

  /** Reads a tenant's chain, page by page: all of it, or from a sequence on. */
  async *entries(tenant: string, from = 1): AsyncGenerator<AuditEntry> {
    for (let next = from; ;) {
      const entries = await this.store.read(tenant, { from: next, limit: PAGE });
      yield* entries;
      if (entries.length === 0) return;
      next += entries.length;
    }
  }

  /**
   * Warns once per tenant if the chain so far was signed with an unknown key, since it could then
   * not be verified as a whole.
   */
  private async checkLastKey(tenant: string): Promise<void> {
    const head = await this.store.head(tenant);
    const [last] = head ? await this.store.read(tenant, { from: head.sequence, limit: 1 }) : [];
    this.known.add(tenant);
    if (last && !isAuthentic(last, this.keyring))
      logger.warn(`The last entry of the audit of tenant "${tenant}" ${NOT_OURS}`);
  }

  private toContent({ tenant, subject, event, arguments: args, result }: AuditDraft): object {
    const { calledId } = subject;
    return {
      ...subject,
      ...(calledId !== undefined && { calledId: calledId.slice(0, MOST_OF_A_NAME) }),
      ...event,
      ...(args && this.argumentEvidence(tenant, args)),
      ...(result !== undefined && this.resultEvidence(tenant, result)),
    };
  }

  private argumentEvidence(tenant: string, { text, hidden }: AuditedArguments): AuditEvidence {
    const argsHash = this.keyring.sign(`arguments:${JSON.stringify(tenant)}${text}`);
    return this.keepsArguments && hidden
      ? { argsHash, args: shownArguments(text, hidden) }
      : { argsHash };
  }

  private resultEvidence(tenant: string, text: string): AuditEvidence {
    return {
      resultBytes: Buffer.byteLength(text),
      resultHash: this.keyring.sign(`result:${JSON.stringify(tenant)}${text}`),
    };
  }
}

/** A call's arguments for the audit. */
export interface AuditedArguments {
  /**
   * The arguments as canonical JSON, or as the model sent them if the call was refused before they
   * were read.
   */
  readonly text: string;
  /**
   * The names of those that must not be stored. Absent if the text is not canonical JSON: then only
   * its hash is stored.
   */
  readonly hidden?: readonly string[];
}

/** An entry before it is signed. */
export interface AuditDraft {
  readonly tenant: string;
  readonly subject: AuditSubject;
  readonly event: AuditEvent;
  readonly arguments?: AuditedArguments;
  /** The text of a result, of which size and hash are stored. */
  readonly result?: string;
}

/** An entry that is kept later, and when it happened. */
interface LateDraft {
  readonly draft: AuditDraft;
  readonly at: string;
}

function nameOf({ event: { kind }, subject: { runId } }: AuditDraft): string {
  return runId === undefined ? kind : `${kind}, run ${runId}`;
}

/** Says why there is no entry: its caller must not do what it is about. */
function notKept(draft: AuditDraft, cause: unknown): Error {
  const of = nameOf(draft);
  const unavailable = StorageUnavailableError.in(cause);
  return unavailable?.mayPass
    ? unavailable
    : new AuditError(`The audit could not keep an entry (${of}).`, { cause });
}
