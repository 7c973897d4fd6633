import type { Toolset } from '../../catalog/toolset.js';
import type { EntitySurface } from '../../contracts/injection.js';
import type { PolicyActor, PolicyEngine } from '../../contracts/policy.js';
import type { RunContext } from '../../contracts/tool-call.js';
import type { ToolSelector } from '../../contracts/tool-selector.js';
import type { Tool } from '../../contracts/tool.js';
import { EntitySurfaces, dispatcherFor } from './entity-surfaces.js';
import { groupedId } from './member-ids.js';

/** The way in which one run is offered the tools of entities. */
export class EntityOffer {
  /** The dispatcher, if the run has one from the start. */
  readonly dispatcher: Tool | undefined;

  constructor(
    private readonly surface: EntitySurface,
    private readonly surfaces: EntitySurfaces,
    rules: OfferRules | undefined,
  ) {
    this.dispatcher =
      rules && surface === 'dispatcher' ? dispatcherFor(surfaces, rules) : undefined;
  }

  /**
   * Tells whether new tools of entities are called over a surface. `isFull` tells whether they do
   * not all fit one by one. `auto` changes to surfaces with the first result whose tools do not
   * fit, for the rest of the run: earlier tools keep their names, since their bytes come before
   * those of later ones.
   */
  isSurfaced(toolset: Toolset, isFull: () => boolean): boolean {
    if (this.surface !== 'auto') return this.surface !== 'named';
    return (
      toolset.shown.some(({ surface }) => surface) || this.surfaces.hadGroup(toolset) || isFull()
    );
  }

  /** Returns the surfaces that a toolset still needs for these tools. */
  surfacesFor(tools: readonly Tool[], toolset: Toolset): readonly Tool[] {
    const hidden = tools.filter(({ spec }) => !toolset.find(spec.id));
    const declaredIds = [...new Set(hidden.map(({ spec }) => spec.declaredId))];
    return this.all(declaredIds).filter(({ spec }) => !toolset.find(spec.id));
  }

  /** Returns the surfaces with these ids, for a run that continues in another process. */
  surfacesNamed(ids: readonly string[]): readonly Tool[] {
    const named = new Set(ids);
    const grouped = this.surfaces.members.filter(({ spec }) =>
      named.has(groupedId(spec.declaredId)),
    );
    return grouped.flatMap(({ spec }) => this.surfaces.groupedFor(spec.declaredId) ?? []);
  }

  /** Returns the offer of a sub-run, which may call less. */
  within(rules: OfferRules): EntityOffer {
    return new EntityOffer(this.surface, this.surfaces, this.dispatcher && rules);
  }

  private all(declaredIds: readonly string[]): readonly Tool[] {
    if (this.surface !== 'dispatcher')
      return declaredIds.flatMap((declaredId) => this.surfaces.groupedFor(declaredId) ?? []);
    if (declaredIds.length === 0) return [];
    // A policy may permit a method by now that it did not when the run began.
    return [this.dispatcher ?? this.surfaces.dispatcherFor(declaredIds) ?? []].flat();
  }
}

/** The rules for the tools of entities before there are any. */
export interface OfferRules {
  readonly run: RunContext;
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  readonly exclude: readonly ToolSelector[];
  readonly strictListing: boolean;
}
