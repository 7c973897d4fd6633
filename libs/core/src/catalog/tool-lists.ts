import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';

/**
 * The lists of tools that runs may begin with, by all that decided on them. Runs of the same list
 * have the same array, so that nothing of it is made, encoded or kept again.
 */
export class ToolLists {
  /** The least recently used first. */
  private readonly lists = new Map<string, KeptList>();
  private size = 0;

  /**
   * Returns the tools of a run: those that `list` returns, and whose `when` holds for the run.
   *
   * @param key all that decides on the list; undefined if something else does, so that it is made
   *   in each run
   */
  of(run: RunContext, key: string | undefined, list: () => readonly Tool[]): readonly Tool[] {
    const { tools, conditional } = key === undefined ? keptList(list()) : this.kept(key, list);
    const left = new Set(conditional.filter(({ when }) => when?.(run)));
    if (left.size === conditional.length) return tools;
    return tools.filter((tool) => !tool.when || left.has(tool));
  }

  private kept(key: string, list: () => readonly Tool[]): KeptList {
    const known = this.lists.get(key);
    const kept = known ?? keptList(list());
    this.lists.delete(key);
    this.lists.set(key, kept);
    if (!known) this.size += kept.tools.length;
    for (const [oldest, { tools }] of this.lists) {
      if (this.size <= MOST_TOOLS || oldest === key) break;
      this.lists.delete(oldest);
      this.size -= tools.length;
    }
    return kept;
  }
}

/** The most tools in all kept lists. A tool in a list takes some 80 bytes. */
const MOST_TOOLS = 200_000;

interface KeptList {
  readonly tools: readonly Tool[];
  /** Those of the tools that have a `when`, which is asked in each run. */
  readonly conditional: readonly Tool[];
}

function keptList(tools: readonly Tool[]): KeptList {
  return { tools, conditional: tools.filter(({ when }) => when) };
}
