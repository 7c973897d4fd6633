import { StorageUnavailableError } from '@toolloop/protocol';
import type { OwedEntry } from '../../contracts/owed-entry.js';
import type { RunJournal, RunLog } from '../../contracts/run-log.js';
import { Logger } from '../../findings/logger.js';
import type { AuditKeyring } from './audit-keyring.js';
import { fromOwed, type NotedEntry, toOwed } from './noted-entry.js';

/**
 * The entries about what has happened that the audit has not taken, kept in the log of runs, from
 * which any process appends them.
 */
export class OwedEntries {
  private readonly logger = new Logger('Audit');
  /** The number of entries that were not as they were signed, when they were last read. */
  private refused = 0;

  constructor(
    private readonly log: OwedLog,
    private readonly keyring: AuditKeyring,
  ) {}

  /**
   * Keeps entries: with a journal at once and together with the next entry of its run, otherwise by
   * themselves. Never rejects.
   */
  async owe(entries: readonly NotedEntry[], journal: OwingJournal | undefined): Promise<void> {
    const owed = entries.flatMap((entry) => toOwed(entry, this.keyring) ?? []);
    if (journal) return journal.owe(owed);
    try {
      await this.log.owe(owed);
    } catch (error) {
      this.logger.warn(
        'Entries that the audit has not taken could not be stored: only this process has them.',
        error,
      );
    }
  }

  /**
   * Appends what is owed, and drops what is appended. A tenant whose chain takes no entry waits for
   * the next time.
   *
   * @throws StorageUnavailableError if the log, or the audit, is temporarily unavailable
   */
  async settle(keepOnce: (entry: NotedEntry) => Promise<void>): Promise<void> {
    const pass = { keepOnce, waiting: new Set<string>(), refused: 0 };
    let page = await this.log.listOwed({ limit: PAGE });
    while (page.length > 0) {
      await this.settlePage(page, pass);
      const after = page.length < PAGE ? undefined : page.at(-1);
      page = after ? await this.log.listOwed({ limit: PAGE, after }) : [];
    }
    if (pass.refused > this.refused) this.logger.error(notSigned(pass.refused));
    this.refused = pass.refused;
  }

  private async settlePage(page: readonly OwedEntry[], pass: SettlingPass): Promise<void> {
    const kept: string[] = [];
    for (const owed of page) {
      const entry = fromOwed(owed, this.keyring);
      if (!entry) pass.refused += 1;
      else if (await isKept(entry, pass)) kept.push(owed.entryId);
    }
    if (kept.length > 0) await this.log.settle(kept);
  }
}

/** The journal of a durable run, which keeps what is owed together with the outcome. */
export type OwingJournal = Pick<RunJournal, 'owe'>;

/** The part of the log of runs that keeps what is owed. */
export type OwedLog = Pick<RunLog, 'owe' | 'listOwed' | 'settle'>;

const PAGE = 100;

interface SettlingPass {
  readonly keepOnce: (entry: NotedEntry) => Promise<void>;
  /** The tenants whose chain takes no entry now. */
  readonly waiting: Set<string>;
  refused: number;
}

async function isKept(entry: NotedEntry, { keepOnce, waiting }: SettlingPass): Promise<boolean> {
  if (waiting.has(entry.tenant)) return false;
  try {
    await keepOnce(entry);
    return true;
  } catch (error) {
    if (StorageUnavailableError.in(error)?.mayPass) throw error;
    waiting.add(entry.tenant);
    return false;
  }
}

function notSigned(count: number): string {
  return `${count} entries that the audit has not taken were not signed with a key that is configured here, or were changed since: they are not appended. If the key was changed, configure the former one beside it; otherwise they were written by another hand than this application.`;
}
