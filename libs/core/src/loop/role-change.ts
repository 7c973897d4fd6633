import type { RemovalCause } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import { callable } from '../execution/resolve-tool.js';
import { applyInjection } from '../injection/apply-injection.js';
import { isPermitted } from '../policy/policy-engine.js';
import type { LiveRun } from './live-run.js';
import type { LoopState } from './loop-state.js';
import type { Authority } from './run-accounts.js';

/** The state with the tools that the actor may use by now, where the roles have changed since they were listed. Tells what came and went. */
export async function withRolesOfNow(state: LoopState, live: LiveRun): Promise<LoopState> {
  const authority = live.roles.now();
  const changed = live.roles.hasChanged(authority) ? await withChange(state, authority, live) : state;
  return withSuspended(changed, authority, live);
}

async function withChange(state: LoopState, authority: Authority, live: LiveRun): Promise<LoopState> {
  const step = state.step + 1;
  const denied = state.toolset.tools.filter((tool) => isDenied(tool, authority));
  const { toolset, removed } = state.toolset.remove(denied, suspension);
  if (removed.length > 0) await live.emit({ type: 'tools-removed', step, tools: removed, reason: 'roles' });
  return withTools({ ...state, toolset }, await listedAnew({ ...state, toolset }, authority, live), live);
}

/** What the run would begin with by now, but for what strategies took away since. */
async function listedAnew({ toolset, records }: LoopState, authority: Authority, live: LiveRun): Promise<readonly Tool[]> {
  const begun = live.plan.relist?.(authority, records);
  if (!begun) return [];
  live.reserve = begun.injection.reserve;
  const isListed = ({ spec }: Tool): boolean => {
    const cause = toolset.removalOf(spec.id);
    return cause ? cause.kind === 'role' : !toolset.keepsAway(spec);
  };
  return listable(begun.toolset.shown.filter(isListed), live);
}

/** Tools of entities, and of a sub-run those that it began with, which are not listed anew. What a strategy keeps back is its own to give. */
function isResumable({ surface, entity, spec }: Tool, { plan, reserve }: LiveRun): boolean {
  if (surface) return false;
  if (entity) return true;
  return !plan.relist && !plan.injection.strategies.some((strategy) => reserve.of(strategy).all.some((kept) => kept.spec.id === spec.id));
}

/** With the tools that went with a role that is there again. Each is tried once: its removal says how to have it all the same. */
async function withSuspended(state: LoopState, authority: Authority, live: LiveRun): Promise<LoopState> {
  const back = state.toolset.suspended.filter((tool) => isResumable(tool, live) && !isDenied(tool, authority));
  if (back.length === 0) return state;
  const own = await listable(
    back.filter(({ entity }) => !entity),
    live,
  );
  const next = await withTools({ ...state, toolset: state.toolset.withoutSuspended(back) }, own, live);
  return withEntities(
    next,
    back.filter(({ entity }) => entity),
    authority,
    live,
  );
}

/** Under the rules by which they once came: there may be newer ones in their place. */
async function withEntities(state: LoopState, add: readonly Tool[], authority: Authority, live: LiveRun): Promise<LoopState> {
  const place = { step: state.step + 1, strategy: 'roles', yields: false };
  const { toolset, events } = await applyInjection(state.toolset, { add }, live.injectionRules(authority), place);
  for (const event of events) await live.emit(event);
  return { ...state, toolset };
}

async function withTools(state: LoopState, tools: readonly Tool[], live: LiveRun): Promise<LoopState> {
  const { toolset, added } = state.toolset.inject(tools);
  const ids = added.map(({ id }) => id);
  if (ids.length > 0) await live.emit({ type: 'tools-injected', step: state.step + 1, provider: 'roles', tools: ids });
  return { ...state, toolset };
}

async function listable(tools: readonly Tool[], live: LiveRun): Promise<readonly Tool[]> {
  return live.plan.strictListing ? callable(tools, { ...live.plan.execution, signal: live.signal }) : tools;
}

function suspension({ entity, givenBy }: Tool): RemovalCause {
  return { kind: 'role', ...(entity && { perInstance: true, ...(givenBy !== undefined && { givenBy }) }) };
}

/** Of a dispatcher there is nothing to decide, only of what is called over it. */
function isDenied(tool: Tool, authority: Authority): boolean {
  return tool.surface?.kind !== 'dispatcher' && !isPermitted(tool, authority);
}
