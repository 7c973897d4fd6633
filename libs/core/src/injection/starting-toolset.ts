import { Logger } from '@nestjs/common';
import type { EntityReference, ToolSpec } from '@toolloop/protocol';
import { declaredIdIn, memberKey, prefixIn, selects } from '../catalog/tool-selection.js';
import { LAID_DOWN, Toolset } from '../catalog/toolset.js';
import type { EntityHandles, EntityKey, RunBeginning, ToolInjection, ToolInjectionStrategy } from '../contracts/injection.js';
import type { ToolSelector } from '../contracts/loop-request.js';
import type { Tool } from '../contracts/tool.js';
import { type EntityRegistry, HeldInstance } from '../discovery/entity-registry.js';
import { list, NUMBER, object, optional, pair, TEXT } from '../schema/saved-form.js';
import { applyPermitted, type InjectionRules } from './apply-injection.js';
import type { EntityOffer } from './entity-surfaces.js';
import { bindTools } from './entity-tools.js';
import { RunInstances } from './run-entities.js';
import type { RunReserve } from './tool-reserve.js';

const logger = new Logger('ToolInjection');

/** What decides on a run's first toolset, beside its policies. */
interface Beginning extends Pick<InjectionRules, 'exclude' | 'entities'> {
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly reserve: RunReserve;
  /** Leaves out what may not be applied at all. */
  readonly admit: (injection: ToolInjection) => ToolInjection;
}

/** What a run starts with: what nobody keeps back, and behind it what its strategies give from the start, in their order. */
export function begunToolset(
  { strategies, reserve, exclude, entities, admit }: Beginning,
  { limits, ...scope }: Pick<InjectionRules, 'run' | 'actor' | 'policies' | 'limits'>,
  before: Pick<RunBeginning, 'records' | 'shown'> = { records: [] },
): Toolset {
  const instances = new RunInstances();
  const rules = { ...scope, exclude, entities, instances, limits: { ...limits, injectedTools: Number.POSITIVE_INFINITY } };
  const { run } = scope;
  const room = limits.injectedTools;
  const { dispatcher } = entities;
  let toolset = Toolset.of(dispatcher ? [...reserve.kept, dispatcher] : reserve.kept);
  for (const strategy of strategies) {
    const begun = begin(strategy, { ...before, run, room, toolset: toolset.specs, withheld: reserve.of(strategy) });
    const { name, yields = false } = strategy;
    if (begun) toolset = applyPermitted(toolset, admit(begun), rules, { step: 0, strategy: name, yields, injected: [] }).toolset;
  }
  return toolset;
}

/**
 * Tells strategies what a run within the run did, where the process that kept their notes of it is gone. What it has by now is known, so that nothing they
 * give is taken.
 */
export function remindStrategies(
  { strategies, reserve }: Pick<Beginning, 'strategies' | 'reserve'>,
  before: Pick<RunBeginning, 'run' | 'toolset' | 'room' | 'records' | 'shown'>,
): void {
  for (const strategy of strategies) begin(strategy, { ...before, withheld: reserve.of(strategy) });
}

/** A strategy that fails gives nothing, and what it keeps back stays away. */
function begin(strategy: ToolInjectionStrategy, beginning: RunBeginning): ToolInjection | undefined {
  try {
    return strategy.begin?.(beginning);
  } catch (error) {
    logger.error(`The injection strategy ${strategy.name} failed as the run ${beginning.run.runId} began.`, error);
    return undefined;
  }
}

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

export const SAVED_TOOLS = object<SavedTools>({
  order: list(TEXT),
  injected: list(TEXT),
  entities: list(object<SavedEntity>({ prefix: TEXT, instanceId: TEXT, depth: NUMBER, givenBy: TEXT, tools: list(TEXT) })),
  gone: list(pair(TEXT)),
  keptAway: optional(list(TEXT)),
});

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
