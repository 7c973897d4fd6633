import type { Toolset, ToolsetRemoval } from '../../catalog/toolset.js';
import type { Tool } from '../../contracts/tool.js';
import { instanceKeyOf } from '../entities/member-ids.js';
import type { RunInstances } from '../entities/run-instances.js';

/**
 * Chooses the groups of new tools for which a toolset has room: one after the other, as if each
 * were added before the next. All are added in one change, since every change copies the toolset.
 */
export function chosenGroups(
  groups: readonly (readonly Tool[])[],
  toolset: Toolset,
  room: InjectionRoom,
): ChosenGroups {
  const [taken, leftOut]: [ToolGroup[], ToolGroup[]] = [[], []];
  const coming = new Map<string, Tool>();
  const left = { ...room };
  const known = (id: string): Tool | undefined => coming.get(id) ?? toolset.findCallable(id);
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

/** The number of further tools that can be offered one by one. */
export interface InjectionRoom {
  readonly entities: number;
  /**
   * The room for other tools. It does not depend on entities: a list of them must not keep out
   * tools that were found or unlocked.
   */
  readonly others: number;
}

/** Tools that are added or left out together: those of one entity, or a single other one. */
export interface ToolGroup {
  /** The new tools, and newer instances of tools that exist already. */
  readonly tools: readonly Tool[];
  /** The new ones, each once. */
  readonly fresh: readonly Tool[];
  /** The key of their entity instance. */
  readonly instance?: string;
}

/** The choice of the proposed tools that go into the toolset. */
export interface ChosenGroups {
  readonly taken: readonly ToolGroup[];
  readonly leftOut: readonly ToolGroup[];
}

/** Groups tools by their instance, in the order of the first of each. */
export function groupedTools(tools: readonly Tool[]): readonly (readonly Tool[])[] {
  const groups = new Map<string, Tool[]>();
  let last: Tool[] = [];
  for (const tool of tools) {
    // The tools of an instance come one after the other, with one reference to it.
    if (tool.entity && tool.entity === last[0]?.entity) {
      last.push(tool);
      continue;
    }
    const key = tool.entity
      ? instanceKeyOf(tool)
      : `${tool.origin.source} ${tool.spec.id} ${tool.spec.declaredId}`;
    last = groups.get(key) ?? [];
    if (last.push(tool) === 1) groups.set(key, last);
  }
  return [...groups.values()];
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
  return first?.entity
    ? { tools: free, fresh, instance: instanceKeyOf(first) }
    : { tools: free, fresh };
}

/** Tells whether an id belongs to another declaration, which is never overwritten. */
function isTaken(tool: Tool, known: Tool): boolean {
  const isOfSameSource =
    known.origin.source === tool.origin.source && known.origin.trusted === tool.origin.trusted;
  return (
    !isOfSameSource ||
    known.spec.declaredId !== tool.spec.declaredId ||
    known.entity?.instanceId !== tool.entity?.instanceId
  );
}

/** The instances of a result that a run can hold. */
export interface InstanceRoom {
  readonly taken: readonly ToolGroup[];
  /** The instances beyond the limit, which do not displace others of their own result. */
  readonly leftOut: readonly ToolGroup[];
  /** The number of instances that have to be removed for them. */
  readonly excess: number;
}

/** Divides the instances of one result, whole ones only. */
export function instanceRoom(
  groups: readonly ToolGroup[],
  toolset: Toolset,
  mostInstances: number,
): InstanceRoom {
  const ofEntities = groups.filter(({ instance }) => instance !== undefined);
  const isThere = ({ instance = '' }: ToolGroup): boolean =>
    toolset.toolsOfInstance(instance).length > 0;
  const fresh = ofEntities.filter((group) => !isThere(group));
  const most = Math.max(0, mostInstances - (ofEntities.length - fresh.length));
  const leftOut = new Set(fresh.slice(most));
  const excess = toolset.instanceCount + fresh.length - leftOut.size - mostInstances;
  return { taken: groups.filter((group) => !leftOut.has(group)), leftOut: [...leftOut], excess };
}

/**
 * Removes the tools of the least recently used instances, but of none that is in the result itself.
 */
export function withoutOldest(
  { excess, taken }: InstanceRoom,
  toolset: Toolset,
  instances: RunInstances,
): ToolsetRemoval {
  if (excess <= 0) return { toolset, removed: [] };
  const staying = new Set(taken.map(({ instance }) => instance));
  const going: Tool[] = [];
  const keys: string[] = [];
  let left = excess;
  for (const key of instances.oldest()) {
    if (left <= 0) break;
    if (staying.has(key)) continue;
    keys.push(key);
    const tools = toolset.toolsOfInstance(key);
    if (tools.length > 0) left -= 1;
    going.push(...tools);
  }
  const removal = toolset.remove(going, ({ givenBy }) => ({
    kind: 'evicted',
    ...(givenBy !== undefined && { givenBy }),
  }));
  instances.forget(keys);
  return removal;
}
