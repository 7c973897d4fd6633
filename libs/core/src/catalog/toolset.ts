import type { Tool, ToolSpec } from '../protocol/tool.js';

/** What a change of the toolset came to. */
export interface ToolsetChange {
  readonly toolset: Toolset;
  /** Specs that are new; a tool already there only had its instance refreshed. */
  readonly added: readonly ToolSpec[];
}

/**
 * The tools of one step. Immutable, and append-only in order: what stays keeps its place and its very spec object, so that a provider's prompt cache
 * stays warm and a wire need not encode it again.
 */
export class Toolset {
  readonly specs: readonly ToolSpec[];

  private constructor(
    private readonly tools: ReadonlyMap<string, Tool>,
    private readonly gone: ReadonlyMap<string, string>,
    specs?: readonly ToolSpec[],
  ) {
    this.specs = specs ?? [...tools.values()].map(({ spec }) => spec);
  }

  static of(tools: readonly Tool[]): Toolset {
    return new Toolset(new Map(tools.map((tool) => [tool.spec.id, tool])), new Map());
  }

  find(id: string): Tool | undefined {
    return this.tools.get(id);
  }

  /** How to get a removed tool back; undefined when it was never removed. */
  removalOf(id: string): string | undefined {
    return this.gone.get(id);
  }

  /** The ids of removed tools, with how to get each back. */
  get removals(): readonly (readonly [id: string, howToGetBack: string])[] {
    return [...this.gone];
  }

  /** The same tools where another process left off: those of `order` first, and what is gone of them with how to get it back. */
  resumed(order: readonly string[], gone: readonly (readonly [id: string, howToGetBack: string])[]): Toolset {
    const known = order.flatMap((id): [string, Tool][] => {
      const tool = this.tools.get(id);
      return tool ? [[id, tool]] : [];
    });
    const tools = new Map([...known, ...this.tools]);
    return new Toolset(tools, new Map([...gone.filter(([id]) => !tools.has(id)), ...this.gone]));
  }

  /** Adds tools at the end. A tool whose id is there already keeps its spec and its place and gets the new instance. */
  with(tools: readonly Tool[]): ToolsetChange {
    if (tools.length === 0) return { toolset: this, added: [] };
    const next = new Map(this.tools);
    const removals = new Map(this.gone);
    const added: ToolSpec[] = [];
    for (const tool of tools) {
      const known = next.get(tool.spec.id);
      next.set(tool.spec.id, known ? refreshed(known, tool) : tool);
      removals.delete(tool.spec.id);
      if (!known) added.push(tool.spec);
    }
    const specs = added.length > 0 ? [...this.specs, ...added] : this.specs;
    return { toolset: new Toolset(next, removals, specs), added };
  }

  /** The toolset with some of its specs alone. The very array is kept, so that whoever narrows alike twice can hand over the same. */
  only(specs: readonly ToolSpec[]): Toolset {
    const tools = specs.flatMap(({ id }) => this.tools.get(id) ?? []);
    return new Toolset(new Map(tools.map((tool) => [tool.spec.id, tool])), this.gone, specs);
  }

  /** Takes tools away and remembers how to get them back. Ids that are not there are ignored. */
  without(ids: readonly string[], howToGetBack: string): { readonly toolset: Toolset; readonly removed: readonly string[] } {
    const removed = ids.filter((id) => this.tools.has(id));
    if (removed.length === 0) return { toolset: this, removed };
    const next = new Map(this.tools);
    for (const id of removed) next.delete(id);
    const removals = new Map([...this.gone, ...removed.map((id): [string, string] => [id, howToGetBack])]);
    return { toolset: new Toolset(next, removals), removed };
  }
}

/** The new instance under the old name: spec, and with it the place and the bytes, stay, and so does the depth at which it was first found. */
function refreshed(known: Tool, tool: Tool): Tool {
  return { ...tool, spec: known.spec, ...(known.entity && { entity: known.entity }) };
}
