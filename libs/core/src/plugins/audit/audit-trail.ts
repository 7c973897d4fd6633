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
import { Interruption } from '../../contracts/interruption.js';
import { Logger } from '../../findings/logger.js';
import { KeyedMutex } from '../inbox/keyed-mutex.js';
import { genesisOf, isAuthentic, sealed, shownArguments, signedHead } from './audit-entry.js';
import { AuditKeyring } from './audit-keyring.js';
import { toAuditLine } from './audit-lines.js';
import { AUDIT, type AuditOptions } from './audit-options.js';
import type { ChainPlace, NotedContent, NotedEntry } from './noted-entry.js';
import { OwedEntries, type OwedLog, type OwingJournal } from './owed-entries.js';
import { nameOf, UnkeptEntries } from './unkept-entries.js';

/**
 * Records decisions and calls in a chain per tenant. The caller awaits each entry before it
 * continues. The store bounds its own time, and nothing here gives up before it: what was given up
 * might be kept yet.
 */
export class AuditTrail implements BeforeApplicationShutdown {
  private readonly keyring: AuditKeyring;
  private readonly keepsArguments: boolean;
  private readonly turns = new KeyedMutex();
  private readonly unkept: UnkeptEntries;
  private readonly owed: OwedEntries | undefined;
  /** The entries that other processes may append as well. */
  private readonly shared = new WeakSet<NotedEntry>();
  /** The last place known of each chain that was checked for its last key. */
  private readonly known = new Map<string, ChainPlace>();

  /**
   * With the log of runs, entries about what has happened outlive the process.
   *
   * @throws ConfigurationError for wrong options
   */
  constructor(
    private readonly store: AuditStore,
    options: AuditOptions,
    log?: OwedLog,
  ) {
    AUDIT.assert(options, 'audit');
    this.keyring = new AuditKeyring(options.key);
    this.keepsArguments = options.arguments === 'redacted';
    this.owed = log && new OwedEntries(log, this.keyring);
    this.unkept = new UnkeptEntries((entry) => this.keepOnce(entry), this.owed);
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
  async record(draft: AuditDraft): Promise<void> {
    const entry = this.note(draft);
    const append = (): Promise<void> => this.append(entry);
    try {
      await this.inTurn(entry, append);
    } catch (cause) {
      throw notKept(entry, cause);
    }
  }

  /**
   * Makes an entry about what has happened, with the time of now, for {@link keep} and
   * {@link owe}.
   */
  note({ tenant, ...draft }: AuditDraft): NotedEntry {
    const behind = this.known.get(tenant);
    const content = { entryId: randomUUID(), ...this.toContent(tenant, draft) };
    return { tenant, at: timestampOfNow(), content, ...(behind && { behind }) };
  }

  /**
   * Records entries about what has happened, which nothing can undo: one that cannot be kept now is
   * kept later. Until then the journal of its run has it, or the log of runs. Never rejects.
   */
  async keep(entries: readonly NotedEntry[], journal?: OwingJournal): Promise<void> {
    for (const entry of entries) {
      const append = (): Promise<void> => this.append(entry);
      try {
        await this.inTurn(entry, append);
      } catch (cause) {
        if (this.shared.has(entry))
          this.unkept.keepLater(entry); // its journal has it
        else await this.unkept.postpone(entry, notKept(entry, cause), journal);
      }
    }
  }

  /** Records an entry about what has happened, as {@link keep} does. Never rejects. */
  after(draft: AuditDraft): Promise<void> {
    return this.keep([this.note(draft)]);
  }

  /**
   * Hands entries that are being kept to a journal, at once: it keeps them until it is known that
   * the audit has them. From now on another process may append them, so here they are not made anew
   * without a look at the chain.
   */
  owe(entries: readonly NotedEntry[], journal: OwingJournal): void {
    for (const entry of entries) this.shared.add(entry);
    void this.owed?.owe(entries, journal);
  }

  /**
   * Keeps the entries that wait, those of processes that are gone included, as far as the store
   * takes them. Each is in the chain once, however many processes do this at a time. Never rejects.
   */
  settle(): Promise<void> {
    return this.unkept.settle();
  }

  /** Keeps what could not be kept, as far as the store takes it, before the process ends. */
  beforeApplicationShutdown(): Promise<void> {
    return this.unkept.end();
  }

  private inTurn({ tenant }: NotedEntry, work: () => Promise<void>): Promise<void> {
    return this.store.storesTogether ? work() : this.turns.run(tenant, work);
  }

  /**
   * Appends the entry, to no head that `accepts` throws for, and to none after this has settled or
   * the entry was shared: a store may ask for it long after it was given up.
   */
  private async append(entry: NotedEntry, accepts?: (head: AuditHead) => void): Promise<void> {
    const { tenant, at, content } = entry;
    if (!this.known.has(tenant)) await this.checkLastKey(tenant);
    let made: AuditEntry | undefined;
    let isOver = false;
    const build = (head = genesisOf(tenant)): AuditEntry => {
      if (isOver || (!accepts && this.shared.has(entry)))
        throw new Interruption('aborted', 'The entry was given up before its turn came.');
      accepts?.(head);
      return (made = sealed(content, at, head, this.keyring));
    };
    try {
      await this.store.append(tenant, build);
    } finally {
      isOver = true;
    }
    if (made) this.learn(tenant, made);
  }

  private learn(tenant: string, { sequence, hash }: ChainPlace): void {
    if (sequence > (this.known.get(tenant)?.sequence ?? 0))
      this.known.set(tenant, { sequence, hash });
  }

  private async keepOnce(entry: NotedEntry): Promise<void> {
    try {
      await this.inTurn(entry, () => this.appendOnce(entry));
    } catch (cause) {
      throw notKept(entry, cause);
    }
  }

  /**
   * Appends an entry that may be in the chain already: only behind the last of those that were
   * looked at for it.
   */
  private async appendOnce(entry: NotedEntry): Promise<void> {
    const { tenant, content } = entry;
    let last = await this.lastBefore(entry);
    for (let look = 1; ; look += 1) {
      for await (const { entryId, sequence } of this.entries(tenant, last + 1)) {
        if (entryId === content.entryId) return;
        last = sequence;
      }
      const seen = last;
      let hasGrown = false;
      const accepts = ({ sequence }: AuditHead): void => {
        hasGrown = sequence !== seen;
        if (hasGrown) throw new Error('The chain has grown since it was looked at.');
      };
      try {
        return await this.append(entry, accepts);
      } catch (error) {
        if (!hasGrown || look === MAX_LOOKS) throw error;
      }
    }
  }

  /**
   * Returns the sequence behind which the entry is, if it is in the chain: that of the head that it
   * names, unless this one was never kept after all.
   */
  private async lastBefore({ tenant, behind }: NotedEntry): Promise<number> {
    if (!behind) return 0;
    const { sequence, hash } = behind;
    const [there] = await this.store.read(tenant, { from: sequence, limit: 1 });
    return there?.sequence === sequence && there.hash === hash ? sequence : 0;
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
    if (head) this.learn(tenant, head);
    if (last && !isAuthentic(last, this.keyring))
      logger.warn(`The last entry of the audit of tenant "${tenant}" ${NOT_OURS}`);
  }

  private toContent(
    tenant: string,
    { subject, event, arguments: args, result }: Omit<AuditDraft, 'tenant'>,
  ): Omit<NotedContent, 'entryId'> {
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

const MOST_OF_A_NAME = 64;

const PAGE = 500;

/** The looks at a chain that grows between a look and an append. */
const MAX_LOOKS = 100;

const NOT_OURS =
  'was not signed with a key that is configured here, or was changed since: the chain cannot be checked beyond it. Configure the key it was signed with, beside the new one where the key was changed.';

const logger = new Logger('Audit');

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

/** Says why there is no entry: its caller must not do what it is about. */
function notKept({ content }: NotedEntry, cause: unknown): Error {
  const of = nameOf(content);
  const unavailable = StorageUnavailableError.in(cause);
  return unavailable?.mayPass
    ? unavailable
    : new AuditError(`The audit could not keep an entry (${of}).`, { cause });
}
