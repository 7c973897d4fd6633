import { Logger } from '@nestjs/common';
import type { EntityReference, ToolSpec } from '@toolloop/protocol';
import type { ToolCatalog } from '../catalog/tool-catalog.js';
import { declaredIdIn, memberKey, prefixIn, selects, selectsClass } from '../catalog/tool-selection.js';
import { isRemovalCause, type SavedRemovals } from '../catalog/tool-removals.js';
import { Toolset } from '../catalog/toolset.js';
import type {
  EntityHandles,
  EntityKey,
  EntitySurface,
  RemovalCause,
  RunBeginning,
  ToolInjection,
  ToolInjectionStrategy,
} from '../contracts/injection.js';
import type { LoopRequest, ToolSelector } from '../contracts/loop-request.js';
import type { Tool } from '../contracts/tool.js';
import { type EntityRegistry, HeldInstance } from '../discovery/entity-registry.js';
import { isPermitted } from '../policy/policy-engine.js';
import { type Form, list, NUMBER, object, optional, pair, TEXT } from '../schema/saved-form.js';
import { applyPermitted, type InjectionRules } from './apply-injection.js';
import { EntityOffer, EntitySurfaces, type OfferRules } from './entity-surfaces.js';
import { bindTools } from './entity-tools.js';
import { RunInstances } from './run-entities.js';
import { type RunReserve, ToolReserve } from './tool-reserve.js';

const logger = new Logger('ToolInjection');

/** The tools that results may bring a run or take from it, and what keeps out which of them. */
export interface RunInjection extends Pick<InjectionRules, 'exclude' | 'entities'> {
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly reserve: RunReserve;
}

/** The actor for whom tools are listed, and the policies and limits that hold. */
export type ListingScope = Pick<InjectionRules, 'run' | 'actor' | 'policies' | 'limits'>;

/** The selection and injection of a run or of its loop; neither can let in what the other keeps out. */
export type ToolNarrowing = Pick<LoopRequest, 'tools' | 'exclude' | 'injection'>;

/** The rules for a run's tools on every level, the same for every actor. */
export interface ListingRules extends Pick<InjectionRules, 'strictListing'> {
  readonly levels: readonly ToolNarrowing[];
  /** In the order in which they are asked. */
  readonly strategies: readonly ToolInjectionStrategy[];
  readonly surface: EntitySurface;
}

/** The tools with which a run begins, and what results may change in them. */
export interface ListedTools {
  readonly toolset: Toolset;
  readonly injection: RunInjection;
}

/**
 * Decides which tools a run has. A step's list is
 *
 *     catalog ▸ selection ▸ permission ▸ withheld ▸ injected ▸ surfaced
 *
 * - the catalog's tools that every level selects ({@link ToolCatalog.build}),
 * - that policies permit the actor and that make sense for the run,
 * - without those that strategies keep back ({@link ToolReserve.divide}),
 * - with those that strategies give at the start and after each result ({@link applyPermitted}, under permission and caps),
 * - tools of entities behind a surface where the run has one ({@link EntityOffer}).
 *
 * The list is made anew for another authority; after a result, or when a run is resumed, the toolset there is is added to and removed from, so that earlier
 * tools keep their order and bytes. What was removed has a cause, by which it stays away or comes back.
 */
export class ToolListing {
  private readonly reserve: ToolReserve;
  private surfaces: EntitySurfaces | undefined;

  /** `admit` leaves out of an injection what may not be applied at all. */
  constructor(
    private readonly catalog: ToolCatalog,
    private readonly admit: (injection: ToolInjection) => ToolInjection,
  ) {
    this.reserve = new ToolReserve(catalog);
  }

  /**
   * Where injection is off, what strategies keep back stays away: turning it off must not give more.
   *
   * @throws InvalidRequestError for a name that no tool has
   */
  list(rules: ListingRules, scope: ListingScope, before?: Pick<RunBeginning, 'records' | 'shown'>): ListedTools {
    const { levels, strategies, surface, strictListing } = rules;
    const isOff = levels.some(({ injection }) => injection === false);
    const exclude = this.excludedBy(levels);
    this.surfaces ??= new EntitySurfaces(this.catalog.entities);
    const entities = new EntityOffer(isOff ? 'named' : surface, this.surfaces, { ...scope, exclude, strictListing });
    const reserve = this.reserve.divide(this.permitted(levels, scope), strategies);
    const injection = { exclude, entities, strategies: isOff ? [] : strategies, reserve };
    return { injection, toolset: this.begun(injection, scope, before) };
  }

  /** Selected and permitted at every level, and sensible for this run. */
  private permitted(levels: readonly ToolNarrowing[], scope: ListingScope): readonly Tool[] {
    const selected = this.catalog.build(...levels).filter(({ subRun }) => !subRun || scope.limits.subRunDepth > 0);
    return selected.filter((tool) => isPermitted(tool, scope) && (tool.when?.(scope.run) ?? true));
  }

  /** The class of an entity stands for the tools of its instances, which know their declared ids only. */
  private excludedBy(levels: readonly ToolNarrowing[]): readonly ToolSelector[] {
    const exclude = levels.flatMap((level) => level.exclude ?? []);
    const ofClasses = this.catalog.entities.definitions.filter(({ type }) => exclude.some((selector) => selectsClass(selector, type)));
    return [...exclude, ...ofClasses.flatMap(({ tools }) => tools.map(({ template }) => template.spec.declaredId))];
  }

  /** The tools that are not kept back, and behind them those that strategies give from the start, in their order. None of them counts as injected. */
  private begun(
    { strategies, reserve, exclude, entities }: RunInjection,
    { limits, ...scope }: ListingScope,
    before: Pick<RunBeginning, 'records' | 'shown'> = { records: [] },
  ): Toolset {
    const rules = {
      ...scope,
      exclude,
      entities,
      instances: new RunInstances(),
      limits: { ...limits, injectedTools: Number.POSITIVE_INFINITY },
    };
    const { dispatcher } = entities;
    let toolset = Toolset.of(dispatcher ? [...reserve.kept, dispatcher] : reserve.kept);
    for (const strategy of strategies) {
      const beginning = { ...before, run: scope.run, room: limits.injectedTools, toolset: toolset.specs, withheld: reserve.of(strategy) };
      const given = begin(strategy, beginning);
      if (given) toolset = applyPermitted(toolset, this.admit(given), rules, { step: 0, strategy }).toolset;
    }
    return toolset.withInjected([]);
  }
}

/** The part of a run's tools that a run within it may have. */
export interface Within {
  /** Keeps tools out, injected ones too, as `exclude` does. */
  readonly isKeptOut: (spec: ToolSpec) => boolean;
  /** Selected and permitted there. */
  readonly isLeft: (tool: Tool) => boolean;
}

/**
 * The same list for a run within a run: its catalog is what the run around it has, and what of a large catalog that could search for. What a strategy keeps back
 * for another reason stays there, and so does what is bound to that run alone. Tools of entities are called over what they are called over there.
 */
export function listedWithin(outer: ListedTools, { isKeptOut, isLeft }: Within, scope: Omit<OfferRules, 'exclude'>): ListedTools {
  const { strategies, reserve } = outer.injection;
  const exclude = [...outer.injection.exclude, isKeptOut];
  const entities = outer.injection.entities.within({ ...scope, exclude });
  const searchable = strategies.filter(({ yields }) => yields === true).flatMap((strategy) => reserve.of(strategy).all);
  const catalog = [...new Set([...outer.toolset.shown, ...searchable])];
  const shown = catalog.filter((tool) => !isBound(tool) && !outer.toolset.keepsAway(tool.spec) && isLeft(tool));
  const tools = entities.dispatcher ? [...shown, entities.dispatcher] : shown;
  return {
    injection: { exclude, entities, strategies, reserve: reserve.within(isLeft) },
    toolset: Toolset.of(tools, outer.toolset.behindSurfaces.filter(isLeft)).keepingAwayAs(outer.toolset),
  };
}

/** To one run: another has its own. */
function isBound({ origin, surface }: Tool): boolean {
  return origin.source === 'toolloop' || surface?.kind === 'dispatcher';
}

/**
 * Tells strategies what a run within the run did, where the process that kept their notes of it is gone. What it has by now is known, so that nothing they
 * give is taken.
 */
export function remindStrategies(
  { strategies, reserve }: Pick<RunInjection, 'strategies' | 'reserve'>,
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
  /** Tools that were removed, and the cause of each removal. */
  readonly gone: SavedRemovals;
  /** Names and globs of tools that stay away. @default none */
  readonly keptAway?: readonly string[];
}

const CAUSE: Form<RemovalCause> = { check: (value, at) => (isRemovalCause(value) ? undefined : at) };

export const SAVED_TOOLS = object<SavedTools>({
  order: list(TEXT),
  injected: list(TEXT),
  entities: list(object<SavedEntity>({ prefix: TEXT, instanceId: TEXT, depth: NUMBER, givenBy: TEXT, tools: list(TEXT) })),
  gone: list(pair(CAUSE)),
  keptAway: optional(list(TEXT)),
});

/** The tools of a run that are no JSON, and live as long as the process does. */
export interface ProcessTools {
  /** The tools that were injected and are still there; those of entities are bound to live instances. */
  readonly injected: readonly Tool[];
  /** The tools that went with roles and come back with them. */
  readonly suspended: readonly Tool[];
  /** Everything that was ever injected. */
  readonly specs: readonly ToolSpec[];
}

/** Takes from a run's tools what {@link savedTools} cannot save. */
export function processTools({ shown, behindSurfaces, injected, suspended }: Toolset): ProcessTools {
  const isInjected = new Set(injected);
  return { injected: [...shown.filter(({ spec }) => isInjected.has(spec)), ...behindSurfaces], suspended, specs: injected };
}

/** The tools of a run that stood still. */
export interface ToolsBefore {
  readonly saved: SavedTools;
  /** Absent where the process that had them is gone. */
  readonly remains?: ProcessTools | undefined;
}

/** Finds the entities of a run again, under the names they had in it. */
export interface EntitiesBefore {
  readonly registry: EntityRegistry;
  readonly handles: EntityHandles;
}

/** The tools that strategies keep back and had given a run: where only an artifact told them to, no record tells them again. */
function givenBefore({ injected, order }: SavedTools, { strategies, reserve }: RunInjection): readonly Tool[] {
  const shown = new Set(order);
  const given = new Set(injected.filter((id) => shown.has(id)));
  return strategies.flatMap((strategy) => reserve.of(strategy).all).filter(({ spec }) => given.has(spec.id));
}

/** What of a run's tools is JSON. */
export function savedTools(toolset: Toolset): SavedTools {
  const entities = new Map<string, SavedEntity & { readonly tools: string[] }>();
  for (const { entity, givenBy = '', spec } of toolset.tools) {
    if (!entity) continue;
    const { instanceId, depth } = entity;
    const prefix = prefixIn(spec.declaredId);
    const key = JSON.stringify([prefix, instanceId]);
    const known = entities.get(key) ?? { prefix, instanceId, depth, givenBy, tools: [] };
    known.tools.push(spec.id);
    entities.set(key, known);
  }
  return {
    order: toolset.specs.map(({ id }) => id),
    injected: toolset.injected.map(({ id }) => id),
    entities: [...entities.values()],
    gone: toolset.removals,
    ...(toolset.keptAway.length > 0 && { keptAway: toolset.keptAway }),
  };
}

/**
 * The tools that a run had, in the same order: tools of entities that a resolver finds again are looked for when they are called, others are those the process
 * still has, and of the rest the model is told how to get them back. What strategies gave is there, and what they took away is not, but for what went with a role.
 */
export function resumedTools(begun: Toolset, { saved, remains }: ToolsBefore, injection: RunInjection, before: EntitiesBefore): Toolset {
  const isKept = (tool: Tool): boolean => !injection.exclude.some((selector) => selects(selector, { tool }));
  const found = saved.entities.flatMap((entity) => toolsOf(entity, before));
  const foundIds = new Set(found.map(({ spec }) => spec.id));
  const held = (remains?.injected ?? []).filter(({ spec }) => !foundIds.has(spec.id));
  const had = [...givenBefore(saved, injection), ...held, ...found];
  const tools = had.filter(isKept);
  const wasShown = new Set(saved.order);
  const isBehind = ({ spec, entity }: Tool): boolean => entity !== undefined && !wasShown.has(spec.id);
  const surfaces = injection.entities.surfacesNamed(saved.order).filter(isKept);
  const shown = [...tools.filter((tool) => !isBehind(tool)), ...surfaces];
  const { toolset } = withoutGone(begun, saved).add(shown, tools.filter(isBehind));
  const excluded = new Set(had.filter((tool) => !isKept(tool)).map(({ spec }) => spec.id));
  const gone = [...saved.gone, ...saved.entities.flatMap(lostWith)].filter(([id]) => !excluded.has(id));
  const resumed = toolset.resumed(saved.order, gone, remains?.suspended);
  const known = new Map(remains?.specs.map((spec) => [spec.id, spec]));
  return resumed.withInjected(saved.injected.flatMap((id) => resumed.find(id)?.spec ?? known.get(id) ?? []));
}

/** A run within a run begins with what that has, tools that are called over a surface included. */
function withoutGone(begun: Toolset, { gone, order, entities, keptAway = [] }: SavedTools): Toolset {
  const taken = new Map(gone.filter(([, { kind }]) => kind !== 'role'));
  const known = new Set([...order, ...entities.flatMap((entity) => entity.tools), ...taken.keys()]);
  const { toolset } = begun.keepAway(keptAway, { kind: 'kept_away' }, (id) => known.has(id));
  const tools = [...taken.keys()].flatMap((id) => toolset.held(id) ?? []);
  return toolset.remove(tools, ({ spec }) => taken.get(spec.id) ?? { kind: 'surface' }).toolset;
}

/** The removals of an entity's tools with the process that held it: by their ids, and by the instance's own where they were called over a surface. */
function lostWith({ instanceId, tools, givenBy }: SavedEntity): SavedRemovals {
  const cause: RemovalCause = { kind: 'process_ended', givenBy };
  return tools.flatMap((id) => [id, memberKey(declaredIdIn(id), instanceId)].map((key): [string, RemovalCause] => [key, cause]));
}

/** Nothing where its class has no resolver, or is none of ours any more. */
function toolsOf({ prefix, instanceId, depth, givenBy, tools }: SavedEntity, { registry, handles }: EntitiesBefore): Tool[] {
  const definition = registry.withPrefix(prefix);
  if (!definition?.rehydration) return [];
  const held = new HeldInstance(definition, instanceId);
  return bindTools(definition, held, { instanceId, depth, givenBy, handles }).filter(({ spec }) => tools.includes(spec.id));
}
