import type { EntityReference, ToolSpec } from '@toolloop/protocol';
import { declaredIdIn, memberKey, prefixIn } from '../entities/member-ids.js';
import { selects } from '../../catalog/tool-selection.js';
import { isRemovalCause } from '../../catalog/removal-cause.js';
import type { SavedRemovals } from '../../catalog/tool-removals.js';
import { Toolset } from '../../catalog/toolset.js';
import type { EntityHandles, EntityKey, RemovalCause } from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { type EntityRegistry } from '../entities/entity-registry.js';
import { HeldInstance } from '../entities/held-instance.js';
import { type Form, list, NUMBER, object, optional, pair, TEXT } from '../../schema/saved-form.js';
import { bindTools } from '../entities/entity-extraction.js';

import type { RunInjection } from './starting-toolset.js';

/** The tools of a waiting run as JSON. */
export interface SavedTools {
  /**
   * The rendered ids of the tools that the model saw, in their order; tools of entities that are
   * not among them are called over a surface.
   */
  readonly order: readonly string[];
  /** The rendered ids of all tools that were ever injected. */
  readonly injected: readonly string[];
  readonly entities: readonly SavedEntity[];
  /** The removed tools, and the cause of each removal. */
  readonly gone: SavedRemovals;
  /** The names and globs of withheld tools. @default none */
  readonly withheld?: readonly string[];
  /**
   * The hashes of the declarations of strangers' tools by rendered id: the model and the people who
   * approve knew these. @default none
   */
  readonly declared?: readonly (readonly [id: string, schemaHash: string])[];
}

/**
 * An entity whose tools a run has, with all that is needed to restore them under the same ids if
 * its class has a resolver.
 */
export interface SavedEntity extends EntityKey, Pick<EntityReference, 'depth'> {
  readonly givenBy: string;
  /** The rendered ids of its tools. */
  readonly tools: readonly string[];
}

const CAUSE: Form<RemovalCause> = {
  check: (value, at) => (isRemovalCause(value) ? undefined : at),
};

export const SAVED_TOOLS = object<SavedTools>({
  order: list(TEXT),
  injected: list(TEXT),
  entities: list(
    object<SavedEntity>({
      prefix: TEXT,
      instanceId: TEXT,
      depth: NUMBER,
      givenBy: TEXT,
      tools: list(TEXT),
    }),
  ),
  gone: list(pair(CAUSE)),
  withheld: optional(list(TEXT)),
  declared: optional(list(pair(TEXT))),
});

/** The tools of a run that cannot be saved as JSON, and live as long as the process. */
export interface ProcessTools {
  /** The injected tools that still exist; those of entities are bound to live instances. */
  readonly injected: readonly Tool[];
  /** The tools that were removed with roles and come back with them. */
  readonly removedWithRole: readonly Tool[];
  /** The specs of all tools that were ever injected. */
  readonly specs: readonly ToolSpec[];
}

/** Returns the part of a run's tools that {@link savedTools} cannot save. */
export function processTools({
  shown,
  behindSurfaces,
  injected,
  removedWithRole,
}: Toolset): ProcessTools {
  const isInjected = new Set(injected);
  return {
    injected: [...shown.filter(({ spec }) => isInjected.has(spec)), ...behindSurfaces],
    removedWithRole,
    specs: injected,
  };
}

/** The tools of a suspended run. */
export interface ToolsBefore {
  readonly saved: SavedTools;
  /** The state of the process; absent if that process is gone. */
  readonly processState?: ProcessTools | undefined;
}

/** Finds the entities of a run again, under their names in it. */
export interface EntitiesBefore {
  readonly registry: EntityRegistry;
  readonly handles: EntityHandles;
}

/**
 * Returns the withheld tools that strategies had added: a decision that depended on an artifact
 * cannot be repeated from the records.
 */
function givenBefore(
  { injected, order }: SavedTools,
  { strategies, reserve }: RunInjection,
): readonly Tool[] {
  const shown = new Set(order);
  const given = new Set(injected.filter((id) => shown.has(id)));
  return strategies
    .flatMap((strategy) => reserve.of(strategy).all)
    .filter(({ spec }) => given.has(spec.id));
}

/** Saves the part of a run's tools that is JSON. */
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
  const injected = new Set(toolset.injected);
  const strangers = toolset.shown.filter(
    ({ origin, spec }) => !origin.trusted && !injected.has(spec),
  );
  const declared = strangers.map(({ spec }) => [spec.id, spec.schemaHash] as const);
  return {
    order: toolset.specs.map(({ id }) => id),
    injected: toolset.injected.map(({ id }) => id),
    entities: [...entities.values()],
    gone: toolset.removals,
    ...(toolset.withheld.length > 0 && { withheld: toolset.withheld }),
    ...(declared.length > 0 && { declared }),
  };
}

/**
 * Restores the tools of a run in the same order: entities with a resolver are resolved when their
 * tools are called, others are those that the process still has, and for the rest the cause of the
 * removal says how to get them back. Tools that strategies added are there, and those they removed
 * are not, except for removals with a role.
 */
export function resumedTools(
  begun: Toolset,
  { saved, processState }: ToolsBefore,
  injection: RunInjection,
  before: EntitiesBefore,
): Toolset {
  const isKept = (tool: Tool): boolean =>
    !injection.exclude.some((selector) => selects(selector, { tool }));
  const found = saved.entities.flatMap((entity) => restoreTools(entity, before));
  const foundIds = new Set(found.map(({ spec }) => spec.id));
  const held = (processState?.injected ?? []).filter(({ spec }) => !foundIds.has(spec.id));
  const had = [...givenBefore(saved, injection), ...held, ...found];
  const tools = had.filter(isKept);
  const wasShown = new Set(saved.order);
  const isBehind = ({ spec, entity }: Tool): boolean =>
    entity !== undefined && !wasShown.has(spec.id);
  const surfaces = injection.entities.surfacesNamed(saved.order).filter(isKept);
  const shown = [...tools.filter((tool) => !isBehind(tool)), ...surfaces];
  const { toolset } = withoutGone(begun, saved).add(shown, tools.filter(isBehind));
  const excluded = new Set(had.filter((tool) => !isKept(tool)).map(({ spec }) => spec.id));
  const gone = [...saved.gone, ...saved.entities.flatMap(lostWith)].filter(
    ([id]) => !excluded.has(id),
  );
  const changed = (saved.declared ?? []).filter(
    ([id, schemaHash]) => toolset.find(id)?.spec.schemaHash !== schemaHash,
  );
  const withdrawn = changed.map(([id]): [string, RemovalCause] => [id, { kind: 'source' }]);
  const left = toolset.remove(
    changed.flatMap(([id]) => toolset.find(id) ?? []),
    { kind: 'source' },
  ).toolset;
  const resumed = left.resumed(saved.order, [...gone, ...withdrawn], processState?.removedWithRole);
  const known = new Map(processState?.specs.map((spec) => [spec.id, spec]));
  return resumed.withInjected(
    saved.injected.flatMap((id) => resumed.find(id)?.spec ?? known.get(id) ?? []),
  );
}

/**
 * Removes the tools that were gone from the starting toolset. A sub-run starts with those of its
 * outer run, including tools behind a surface.
 */
function withoutGone(
  begun: Toolset,
  { gone, order, entities, withheld = [] }: SavedTools,
): Toolset {
  const taken = new Map(gone.filter(([, { kind }]) => kind !== 'role'));
  const known = new Set([...order, ...entities.flatMap((entity) => entity.tools), ...taken.keys()]);
  const { toolset } = begun.withhold(withheld, { kind: 'withheld' }, (id) => known.has(id));
  const tools = [...taken.keys()].flatMap((id) => toolset.findCallable(id) ?? []);
  return toolset.remove(tools, ({ spec }) => taken.get(spec.id) ?? { kind: 'surface' }).toolset;
}

/**
 * Makes the removals of an entity's tools that were lost with a process: by their ids, and by
 * member keys where they were called over a surface.
 */
function lostWith({ instanceId, tools, givenBy }: SavedEntity): SavedRemovals {
  const cause: RemovalCause = { kind: 'process_ended', givenBy };
  return tools.flatMap((id) =>
    [id, memberKey(declaredIdIn(id), instanceId)].map((key): [string, RemovalCause] => [
      key,
      cause,
    ]),
  );
}

/** Restores the tools of an entity; none if its class has no resolver, or no longer exists. */
function restoreTools(
  { prefix, instanceId, depth, givenBy, tools }: SavedEntity,
  { registry, handles }: EntitiesBefore,
): Tool[] {
  const definition = registry.withPrefix(prefix);
  if (!definition?.rehydration) return [];
  const held = new HeldInstance(definition, instanceId);
  return bindTools(definition, held, { instanceId, depth, givenBy, handles }).filter(({ spec }) =>
    tools.includes(spec.id),
  );
}
