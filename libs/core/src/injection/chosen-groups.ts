import { instanceKeyOf } from '../catalog/entity-keys.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Tool } from '../protocol/tool.js';

/** Tools that come or stay away together: those of one entity, or one of any other kind. */
export interface ToolGroup {
  /** New tools, and newer instances of tools that are there. */
  readonly tools: readonly Tool[];
  /** The new ones, each once. */
  readonly fresh: readonly Tool[];
  /** The entity instance they are of. */
  readonly instance?: string;
}

/** What of the proposed tools goes into the toolset. */
export interface ChosenGroups {
  readonly taken: readonly ToolGroup[];
  readonly leftOut: readonly ToolGroup[];
}

/** The tools by what they belong to, in the order of their first. */
export function groupedTools(tools: readonly Tool[]): readonly (readonly Tool[])[] {
  const groups = new Map<string, Tool[]>();
  for (const tool of tools) {
    const key = tool.entity ? instanceKeyOf(tool) : `${tool.spec.id} ${tool.spec.declaredId}`;
    const group = groups.get(key);
    if (group) group.push(tool);
    else groups.set(key, [tool]);
  }
  return [...groups.values()];
}

/** Decides group by group, as if each were added before the next: so many are added in one change, as every change copies the toolset. */
export function chosenGroups(groups: readonly (readonly Tool[])[], toolset: Toolset, room: number): ChosenGroups {
  const [taken, leftOut]: [ToolGroup[], ToolGroup[]] = [[], []];
  const coming = new Map<string, Tool>();
  for (const tools of groups) {
    const group = groupOf(tools, (id) => coming.get(id) ?? toolset.held(id));
    if (group.fresh.length > 0 && coming.size + group.fresh.length > room) {
      leftOut.push(group);
      continue;
    }
    for (const tool of group.fresh) coming.set(tool.spec.id, tool);
    taken.push(group);
  }
  return { taken, leftOut };
}

function groupOf(tools: readonly Tool[], known: (id: string) => Tool | undefined): ToolGroup {
  const free = tools.filter((tool) => !isTaken(tool, known(tool.spec.id)));
  const fresh = new Map<string, Tool>();
  for (const tool of free) if (!fresh.has(tool.spec.id) && !known(tool.spec.id)) fresh.set(tool.spec.id, tool);
  const [first] = tools;
  return { tools: free, fresh: [...fresh.values()], ...(first?.entity && { instance: instanceKeyOf(first) }) };
}

/** An id that stands for another declaration is never overwritten. */
function isTaken(tool: Tool, known: Tool | undefined): boolean {
  return known !== undefined && (known.spec.declaredId !== tool.spec.declaredId || known.entity?.instanceId !== tool.entity?.instanceId);
}
