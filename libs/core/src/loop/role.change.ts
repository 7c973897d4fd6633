import { callable } from '../execution/tool-permission.js';
import { subjectOf } from '../policy/policy-subject.js';
import { decide } from '../policy/strictest-decision.js';
import type { Tool } from '../protocol/tool.js';
import type { LiveRun } from './live.run.js';
import type { LoopState } from './loop.state.js';
import type { Authority } from './run.roles.js';

const LAID_DOWN = 'Whom the run acts for may not use it at present.';

/** The state with the tools that the actor may use by now, where the roles have changed since they were listed. Tells what came and went. */
export async function withRolesOfNow(state: LoopState, live: LiveRun): Promise<LoopState> {
  const authority = live.roles.now();
  if (!live.roles.hasChanged(authority)) return state;
  const step = state.step + 1;
  const denied = state.toolset.reachable.flatMap(({ id }) => {
    const tool = state.toolset.held(id);
    return tool && isDenied(tool, authority) ? [id] : [];
  });
  const { toolset: kept, removed } = state.toolset.without(denied, LAID_DOWN);
  if (removed.length > 0) await live.emit({ type: 'tools-removed', step, tools: removed, reason: 'roles' });
  const { toolset, added } = kept.with(await cameBack({ ...state, toolset: kept }, authority, live));
  if (added.length > 0) await live.emit({ type: 'tools-injected', step, provider: 'roles', tools: added.map(({ id }) => id) });
  return { ...state, toolset, injected: [...state.injected, ...added] };
}

/** What the run would begin with by now, but for what strategies took away since. Tools of entities come back when a tool returns their entity again. */
async function cameBack({ toolset, records }: LoopState, authority: Authority, live: LiveRun): Promise<readonly Tool[]> {
  const begun = live.plan.relist?.(authority, records);
  if (!begun) return [];
  live.reserve = begun.reserve;
  const tools = begun.toolset.specs.flatMap(({ id }) => begun.toolset.find(id) ?? []);
  const missing = tools.filter(({ spec: { id } }) => [undefined, LAID_DOWN].includes(toolset.removalOf(id)));
  if (!live.plan.strictListing) return missing;
  return callable(missing, { ...live.plan.execution, signal: live.signal });
}

/** Of a dispatcher there is nothing to decide, only of what is called over it. */
function isDenied(tool: Tool, { policies, actor }: Authority): boolean {
  if (tool.surface?.kind === 'dispatcher') return false;
  return decide(policies, subjectOf(tool, actor)).kind === 'deny';
}
