import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';

/**
 * The most lists that are kept for a tenant, the most tools in them, and the same for all tenants.
 * A tool in a list takes some 80 bytes.
 */
const MOST_LISTS = 32;
const MOST_TOOLS = 100_000;
const MOST_TENANTS = 10_000;
const MOST_TOOLS_IN_ALL = 1_000_000;

interface KeptList {
  readonly tools: readonly Tool[];
  /** Those of the tools that have a \`when\`, which is asked in each run. */
  readonly conditional: readonly Tool[];
  /** The number of tenants that have it. */
  holders: number;
}

/**
 * The lists of tools that runs may begin with, by all that decided on them. Runs of the same list
 * have the same array, so that nothing of it is made, encoded or kept again. Tenants share a list
 * where none was decided by the tenant, and each tenant has its own bound, so that none of them
 * displaces what others use.
 */
export class ToolLists {
  private lists = new Map<string, KeptList>();
  /** The lists of each tenant, the least recently used first, and the tenants in the same order. */
  private readonly tenants = new Map<string, Map<string, KeptList>>();
  private basis: readonly unknown[] = [];
  private size = 0;
  private counted = 0;

  /**
   * Forgets all lists where they were made on another basis: another catalog, or another revision
   * of the policies.
   */
  follow(...basis: readonly unknown[]): void {
    if (basis.every((one, index) => one === this.basis[index])) return;
    this.basis = basis;
    this.lists.clear();
    this.tenants.clear();
    this.size = 0;
  }

  /**
   * Returns the tools of a tenant's run: those that \`list\` returns, and whose \`when\` holds for
   * the run.
   *
   * @param key all that decides on the list; undefined where something else does, so that it is
   *   made in each run
   */
  of(run: RunContext, key: string | undefined, list: () => readonly Tool[]): readonly Tool[] {
    const isIn = ({ when }: Tool): boolean => when?.(run) ?? true;
    if (key === undefined) return this.sameAs(run.tenant, list().filter(isIn));
    const { tools, conditional } = this.kept(run.tenant, key, list);
    if (conditional.length === 0) return tools;
    const left = new Set(conditional.filter(isIn));
    if (left.size === conditional.length) return tools;
    const answers = conditional.map((tool) => (left.has(tool) ? '1' : '0')).join('');
    return this.kept(run.tenant, `${answers} ${key}`, () =>
      tools.filter((tool) => !tool.when || left.has(tool)),
    ).tools;
  }

  /** Returns the array that a run of the tenant had with the same tools, or else this one. */
  private sameAs(tenant: string, tools: readonly Tool[]): readonly Tool[] {
    const own = this.tenants.get(tenant)?.values() ?? [];
    for (const { tools: known } of own)
      if (known.length === tools.length && known.every((tool, index) => tool === tools[index]))
        return known;
    this.counted += 1;
    return this.kept(tenant, `#${this.counted}`, () => tools).tools;
  }

  private kept(tenant: string, key: string, list: () => readonly Tool[]): KeptList {
    const own = this.tenants.get(tenant) ?? new Map<string, KeptList>();
    const known = own.get(key);
    const kept = known ?? this.lists.get(key) ?? this.made(key, list());
    if (!known) kept.holders += 1;
    own.delete(key);
    own.set(key, kept);
    this.tenants.delete(tenant);
    this.tenants.set(tenant, own);
    if (known) return kept;
    this.trim(own);
    this.trimTenants();
    return kept;
  }

  private made(key: string, tools: readonly Tool[]): KeptList {
    const list = { tools, conditional: tools.filter(({ when }) => when), holders: 0 };
    this.lists.set(key, list);
    this.size += tools.length;
    return list;
  }

  /** Releases what the tenant used least recently, but for the newest list. */
  private trim(own: Map<string, KeptList>): void {
    let tools = 0;
    for (const list of own.values()) tools += list.tools.length;
    for (const [key, list] of own) {
      if (own.size === 1 || (own.size <= MOST_LISTS && tools <= MOST_TOOLS)) return;
      tools -= list.tools.length;
      this.release(own, key, list);
    }
  }

  /**
   * Releases the tenants that ran least recently, but for the newest, where there is too much in
   * all.
   */
  private trimTenants(): void {
    for (const [tenant, lists] of this.tenants) {
      if (
        this.tenants.size === 1 ||
        (this.tenants.size <= MOST_TENANTS && this.size <= MOST_TOOLS_IN_ALL)
      )
        return;
      for (const [key, list] of lists) this.release(lists, key, list);
      this.tenants.delete(tenant);
    }
  }

  private release(from: Map<string, KeptList>, key: string, list: KeptList): void {
    from.delete(key);
    list.holders -= 1;
    if (list.holders > 0) return;
    this.lists.delete(key);
    this.size -= list.tools.length;
  }
}
