import { groupedId } from '../catalog/entity-keys.js';
import { selects } from '../catalog/tool.selection.js';
import type { ToolCatalog } from '../catalog/tool.catalog.js';
import type { Toolset } from '../catalog/toolset.js';
import { isPermitted } from '../policy/is-permitted.js';
import type { ToolSelector } from '../protocol/loop-request.js';
import type { PolicyActor, PolicyEngine } from '../protocol/policy.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { EntitySurface } from '../protocol/tool-injection.js';
import type { Tool } from '../protocol/tool.js';
import { EntitySurfaces, type EntityMember } from './entity.surfaces.js';

/** What decides on the tools of entities before there are any. */
export interface OfferRules {
  readonly run: RunContext;
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  readonly exclude: readonly ToolSelector[];
  readonly strictListing: boolean;
}

/** Decides for every run how it is offered the tools of entities. What it makes is made once for the application. */
export class EntityOffers {
  private known: EntitySurfaces | undefined;

  constructor(private readonly catalog: ToolCatalog) {}

  offerFor(surface: EntitySurface, rules: OfferRules): EntityOffer {
    this.known ??= new EntitySurfaces(this.catalog.entities);
    return new EntityOffer(surface, this.known, surface === 'dispatcher' ? dispatcherFor(this.known, rules) : undefined);
  }
}

/** A method that decides itself who calls it can be asked of an instance only: a strict listing tells nothing of it beforehand. */
function dispatcherFor(surfaces: EntitySurfaces, rules: OfferRules): Tool | undefined {
  const { run, exclude, strictListing } = rules;
  const offered = surfaces.members.filter((member) => {
    const isExcluded = exclude.some((selector) => selects(selector, { tool: member }));
    return !isExcluded && isPermitted(member, rules) && (member.when?.(run) ?? true);
  });
  const described = strictListing ? offered.filter(({ isSelective }) => !isSelective) : offered;
  return surfaces.dispatcherFor(idsOf(offered), idsOf(described));
}

function idsOf(members: readonly EntityMember[]): string[] {
  return members.map(({ spec }) => spec.declaredId);
}

/** How one run is offered the tools of entities. */
export class EntityOffer {
  constructor(
    private readonly surface: EntitySurface,
    private readonly surfaces: EntitySurfaces,
    /** There from the start, where the run has one. */
    readonly dispatcher: Tool | undefined,
  ) {}

  /**
   * Whether new tools of entities are called over a surface, `isFull` where they do not all fit one by one. `auto` goes over to it with the first result
   * whose tools do not fit, and stays there: what was named before keeps its name, as its bytes stand before those of everything that came later.
   */
  isSurfaced(toolset: Toolset, isFull: () => boolean): boolean {
    if (this.surface !== 'auto') return this.surface !== 'named';
    return toolset.hasSurfaces || this.surfaces.hadGroup(toolset) || isFull();
  }

  /** The surfaces that a toolset still needs for tools to be called over. */
  surfacesFor(tools: readonly Tool[], toolset: Toolset): readonly Tool[] {
    const hidden = tools.filter(({ spec }) => !toolset.find(spec.id));
    const declaredIds = [...new Set(hidden.map(({ spec }) => spec.declaredId))];
    return this.all(declaredIds).filter(({ spec }) => !toolset.find(spec.id));
  }

  /** The surfaces of these ids, where a run goes on in another process. */
  surfacesNamed(ids: readonly string[]): readonly Tool[] {
    const named = new Set(ids);
    const grouped = this.surfaces.members.filter(({ spec }) => named.has(groupedId(spec.declaredId)));
    return grouped.flatMap(({ spec }) => this.surfaces.groupedFor(spec.declaredId) ?? []);
  }

  /** The same for a run within the run, which may call less. */
  within(rules: OfferRules): EntityOffer {
    return new EntityOffer(this.surface, this.surfaces, this.dispatcher && dispatcherFor(this.surfaces, rules));
  }

  private all(declaredIds: readonly string[]): readonly Tool[] {
    if (this.surface !== 'dispatcher') return declaredIds.flatMap((declaredId) => this.surfaces.groupedFor(declaredId) ?? []);
    if (declaredIds.length === 0) return [];
    // A policy may have come to permit what it did not when the run began.
    return [this.dispatcher ?? this.surfaces.dispatcherFor(declaredIds) ?? []].flat();
  }
}
