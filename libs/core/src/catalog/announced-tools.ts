import type { ToolOrigin } from '@toolloop/protocol';
import { foldedId } from '../tools/discovery/tool-names.js';
import { isUnder } from './tool-selection.js';

/**
 * The names of tools that are not in the catalog and may still come: those that strategies
 * announce, and all under the prefix that a source announces.
 */
export class AnnouncedTools {
  constructor(
    private readonly names: readonly string[] = [],
    /** The origins of sources by their prefixes. */
    private readonly prefixes: ReadonlyMap<string, ToolOrigin> = new Map(),
  ) {}

  /** Tells whether a name or a glob can be that of such a tool. */
  has(pattern: string): boolean {
    return this.names.includes(pattern) || this.sourceOf(pattern) !== undefined;
  }

  /** Returns the source under whose prefix a name or a glob stands. */
  sourceOf(pattern: string): ToolOrigin | undefined {
    return [...this.prefixes].find(([prefix]) => isUnder(prefix, pattern))?.[1];
  }

  /**
   * Returns the source to which an id belongs, in whatever case it is written: no other tool may
   * have it.
   */
  ownerOf(id: string): ToolOrigin | undefined {
    const folded = foldedId(id);
    return [...this.prefixes].find(([prefix]) => isUnder(foldedId(prefix), folded))?.[1];
  }

  /** Returns the same without the prefixes of sources whose tools are known. */
  without(known: ReadonlySet<string>): AnnouncedTools {
    return new AnnouncedTools(
      this.names,
      new Map([...this.prefixes].filter(([prefix]) => !known.has(prefix))),
    );
  }
}
