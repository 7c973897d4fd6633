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

/** How many more tools can be offered one by one. */
export interface InjectionRoom {
  readonly entities: number;
  /** Whatever entities there are: a list of them must not keep out what was searched for or unlocked. */
  readonly others: number;
}

/** The tools by what they belong to, in the order of their first. */
export function groupedTools(tools: readonly Tool[]): readonly (readonly Tool[])[] {
  const groups = new Map<string, Tool[]>();
  let last: Tool[] = [];
  for (const tool of tools) {
    // The tools of an instance come one after the other, with one reference to it.
    if (tool.entity && tool.entity === last[0]?.entity) {
      last.push(tool);
      continue;
    }
    const key = tool.entity ? instanceKeyOf(tool) : `${tool.origin.source} ${tool.spec.id} ${tool.spec.declaredId}`;
    last = groups.get(key) ?? [];
    if (last.push(tool) === 1) groups.set(key, last);
  }
  return [...groups.values()];
}

/** Decides group by group, as if each were added before the next: so many are added in one change, as every change copies the toolset. */
export function chosenGroups(groups: readonly (readonly Tool[])[], toolset: Toolset, room: InjectionRoom): ChosenGroups {
  const [taken, leftOut]: [ToolGroup[], ToolGroup[]] = [[], []];
  const coming = new Map<string, Tool>();
  const left = { ...room };
  const known = (id: string): Tool | undefined => coming.get(id) ?? toolset.held(id);
  for (const tools of groups) {
    const group = groupOf(tools, known);
    const kind = group.instance === undefined ? 'others' : 'entities';
    if (group.fresh.length > 0 && group.fresh.length > left[kind]) {
      leftOut.push(group);
      continue;
    }
    left[kind] -= group.fresh.length;
    for (const tool of group.fresh) coming.set(tool.spec.id, tool);
    taken.push(group);
  }
  return { taken, leftOut };
}

function groupOf(tools: readonly Tool[], known: (id: string) => Tool | undefined): ToolGroup {
  const [free, fresh]: [Tool[], Tool[]] = [[], []];
  for (const tool of tools) {
    const there = known(tool.spec.id);
    if (there && isTaken(tool, there)) continue;
    free.push(tool);
    if (!there && !fresh.some(({ spec }) => spec.id === tool.spec.id)) fresh.push(tool);
  }
  const [first] = tools;
  return first?.entity ? { tools: free, fresh, instance: instanceKeyOf(first) } : { tools: free, fresh };
}

/** An id that stands for another declaration is never overwritten. */
function isTaken(tool: Tool, known: Tool): boolean {
  const isOfSameSource = known.origin.source === tool.origin.source && known.origin.trusted === tool.origin.trusted;
  return !isOfSameSource || known.spec.declaredId !== tool.spec.declaredId || known.entity?.instanceId !== tool.entity?.instanceId;
}
