import { type AuditEntry, type AuditHead, AuditStore } from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { isStorable, storableKey, storedJson } from './storable.js';

/**
 * Keeps the audit in SQL, where triggers refuse to change or remove an entry. Entries of a tenant
 * that come while others are stored are stored together.
 */
export class SqlAuditStore extends AuditStore {
  override readonly storesTogether = true;
  private readonly lines = new Map<string, Line>();
  /**
   * The last entries that this process appended. Another process may have appended since, which the
   * statement finds out.
   */
  private readonly heads = new Map<string, AuditHead>();

  constructor(private readonly database: Database) {
    super();
  }

  /**
   * No lock is held meanwhile, so that a process that freezes holds up no other. Within a
   * transaction of the caller the entry is a part of that, and stored by itself.
   *
   * @throws {Error} For an entry that does not follow the last one, and where other processes
   *   always append first.
   */
  override async append(tenant: string, build: Build): Promise<void> {
    storableKey(tenant, 'tenant');
    return new Promise((resolve, reject) => {
      const entry = { build, resolve, reject };
      if (this.database.isInTransaction) void this.store(tenant, [entry], false);
      else this.join(tenant, entry);
    });
  }

  override async head(tenant: string): Promise<AuditHead | undefined> {
    if (!isStorable(tenant)) return undefined;
    const [head] = await this.database.query<AuditHead>(
      'select tenant, sequence, hash from toolloop.audit where tenant = $1 order by sequence desc limit 1',
      [tenant],
    );
    return head;
  }

  override async read(
    tenant: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    if (!isStorable(tenant)) return [];
    const rows = await this.database.query<{ readonly entry: AuditEntry }>(
      'select entry from toolloop.audit where tenant = $1 and sequence >= $2 order by sequence limit $3',
      [tenant, from, limit],
    );
    return rows.map(({ entry }) => entry);
  }

  private join(tenant: string, entry: Waiting): void {
    const line = this.lines.get(tenant);
    const now = performance.now();
    if (line && now - line.since < LONGEST_WAIT_MS) {
      line.waiting.push(entry);
      return;
    }
    const next: Line = { waiting: [...(line?.waiting.splice(0) ?? []), entry], since: now };
    this.lines.set(tenant, next);
    void this.work(tenant, next);
  }

  private async work(tenant: string, line: Line): Promise<void> {
    while (line.waiting.length > 0) {
      line.since = performance.now();
      await this.store(tenant, line.waiting.splice(0, MOST_AT_ONCE), true);
    }
    if (this.lines.get(tenant) === line) this.lines.delete(tenant);
  }

  /** Settles each of the entries. */
  private async store(
    tenant: string,
    entries: readonly Waiting[],
    knowsHead: boolean,
  ): Promise<void> {
    try {
      const last = await this.appended(
        tenant,
        entries,
        knowsHead ? this.heads.get(tenant) : undefined,
      );
      if (knowsHead && last) this.remember(last);
      for (const { resolve } of entries) resolve();
    } catch (error) {
      this.heads.delete(tenant);
      for (const { reject } of entries) reject(error);
    }
  }

  /**
   * Resolves to the new head, once all entries are stored that can be made; the others are
   * rejected.
   */
  private async appended(
    tenant: string,
    entries: readonly Waiting[],
    known: AuditHead | undefined,
  ): Promise<AuditHead | undefined> {
    let head = known ?? (await this.head(tenant));
    let left = entries;
    for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt += 1) {
      const { made, hashes, texts, last } = chained(tenant, left, head);
      if (!last) return undefined;
      left = made;
      const values = [tenant, head?.sequence ?? 0, head?.hash ?? '', hashes, texts];
      const [answer] = await this.database.query<AppendAnswer>(APPEND, values);
      if (answer?.is_kept) return last;
      head = headIn(tenant, answer);
    }
    throw new Error(`Other processes appended first ${MOST_ATTEMPTS} times in a row.`);
  }

  private remember(head: AuditHead): void {
    // so that the first in the map is the one that was used longest ago
    this.heads.delete(head.tenant);
    this.heads.set(head.tenant, head);
    const [oldest] = this.heads.keys();
    if (this.heads.size > MOST_HEADS && oldest !== undefined) this.heads.delete(oldest);
  }
}

/** The attempts to append entries. Each time one fails, another process has appended its own. */
const MOST_ATTEMPTS = 1_000;
/** The entries of one statement. */
const MOST_AT_ONCE = 100;
/**
 * A statement without an answer for so many milliseconds keeps no entry waiting any more: the next
 * is sent over another connection.
 */
const LONGEST_WAIT_MS = 2_000;
/** The tenants whose head is remembered. */
const MOST_HEADS = 1_000;

/**
 * Appends entries behind a head, all of them or none. The first is kept where the head is still the
 * last entry and no other process appends behind it at this moment, which the primary key decides;
 * then no one but us can append behind the first. Tells the head that it found.
 */
const APPEND: NamedStatement = {
  name: 'toolloop_append_audit',
  text: `
  with head as (
    select sequence, hash from toolloop.audit where tenant = $1 order by sequence desc limit 1
  ), entries as (
    select $2::bigint + place as sequence, hash, entry::json, place
    from unnest($4::text[], $5::text[]) with ordinality as entries (hash, entry, place)
  ), first as (
    insert into toolloop.audit (tenant, sequence, hash, entry)
    select $1, sequence, hash, entry from entries
    where place = 1 and $2::bigint = coalesce((select sequence from head), 0) and $3 = coalesce((select hash from head), '')
    on conflict do nothing returning 1
  ), rest as (
    insert into toolloop.audit (tenant, sequence, hash, entry)
    select $1, sequence, hash, entry from entries where place > 1 and exists (select from first)
  )
  select exists (select from first) as is_kept, (select sequence from head) as sequence, (select hash from head) as hash`,
};

interface AppendAnswer {
  readonly is_kept: boolean;
  /** The sequence of the head that was found; null where there is none. */
  readonly sequence: number | null;
  readonly hash: string | null;
}

type Build = (head: AuditHead | undefined) => AuditEntry;

/** An entry that is to be appended. */
interface Waiting {
  readonly build: Build;
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

/** The entries of a tenant that wait while a statement is under way. */
interface Line {
  readonly waiting: Waiting[];
  /** The time at which the statement was sent. */
  since: number;
}

/** Makes the entries that follow a head, one behind the other. */
function chained(
  tenant: string,
  entries: readonly Waiting[],
  head: AuditHead | undefined,
): Chained {
  const made: Waiting[] = [];
  const hashes: string[] = [];
  const texts: string[] = [];
  let last: AuditHead | undefined;
  for (const waiting of entries) {
    try {
      const entry = following(tenant, waiting.build, last ?? head);
      texts.push(storedJson(entry, 'entry'));
      hashes.push(entry.hash);
      made.push(waiting);
      last = { tenant, sequence: entry.sequence, hash: entry.hash };
    } catch (error) {
      waiting.reject(error);
    }
  }
  return { made, hashes, texts, last };
}

interface Chained {
  /** Those of the entries that could be made; the others are rejected. */
  readonly made: readonly Waiting[];
  readonly hashes: readonly string[];
  readonly texts: readonly string[];
  /** Absent where no entry could be made. */
  readonly last: AuditHead | undefined;
}

function following(tenant: string, build: Build, head: AuditHead | undefined): AuditEntry {
  const entry = build(head);
  if (entry.tenant === tenant && entry.sequence === (head?.sequence ?? 0) + 1) return entry;
  throw new Error(
    `The entry ${entry.sequence} of "${entry.tenant}" does not follow the last of "${tenant}".`,
  );
}

function headIn(tenant: string, answer: AppendAnswer | undefined): AuditHead | undefined {
  if (!answer || answer.sequence === null || answer.hash === null) return undefined;
  return { tenant, sequence: answer.sequence, hash: answer.hash };
}
