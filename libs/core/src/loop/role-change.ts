import type { ToolSpec } from '@toolloop/protocol';
import { LAID_DOWN, type Toolset } from '../catalog/toolset.js';
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
  return live.suspendedByRole.size === 0 ? changed : withTakenUp(changed, authority, live);
}

async function withChange(state: LoopState, authority: Authority, live: LiveRun): Promise<LoopState> {
  const step = state.step + 1;
  const denied = state.toolset.reachable.flatMap(({ id }) => {
    const tool = state.toolset.held(id);
    return tool && isDenied(tool, authority) ? [tool] : [];
  });
  const { toolset: kept, removed } = state.toolset.withoutTools(denied, howToGetBack);
  for (const tool of denied) if (isTakenUp(tool, live)) live.suspendedByRole.set(tool.spec.id, tool);
  if (removed.length > 0) await live.emit({ type: 'tools-removed', step, tools: removed, reason: 'roles' });
  return withTools({ ...state, toolset: kept }, await listedAnew({ ...state, toolset: kept }, authority, live), live);
}

/** What the run would begin with by now, but for what strategies took away since. */
async function listedAnew({ toolset, records }: LoopState, authority: Authority, live: LiveRun): Promise<readonly Tool[]> {
  const begun = live.plan.relist?.(authority, records);
  if (!begun) return [];
  live.reserve = begun.reserve;
  const tools = begun.toolset.specs.flatMap(({ id }) => begun.toolset.find(id) ?? []);
  return listable(
    tools.filter(({ spec }) => isLaidDown(spec.id, toolset) || !(toolset.removalOf(spec.id) !== undefined || toolset.keepsAway(spec))),
    live,
  );
}

/** Tools of entities, and of a sub-run those that it began with: nobody lists them anew. What a strategy keeps back is its own to give. */
function isTakenUp({ surface, entity, spec }: Tool, { plan, reserve }: LiveRun): boolean {
  if (surface) return false;
  if (entity) return true;
  return !plan.relist && !plan.injection.strategies.some((strategy) => reserve.of(strategy).all.some((kept) => kept.spec.id === spec.id));
}

/** What went with a role that is there again. */
async function withTakenUp(state: LoopState, authority: Authority, live: LiveRun): Promise<LoopState> {
  const taken: Tool[] = [];
  for (const [id, tool] of live.suspendedByRole) {
    const isOver = !isLaidDown(id, state.toolset); // given again meanwhile, or taken for another reason
    if (!isOver && isDenied(tool, authority)) continue;
    live.suspendedByRole.delete(id); // tried once: its tombstone says how to have it all the same
    if (!isOver) taken.push(tool);
  }
  if (taken.length === 0) return state;
  const own = await listable(
    taken.filter(({ entity }) => !entity),
    live,
  );
  const next = await withTools(state, own, live);
  return withEntities(
    next,
    taken.filter(({ entity }) => entity),
    authority,
    live,
  );
}

/** Under the rules by which they once came: there may be newer ones in their place. */
async function withEntities(state: LoopState, add: readonly Tool[], authority: Authority, live: LiveRun): Promise<LoopState> {
  const { execution, injection, strictListing } = live.plan;
  const { exclude, entities } = injection;
  const rules = { ...execution, ...authority, exclude, entities, instances: live.instances, strictListing, signal: live.signal };
  const place = { step: state.step + 1, strategy: 'roles', yields: false, injected: state.injected };
  const { toolset, added, events } = await applyInjection(state.toolset, { add }, rules, place);
  for (const event of events) await live.emit(event);
  return { ...state, toolset, injected: withNew(state.injected, added) };
}

async function withTools(state: LoopState, tools: readonly Tool[], live: LiveRun): Promise<LoopState> {
  const { toolset, added } = state.toolset.with(tools);
  const ids = added.map(({ id }) => id);
  if (ids.length > 0) await live.emit({ type: 'tools-injected', step: state.step + 1, provider: 'roles', tools: ids });
  return { ...state, toolset, injected: withNew(state.injected, added) };
}

/** What comes back was injected before, and counts once. */
function withNew(injected: readonly ToolSpec[], added: readonly ToolSpec[]): readonly ToolSpec[] {
  const known = new Set(injected);
  return [...injected, ...added.filter((spec) => !known.has(spec))];
}

async function listable(tools: readonly Tool[], live: LiveRun): Promise<readonly Tool[]> {
  return live.plan.strictListing ? callable(tools, { ...live.plan.execution, signal: live.signal }) : tools;
}

function isLaidDown(id: string, toolset: Toolset): boolean {
  return toolset.removalOf(id)?.startsWith(LAID_DOWN) ?? false;
}

/** The instance may be gone with its process by then. */
function howToGetBack({ entity, givenBy = 'the tool that returned it' }: Tool): string {
  if (!entity) return `${LAID_DOWN} Once they may, it can come back.`;
  return `${LAID_DOWN} Once they may, it comes back; if it does not, call ${givenBy} again, which gave it.`;
}

/** Of a dispatcher there is nothing to decide, only of what is called over it. */
function isDenied(tool: Tool, authority: Authority): boolean {
  return tool.surface?.kind !== 'dispatcher' && !isPermitted(tool, authority);
}
