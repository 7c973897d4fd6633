import { selects } from '../catalog/tool.selection.js';
import type { Toolset, ToolsetRemoval } from '../catalog/toolset.js';
import { callable } from '../execution/tool-permission.js';
import { isPermitted } from '../policy/is-permitted.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { Limits } from '../protocol/limits.js';
import type { PolicyActor, PolicyEngine } from '../protocol/policy.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { ToolInjection } from '../protocol/tool-injection.js';
import { chosenGroups, groupedTools, type InjectionRoom, type ToolGroup } from './chosen-groups.js';
import type { EntityOffer } from './entity.offer.js';
import { instanceRoom, withoutOldest } from './instance-room.js';
import type { RunInstances } from './run.instances.js';

/** What injected tools obey. */
export interface InjectionRules {
  readonly run: RunContext;
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  readonly exclude: readonly ToolSelector[];
  readonly limits: Limits;
  readonly entities: EntityOffer;
  /** In which order the run used what it has; it changes with the toolset. */
  readonly instances: RunInstances;
  /** Whether a tool's own `canCall` is asked before the tool is added. */
  readonly strictListing: boolean;
  readonly signal: AbortSignal;
}

/** What is asked without waiting. */
type PermissionRules = Omit<InjectionRules, 'strictListing' | 'signal'>;

/** What an injection changed, as a new toolset and the events that tell of it. */
export interface AppliedInjection {
  readonly toolset: Toolset;
  readonly added: readonly ToolSpec[];
  readonly events: readonly LoopEventBody[];
}

/** Where in a run an injection is applied, and what was injected before. */
export interface InjectionPlace {
  readonly step: number;
  readonly strategy: string;
  /** Whether it adds nothing that another strategy keeps away. */
  readonly yields: boolean;
  readonly injected: readonly ToolSpec[];
}

/**
 * Applies what a strategy wants, under the run's policy, exclusions and caps. Strategies propose; only this changes a toolset. Rejects with the
 * interruption of a run that ends meanwhile.
 */
export async function applyInjection(
  toolset: Toolset,
  injection: ToolInjection,
  rules: InjectionRules,
  place: InjectionPlace,
): Promise<AppliedInjection> {
  if (!rules.strictListing) return applyPermitted(toolset, injection, rules, place);
  const permitted = permittedOf(injection.add ?? [], rules);
  return applyPermitted(toolset, { ...injection, add: await callable(permitted, rules) }, rules, place);
}

/** Applies it without asking any `canCall`, for what is listed strictly as a whole afterwards. */
export function applyPermitted(
  toolset: Toolset,
  injection: ToolInjection,
  rules: PermissionRules,
  place: InjectionPlace,
): AppliedInjection {
  const { step, strategy } = place;
  const removal = withRemoved(toolset, injection, strategy);
  const proposed = (injection.add ?? []).filter(({ spec }) => !place.yields || !removal.toolset.keepsAway(spec));
  const groups = groupedTools(permittedOf(proposed, rules));
  const change = changeOf(groups, removal.toolset, rules, place);
  for (const { tools } of change.taken) if (tools[0]?.entity) rules.instances.used(tools[0]);
  const events: LoopEventBody[] = [
    ...(injection.warnings ?? []).map(({ code, message }) => ({ type: 'warning', step, code, message }) as const),
    ...removedEvents(removal.removed, step, strategy),
    ...removedEvents(change.evicted, step, 'room for newer entities'),
    ...injectedEvents(change, step, strategy),
    ...change.leftOut.flatMap(({ groups: left, why }) => capWarning(left, step, why)),
  ];
  return { toolset: change.toolset, added: change.added, events };
}

function withRemoved(toolset: Toolset, { remove = [], keepAway = [], howToGetBack }: ToolInjection, strategy: string): ToolsetRemoval {
  const told = howToGetBack ?? `It was removed by ${strategy}; call the tool that gave it again.`;
  const without = toolset.without(remove, told);
  const kept = without.toolset.keepingAway(keepAway, told);
  return { toolset: kept.toolset, removed: [...without.removed, ...kept.removed] };
}

/** How many tools can still be injected: those that went again do not count, and neither do those that stand for others. */
export function roomIn(toolset: Toolset, injected: readonly ToolSpec[], { injectedTools }: Pick<Limits, 'injectedTools'>): InjectionRoom {
  const counted = injected.flatMap((spec) => {
    const tool = toolset.find(spec.id);
    return tool?.spec === spec && !tool.surface ? [tool] : [];
  });
  const others = counted.filter(({ entity }) => !entity).length;
  return { entities: injectedTools - counted.length, others: injectedTools - others };
}

/** What new tools came to. */
interface Change extends Pick<AppliedInjection, 'toolset' | 'added'> {
  readonly taken: readonly ToolGroup[];
  readonly surfaces: readonly Tool[];
  readonly evicted: readonly string[];
  readonly leftOut: readonly { readonly groups: readonly ToolGroup[]; readonly why: string }[];
}

function changeOf(
  groups: readonly (readonly Tool[])[],
  toolset: Toolset,
  { limits, entities, instances }: Pick<InjectionRules, 'limits' | 'entities' | 'instances'>,
  { injected }: InjectionPlace,
): Change {
  const free = roomIn(toolset, injected, limits);
  const hasEntities = groups.some(([tool]) => tool?.entity);
  const isSurfaced = hasEntities && entities.isSurfaced(toolset, () => freshIn(groups, toolset) > free.entities);
  const chosen = chosenGroups(groups, toolset, isSurfaced ? { ...free, entities: Number.POSITIVE_INFINITY } : free);
  const room = instanceRoom(chosen.taken, toolset, limits.injectedInstances);
  const eviction = withoutOldest(room, toolset, instances);
  const isBehind = ({ instance }: ToolGroup): boolean => isSurfaced && instance !== undefined;
  const behind = room.taken.filter(isBehind).flatMap(({ tools }) => tools);
  const shown = room.taken.filter((group) => !isBehind(group)).flatMap(({ tools }) => tools);
  const surfaces = entities.surfacesFor(behind, eviction.toolset);
  return {
    ...eviction.toolset.with([...surfaces, ...shown], behind),
    taken: room.taken,
    surfaces,
    evicted: eviction.removed,
    leftOut: [
      { groups: chosen.leftOut, why: `a run holds at most ${limits.injectedTools} injected tools. Raise limits.injectedTools` },
      { groups: room.leftOut, why: `a run holds at most ${limits.injectedInstances} entities. Raise limits.injectedInstances` },
    ],
  };
}

/** How many tools are new. */
function freshIn(groups: readonly (readonly Tool[])[], toolset: Toolset): number {
  const fresh = groups.flat().filter(({ spec }) => !toolset.held(spec.id));
  return new Set(fresh.map(({ spec }) => spec.id)).size;
}

/** Those that policy, exclusions and the tools themselves let in. Policy sees no instance, so it is asked once for all that differ in nothing else. */
function permittedOf(tools: readonly Tool[], rules: PermissionRules): readonly Tool[] {
  const { run, exclude } = rules;
  const decided = new Map<string, { readonly tool: Tool; readonly isDenied: boolean }>();
  const isDenied = (tool: Tool): boolean => {
    const known = decided.get(tool.spec.declaredId);
    if (known && isAlike(known.tool, tool)) return known.isDenied;
    const answer = !isPermitted(tool, rules);
    decided.set(tool.spec.declaredId, { tool, isDenied: answer });
    return answer;
  };
  const isExcluded = (tool: Tool): boolean => exclude.some((selector) => selects(selector, { tool }));
  return tools.filter((tool) => !isDenied(tool) && !isExcluded(tool) && (tool.when?.(run) ?? true));
}

function isAlike({ spec: one, origin }: Tool, { spec: other, origin: otherOrigin }: Tool): boolean {
  return origin === otherOrigin && one.effect === other.effect && one.labels === other.labels && one.inputSchema === other.inputSchema;
}

function removedEvents(tools: readonly string[], step: number, reason: string): LoopEventBody[] {
  return tools.length === 0 ? [] : [{ type: 'tools-removed', step, tools, reason }];
}

/** The surfaces first, which the model is shown; then every instance, whatever it is called over. */
function injectedEvents({ surfaces, taken }: Change, step: number, strategy: string): LoopEventBody[] {
  const groups = [surfaces, ...taken.map(({ fresh }) => fresh)].filter((tools) => tools.length > 0);
  return groups.map((tools) => {
    const entity = tools[0]?.entity;
    const ids = tools.map(({ spec }) => spec.id);
    if (!entity) return { type: 'tools-injected', step, provider: strategy, tools: ids };
    return { type: 'tools-injected', step, provider: entity.provider, instanceId: entity.instanceId, tools: ids };
  });
}

/** One for all that was left out: a long list must not flood the events. */
function capWarning([first, ...others]: readonly ToolGroup[], step: number, why: string): LoopEventBody[] {
  if (!first) return [];
  const [tool] = first.tools;
  const name = tool?.entity ? `${tool.entity.provider} ${JSON.stringify(tool.entity.instanceId)}` : (tool?.spec.id ?? 'a tool');
  const whose = others.length === 0 ? name : `${name} and of ${others.length} more`;
  const message = `The tools of ${whose} were not added: ${why}, or return fewer at a time.`;
  return [{ type: 'warning', step, code: 'injection_cap', message }];
}
