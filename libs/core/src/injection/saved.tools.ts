import { selects } from '../catalog/tool.selection.js';
import { declaredIdIn, memberKey, prefixIn } from '../catalog/entity-keys.js';
import { LAID_DOWN } from '../catalog/tombstones.js';
import type { Toolset } from '../catalog/toolset.js';
import type { EntityRegistry } from '../discovery/entity.registry.js';
import { HeldInstance } from '../discovery/held.instance.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { EntityReference, Tool, ToolSpec } from '../protocol/tool.js';
import type { EntityHandles, EntityKey, ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { EntityOffer } from './entity.offer.js';
import type { RunReserve } from './run.reserve.js';
import { bindTools } from './tool-provider.extractor.js';

/** An entity whose tools a run has: enough to have them again, with the same ids, where its class has a resolver. */
export interface SavedEntity extends EntityKey, Pick<EntityReference, 'depth'> {
  readonly givenBy: string;
  /** Rendered ids. */
  readonly tools: readonly string[];
}

/** The tools of a waiting run as JSON. */
export interface SavedTools {
  /** Rendered ids of what the model was shown, in their order; tools of entities that are not among them are called over a surface. */
  readonly order: readonly string[];
  /** Rendered ids of whatever was ever injected. */
  readonly injected: readonly string[];
  readonly entities: readonly SavedEntity[];
  /** Tools that were removed, and how to get each back. */
  readonly gone: readonly (readonly [id: string, howToGetBack: string])[];
  /** Names and globs of tools that stay away. @default none */
  readonly keptAway?: readonly string[];
}

/** What a run goes on with. */
export interface ToolsBefore {
  readonly saved: SavedTools;
  /** The injected tools themselves, where the process still has them. */
  readonly remains: readonly Tool[];
  /** Tools of the catalog that strategies keep back and had given it, as far as it may have them still. */
  readonly given: readonly Tool[];
  readonly exclude: readonly ToolSelector[];
  readonly handles: EntityHandles;
  readonly offer: EntityOffer;
}

/** What strategies had given a run of what they keep back: where only an artifact told them to, no record tells them again. */
export function givenBefore(
  { injected, order }: SavedTools,
  { strategies, reserve }: { readonly strategies: readonly ToolInjectionStrategy[]; readonly reserve: RunReserve },
): readonly Tool[] {
  const shown = new Set(order);
  const given = new Set(injected.filter((id) => shown.has(id)));
  return strategies.flatMap((strategy) => reserve.of(strategy).all).filter(({ spec }) => given.has(spec.id));
}

/** What of a run's tools is JSON. */
export function savedTools(toolset: Toolset, injected: readonly ToolSpec[]): SavedTools {
  const entities = new Map<string, SavedEntity & { readonly tools: string[] }>();
  for (const { id } of toolset.reachable) {
    const { entity, givenBy = '', spec } = toolset.held(id) ?? {};
    if (!entity || !spec) continue;
    const { instanceId, depth } = entity;
    const prefix = prefixIn(spec.declaredId);
    const key = JSON.stringify([prefix, instanceId]);
    const known = entities.get(key) ?? { prefix, instanceId, depth, givenBy, tools: [] };
    known.tools.push(id);
    entities.set(key, known);
  }
  return {
    order: toolset.specs.map(({ id }) => id),
    injected: injected.map(({ id }) => id),
    entities: [...entities.values()],
    gone: toolset.removals,
    ...(toolset.keptAway.length > 0 && { keptAway: toolset.keptAway }),
  };
}

/**
 * What a run had, in the same order: tools of entities that a resolver finds again are looked for when they are called, others are those the process still has, and
 * of the rest the model is told how to get them back. What strategies gave is there, and what they took away is not, but for what went with a role.
 */
export function resumedTools(
  begun: Toolset,
  { saved, remains, given, exclude, handles, offer }: ToolsBefore,
  entities: EntityRegistry,
): Toolset {
  const isKept = (tool: Tool): boolean => !exclude.some((selector) => selects(selector, { tool }));
  const found = saved.entities.flatMap((entity) => toolsOf(entity, entities, handles));
  const foundIds = new Set(found.map(({ spec }) => spec.id));
  const tools = [...given, ...remains.filter(({ spec }) => !foundIds.has(spec.id)), ...found].filter(isKept);
  const wasShown = new Set(saved.order);
  const isBehind = ({ spec, entity }: Tool): boolean => entity !== undefined && !wasShown.has(spec.id);
  const surfaces = offer.surfacesNamed(saved.order).filter(isKept);
  const { toolset } = withoutGone(begun, saved).with([...tools.filter((tool) => !isBehind(tool)), ...surfaces], tools.filter(isBehind));
  const lost = saved.entities.flatMap((entity) => keysOf(entity).map((key): [string, string] => [key, wayBack(entity)]));
  const excluded = new Set([...given, ...remains, ...found].filter((tool) => !isKept(tool)).map(({ spec }) => spec.id));
  return toolset.resumed(
    saved.order,
    [...saved.gone, ...lost].filter(([id]) => !excluded.has(id)),
  );
}

/** A run within a run begins with what that has, tools that are called over a surface included. */
function withoutGone(begun: Toolset, { gone, order, entities, keptAway = [] }: SavedTools): Toolset {
  const taken = new Map(gone.filter(([, howToGetBack]) => !howToGetBack.startsWith(LAID_DOWN)));
  const known = new Set([...order, ...entities.flatMap((entity) => entity.tools), ...taken.keys()]);
  const { toolset } = begun.keepingAway(keptAway, 'It was taken away: go on without it.', (id) => known.has(id));
  const tools = [...taken.keys()].flatMap((id) => toolset.held(id) ?? []);
  return toolset.withoutTools(tools, ({ spec }) => taken.get(spec.id) ?? 'It went with the tool over which it was called.').toolset;
}

/** Under what its tools were known: their ids, and the instance's own where they were called over a surface. */
function keysOf({ instanceId, tools }: SavedEntity): readonly string[] {
  return tools.flatMap((id) => [id, memberKey(declaredIdIn(id), instanceId)]);
}

/** Nothing where its class has no resolver, or is none of ours any more. */
function toolsOf({ prefix, instanceId, depth, givenBy, tools }: SavedEntity, entities: EntityRegistry, handles: EntityHandles): Tool[] {
  const definition = entities.withPrefix(prefix);
  if (!definition?.rehydration) return [];
  const held = new HeldInstance(definition, instanceId);
  return bindTools(definition, held, { instanceId, depth, givenBy, handles }).filter(({ spec }) => tools.includes(spec.id));
}

/** An instance's id may be anybody's words, so it is not in what we say. */
function wayBack({ givenBy }: SavedEntity): string {
  return `It went while the run waited. Call ${givenBy} again, which gave it.`;
}
