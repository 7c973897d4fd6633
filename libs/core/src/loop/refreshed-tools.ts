import { callable } from '../call/permission.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import type { Toolset } from '../catalog/toolset.js';
import type { RemovalCause } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import { sentMessages } from '../plugins/history/history-step.js';
import { applyInjection } from '../plugins/injection/apply-injection.js';
import { toolNotes } from '../plugins/injection/tool-notes.js';
import { isPermitted } from '../policy/decide.js';
import type { LiveRun } from '../run/live-run.js';
import type { Authority } from '../run/run-roles.js';
import type { LoopState } from './loop-state.js';

/**
 * The state with the tools that the actor may use by now. Where the roles or the policy have
 * changed since the tools were listed, denied ones go and the list is made anew; those that went
 * and are permitted again come back. Tells what came and went.
 */
export async function withAuthorityOfNow(before: LoopState, live: LiveRun): Promise<LoopState> {
  const authority = live.roles.now();
  const change = live.roles.changeIn(authority);
  return change || before.toolset.removedWithRole.length > 0
    ? underAuthority(before, live, authority, change)
    : before;
}

async function underAuthority(
  before: LoopState,
  live: LiveRun,
  authority: Authority,
  change: ReturnType<LiveRun['roles']['changeIn']>,
): Promise<LoopState> {
  const state =
    change === 'policy'
      ? { ...before, toolset: before.toolset.relabelled(live.plan.label) }
      : before;
  const step = state.step + 1;
  const name = change ?? 'roles';
  const denied = change ? state.toolset.tools.filter((tool) => isDenied(tool, authority)) : [];
  const { toolset, removed } = state.toolset.remove(denied, suspension);
  if (removed.length > 0)
    await live.emit({ type: 'tools-removed', step, tools: removed, reason: name });
  const listed = change ? listedAnew({ ...state, toolset }, authority, live) : [];
  const back = toolset.removedWithRole.filter(
    (tool) => isResumable(tool, live) && !isDenied(tool, authority),
  );
  if (listed.length + back.length === 0) return { ...state, toolset };
  const own = await listable([...listed, ...back.filter(({ entity }) => !entity)], live);
  // Each is tried once: its removal says how to have it all the same.
  const { toolset: next, added } = toolset.withoutSuspended(back).inject(own);
  if (added.length > 0)
    await live.emit({
      type: 'tools-injected',
      step,
      provider: name,
      tools: added.map(({ id }) => id),
    });
  const add = back.filter(({ entity }) => entity);
  // Under the rules by which they once came: there may be newer ones in their place.
  const applied = await applyInjection(next, { add }, live.injectionRules(authority), {
    step,
    strategy: { name },
  });
  for (const event of applied.events) await live.emit(event);
  return { ...state, toolset: applied.toolset };
}

/**
 * The state with the tools of sources as they are by now: those that were withdrawn are gone, and
 * those that joined and that the run may have are behind all others. Tells of both, for each
 * source.
 */
export async function withSourcesOfNow(
  state: LoopState,
  live: LiveRun,
  catalog: ToolCatalog,
): Promise<LoopState> {
  const { listedAt } = live;
  if (listedAt === catalog.version) return state;
  live.listedAt = catalog.version;
  const gone = state.toolset.tools.filter((tool) => catalog.retired.has(tool.input));
  const { toolset } = state.toolset.remove(gone, { kind: 'source' });
  const { shown, reserve } = listedNow(state, live, catalog);
  live.reserve = reserve;
  const joined = shown.filter(
    (tool) => catalog.hasJoinedSince(tool, listedAt) && isAddable(tool, toolset),
  );
  const fresh = await listable(joined, live);
  for (const source of new Set([...gone, ...fresh].map(({ origin }) => origin.source)))
    await live.emit({
      type: 'source-changed',
      step: state.step + 1,
      source,
      added: idsOf(source, fresh),
      removed: idsOf(source, gone),
    });
  // A search is bound to what it can find: it keeps its place and gets the new instance.
  const searches = shown.filter(
    ({ origin, surface, spec }) =>
      origin.source === 'toolloop' && !surface && toolset.find(spec.id),
  );
  return { ...state, toolset: toolset.add([...searches, ...fresh]).toolset };
}

/**
 * The tools with which the run would begin by now, and those that strategies withhold. A sub-run
 * has what the run around it had when it began.
 */
function listedNow(
  { records }: LoopState,
  live: LiveRun,
  catalog: ToolCatalog,
): { shown: readonly Tool[]; reserve: LiveRun['reserve'] } {
  const begun = live.plan.relist?.(live.roles.now(), records);
  if (begun) return { shown: begun.toolset.shown, reserve: begun.injection.reserve };
  return { shown: [], reserve: live.reserve.within((tool) => !catalog.retired.has(tool.input)) };
}

function idsOf(source: string, tools: readonly Tool[]): string[] {
  return tools.filter(({ origin }) => origin.source === source).map(({ spec }) => spec.id);
}

/**
 * Tells whether a tool that is listed anew may join: no strategy took it away, and it is not there.
 */
function isAddable({ spec }: Tool, toolset: Toolset): boolean {
  const cause = toolset.removalOf(spec.id);
  if (toolset.find(spec.id)) return false;
  return cause ? cause.kind === 'source' : !toolset.withholds(spec);
}

/** The state with notes about the tools that came and went since the transcript's last one. */
export function withToolNotes(state: LoopState): LoopState {
  const notes = toolNotes(sentMessages(state.messages, state.cut), state.toolset);
  return notes.length === 0 ? state : { ...state, messages: [...state.messages, ...notes] };
}

/**
 * The tools with which the run would begin by now, but for those that strategies took away since.
 */
function listedAnew(
  { toolset, records }: LoopState,
  authority: Authority,
  live: LiveRun,
): readonly Tool[] {
  const begun = live.plan.relist?.(authority, records);
  if (!begun) return [];
  live.reserve = begun.injection.reserve;
  return begun.toolset.shown.filter(({ spec }) => {
    const cause = toolset.removalOf(spec.id);
    return cause ? cause.kind === 'role' : !toolset.withholds(spec);
  });
}

/**
 * Tools of entities, and of a sub-run those that it began with, which are not listed anew. What a
 * strategy keeps back is its own to give.
 */
function isResumable({ surface, entity, spec }: Tool, { plan, reserve }: LiveRun): boolean {
  if (surface) return false;
  if (entity) return true;
  return (
    !plan.relist &&
    !plan.injection.strategies.some((strategy) =>
      reserve.of(strategy).all.some((kept) => kept.spec.id === spec.id),
    )
  );
}

async function listable(tools: readonly Tool[], live: LiveRun): Promise<readonly Tool[]> {
  return live.plan.strictListing
    ? callable(tools, { ...live.plan.execution, signal: live.signal })
    : tools;
}

function suspension({ entity, givenBy }: Tool): RemovalCause {
  return {
    kind: 'role',
    ...(entity && { perInstance: true, ...(givenBy !== undefined && { givenBy }) }),
  };
}

/** A dispatcher is never denied itself, only what is called over it. */
function isDenied(tool: Tool, authority: Authority): boolean {
  return tool.surface?.kind !== 'dispatcher' && !isPermitted(tool, authority);
}
