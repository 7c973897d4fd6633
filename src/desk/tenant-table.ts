/** An entry of a table. Rows are replaced, never changed. */
export interface Row {
  readonly id: string;
}

/**
 * Rows by tenant and id, in memory. Nothing can be asked for without a tenant, so no caller can reach another tenant's rows by a wrong id;
 * a tenant that was never seeded has none. It answers with promises, as a database would.
 */
export class TenantTable<Entry extends Row> {
  private readonly tenants: Map<string, ReadonlyMap<string, Entry>>;

  constructor(seed: Readonly<Record<string, readonly Entry[]>> = {}) {
    this.tenants = new Map(Object.entries(seed).map(([tenant, rows]) => [tenant, new Map(rows.map((row) => [row.id, row]))]));
  }

  list(tenant: string): Promise<readonly Entry[]> {
    return Promise.resolve([...this.rowsOf(tenant).values()]);
  }

  find(tenant: string, id: string): Promise<Entry | undefined> {
    return Promise.resolve(this.rowsOf(tenant).get(id));
  }

  /** Reads and replaces any of the tenant's rows, all or nothing: no caller sees `work` half done, and an error that it throws undoes it. */
  transaction<Result>(tenant: string, work: (rows: Map<string, Entry>) => Result): Promise<Result> {
    return new Promise((resolve) => {
      const rows = new Map(this.rowsOf(tenant));
      const result = work(rows);
      this.tenants.set(tenant, rows);
      resolve(result);
    });
  }

  private rowsOf(tenant: string): ReadonlyMap<string, Entry> {
    return this.tenants.get(tenant) ?? new Map<string, Entry>();
  }
}

/** Tells whether every word of a query begins a word of a text, without regard to case and accents: "jo smith" finds "John Smith". */
export function matchesWords(text: string, query: string): boolean {
  const words = wordsOf(text);
  return wordsOf(query).every((wanted) => words.some((word) => word.startsWith(wanted)));
}

function wordsOf(text: string): string[] {
  const plain = text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
}
