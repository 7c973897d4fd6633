import type { LoopEventBody } from '@toolloop/protocol';
import { callable } from '../../call/permission.js';
import { selects } from '../../catalog/tool-selection.js';
import type { Toolset, ToolsetRemoval } from '../../catalog/toolset.js';
import type { ToolInjection, ToolInjectionStrategy } from '../../contracts/injection.js';
import type { Limits } from '../../contracts/limits.js';
import type { PolicyActor, PolicyEngine } from '../../contracts/policy.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { ToolSelector } from '../../contracts/tool-selector.js';
import type { Tool } from '../../contracts/tool.js';
import { isPermitted } from '../../policy/decide.js';
import type { EntityOffer } from '../entities/entity-offer.js';
import type { RunInstances } from '../entities/run-instances.js';
import {
  chosenGroups,
  groupedTools,
  type InjectionRoom,
  instanceRoom,
  type ToolGroup,
  withoutOldest,
} from './injection-room.js';

/**
 * Applies the proposal of a strategy, under the run's policy, exclusions and caps. Strategies
 * propose; only this function changes a toolset. Rejects with the interruption of a run that ends
 * meanwhile.
 */
export async function applyInjection(
  toolset: Toolset,
  injection: ToolInjection,
  rules: InjectionRules,
  place: InjectionPlace,
): Promise<AppliedInjection> {
  if (!rules.strictListing) return applyPermitted(toolset, injection, rules, place);
  const permitted = selectPermitted(injection.add ?? [], rules);
  return applyPermitted(
    toolset,
    { ...injection, add: await callable(permitted, rules) },
    rules,
    place,
  );
}

/** The rules for injected tools. */
export interface InjectionRules {
  readonly run: RunContext;
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  readonly exclude: readonly ToolSelector[];
  readonly limits: Limits;
  readonly entities: EntityOffer;
  /** The instances of the run in the order of their use; it changes with the toolset. */
  readonly instances: RunInstances;
  /** Calls a tool's own `canCall` before the tool is added. */
  readonly strictListing: boolean;
  readonly signal: AbortSignal;
}

/** The synchronous rules. */
type PermissionRules = Omit<InjectionRules, 'strictListing' | 'signal'>;

/** The outcome of an injection: the new toolset and its events. */
export interface AppliedInjection {
  readonly toolset: Toolset;
  readonly events: readonly LoopEventBody[];
}

/** The step in which an injection is applied, and the strategy that proposed it. */
export interface InjectionPlace {
  readonly step: number;
  /** The strategy. One that yields adds no tool that another withholds. */
  readonly strategy: Pick<ToolInjectionStrategy, 'name' | 'yields'>;
}

/**
 * Applies a proposal without calling any `canCall`, for a toolset that is listed strictly as a
 * whole afterwards.
 */
export function applyPermitted(
  toolset: Toolset,
  injection: ToolInjection,
  rules: PermissionRules,
  place: InjectionPlace,
): AppliedInjection {
  const { step, strategy } = place;
  const { name, yields } = strategy;
  const removal = withRemoved(toolset, injection, name);
  const proposed = (injection.add ?? []).filter(
    ({ spec }) => !yields || !removal.toolset.withholds(spec),
  );
  const groups = groupedTools(selectPermitted(proposed, rules));
  const change = changeOf(groups, removal.toolset, rules);
  for (const { tools } of change.taken) if (tools[0]?.entity) rules.instances.used(tools[0]);
  const events: LoopEventBody[] = [
    ...(injection.warnings ?? []).map(
      ({ code, message }) => ({ type: 'warning', step, code, message }) as const,
    ),
    ...removedEvents(removal.removed, step, name),
    ...removedEvents(change.evicted, step, 'room for newer entities'),
    ...injectedEvents(change, step, name),
    ...change.leftOut.flatMap(({ groups: left, why }) => capWarning(left, step, why)),
  ];
  return { toolset: change.toolset, events };
}

function withRemoved(toolset: Toolset, injection: ToolInjection, strategy: string): ToolsetRemoval {
  const { remove = [], withhold = [], howToGetBack } = injection;
  const {
    cause = { kind: 'removed', strategy, ...(howToGetBack !== undefined && { howToGetBack }) },
  } = injection;
  const without = toolset.remove(
    remove.flatMap((id) => toolset.findCallable(id) ?? []),
    cause,
  );
  const kept = without.toolset.withhold(withhold, cause);
  return { toolset: kept.toolset, removed: [...without.removed, ...kept.removed] };
}

/** Returns the number of tools that can still be injected. */
export function roomIn(
  toolset: Toolset,
  { injectedTools }: Pick<Limits, 'injectedTools'>,
): InjectionRoom {
  const { ofEntities, others } = toolset.injectedNow;
  return { entities: injectedTools - ofEntities - others, others: injectedTools - others };
}

/** The outcome of adding tools. */
interface Change extends Pick<AppliedInjection, 'toolset'> {
  readonly taken: readonly ToolGroup[];
  readonly surfaces: readonly Tool[];
  readonly evicted: readonly string[];
  readonly leftOut: readonly { readonly groups: readonly ToolGroup[]; readonly why: string }[];
}

function changeOf(
  groups: readonly (readonly Tool[])[],
  toolset: Toolset,
  { limits, entities, instances }: Pick<InjectionRules, 'limits' | 'entities' | 'instances'>,
): Change {
  const free = roomIn(toolset, limits);
  const hasEntities = groups.some(([tool]) => tool?.entity);
  const isSurfaced =
    hasEntities && entities.isSurfaced(toolset, () => freshIn(groups, toolset) > free.entities);
  const chosen = chosenGroups(
    groups,
    toolset,
    isSurfaced ? { ...free, entities: Number.POSITIVE_INFINITY } : free,
  );
  const room = instanceRoom(chosen.taken, toolset, limits.injectedInstances);
  const eviction = withoutOldest(room, toolset, instances);
  const isBehind = ({ instance }: ToolGroup): boolean => isSurfaced && instance !== undefined;
  const behind = room.taken.filter(isBehind).flatMap(({ tools }) => tools);
  const shown = room.taken.filter((group) => !isBehind(group)).flatMap(({ tools }) => tools);
  const surfaces = entities.surfacesFor(behind, eviction.toolset);
  return {
    toolset: eviction.toolset.inject([...surfaces, ...shown], behind).toolset,
    taken: room.taken,
    surfaces,
    evicted: eviction.removed,
    leftOut: [
      {
        groups: chosen.leftOut,
        why: `a run holds at most ${limits.injectedTools} injected tools. Raise limits.injectedTools`,
      },
      {
        groups: room.leftOut,
        why: `a run holds at most ${limits.injectedInstances} entities. Raise limits.injectedInstances`,
      },
    ],
  };
}

/** Counts the new tools. */
function freshIn(groups: readonly (readonly Tool[])[], toolset: Toolset): number {
  const fresh = groups.flat().filter(({ spec }) => !toolset.findCallable(spec.id));
  return new Set(fresh.map(({ spec }) => spec.id)).size;
}

/**
 * Returns the tools that policy, exclusions and the tools themselves permit. Policy sees no
 * instance, so it decides once for all tools that differ in it alone.
 */
function selectPermitted(tools: readonly Tool[], rules: PermissionRules): readonly Tool[] {
  const { run, exclude } = rules;
  const decided = new Map<string, { readonly tool: Tool; readonly isDenied: boolean }>();
  const isDenied = (tool: Tool): boolean => {
    const known = decided.get(tool.spec.declaredId);
    if (known && isAlike(known.tool, tool)) return known.isDenied;
    const answer = !isPermitted(tool, rules);
    decided.set(tool.spec.declaredId, { tool, isDenied: answer });
    return answer;
  };
  const isExcluded = (tool: Tool): boolean =>
    exclude.some((selector) => selects(selector, { tool }));
  return tools.filter((tool) => !isDenied(tool) && !isExcluded(tool) && (tool.when?.(run) ?? true));
}

function isAlike({ spec: one, origin }: Tool, { spec: other, origin: otherOrigin }: Tool): boolean {
  return (
    origin === otherOrigin &&
    one.effect === other.effect &&
    one.labels === other.labels &&
    one.inputSchema === other.inputSchema
  );
}

function removedEvents(tools: readonly string[], step: number, reason: string): LoopEventBody[] {
  return tools.length === 0 ? [] : [{ type: 'tools-removed', step, tools, reason }];
}

/**
 * Makes the events: the surfaces first, which the model sees, then one per instance, even if it is
 * called over a surface.
 */
function injectedEvents(
  { surfaces, taken }: Change,
  step: number,
  strategy: string,
): LoopEventBody[] {
  const groups = [surfaces, ...taken.map(({ fresh }) => fresh)].filter((tools) => tools.length > 0);
  return groups.map((tools) => {
    const entity = tools[0]?.entity;
    const ids = tools.map(({ spec }) => spec.id);
    if (!entity) return { type: 'tools-injected', step, provider: strategy, tools: ids };
    return {
      type: 'tools-injected',
      step,
      provider: entity.provider,
      instanceId: entity.instanceId,
      tools: ids,
    };
  });
}

/**
 * Makes one warning for all tools that were left out, since a long list must not flood the events.
 */
function capWarning(
  [first, ...others]: readonly ToolGroup[],
  step: number,
  why: string,
): LoopEventBody[] {
  if (!first) return [];
  const [tool] = first.tools;
  const name = tool?.entity
    ? `${tool.entity.provider} ${JSON.stringify(tool.entity.instanceId)}`
    : (tool?.spec.id ?? 'a tool');
  const whose = others.length === 0 ? name : `${name} and of ${others.length} more`;
  const message = `The tools of ${whose} were not added: ${why}, or return fewer at a time.`;
  return [{ type: 'warning', step, code: 'injection_cap', message }];
}
