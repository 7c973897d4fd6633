import type { Toolset, ToolsetRemoval } from '../catalog/toolset.js';
import type { Tool } from '../protocol/tool.js';
import type { ToolGroup } from './chosen-groups.js';
import type { RunInstances } from './run.instances.js';

/** What of a result's instances a run can hold. */
export interface InstanceRoom {
  readonly taken: readonly ToolGroup[];
  /** Those beyond the limit: they do not push out the others of their own result. */
  readonly leftOut: readonly ToolGroup[];
  /** How many instances have to go for it. */
  readonly excess: number;
}

/** Divides what one result brings, whole instances only. */
export function instanceRoom(groups: readonly ToolGroup[], toolset: Toolset, mostInstances: number): InstanceRoom {
  const ofEntities = groups.filter(({ instance }) => instance !== undefined);
  const isThere = ({ instance = '' }: ToolGroup): boolean => toolset.toolsOfInstance(instance).length > 0;
  const fresh = ofEntities.filter((group) => !isThere(group));
  const most = Math.max(0, mostInstances - (ofEntities.length - fresh.length));
  const leftOut = new Set(fresh.slice(most));
  const excess = toolset.instanceCount + fresh.length - leftOut.size - mostInstances;
  return { taken: groups.filter((group) => !leftOut.has(group)), leftOut: [...leftOut], excess };
}

/** Takes away the tools of the instances that were not used for longest, but of none that is in the result itself. */
export function withoutOldest({ excess, taken }: InstanceRoom, toolset: Toolset, instances: RunInstances): ToolsetRemoval {
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
  const removal = toolset.withoutTools(going, howToGetBack);
  instances.forget(keys);
  return removal;
}

/** An instance's id may be anybody's words, so it is not in what we say. */
function howToGetBack({ givenBy = 'the tool that returned it' }: Tool): string {
  return `Newer ones took the place. To have it back, get it again from ${givenBy}.`;
}
