import type { ToolSpec } from '@toolloop/protocol';
import { Toolset, offersOf } from './toolset.js';

/**
 * Narrows the toolsets of one run. The same narrowing gives the same array of specs, even if tools
 * that it leaves out have changed, so that a wire need not encode it again.
 */
export class ToolsetNarrowing {
  private readonly known = new Map<string, readonly ToolSpec[]>();

  /**
   * Returns a toolset of the chosen tools. A surface is chosen by its own spec, with all tools that
   * are called over it, or because one of these is chosen. Of the entities' `methods` it then
   * offers the chosen ones alone, whether the run has an instance of them or not.
   */
  narrow(
    toolset: Toolset,
    isChosen: (spec: ToolSpec) => boolean,
    methods: readonly ToolSpec[],
  ): Toolset {
    const { shown, behindSurfaces } = toolset;
    const chosen = new Set(toolset.tools.filter(({ spec }) => isChosen(spec)));
    const wholly = new Set(shown.filter((tool) => chosen.has(tool)).flatMap(offersOf));
    const partly = new Set(
      behindSurfaces.filter((tool) => chosen.has(tool)).map(({ spec }) => spec.declaredId),
    );
    const offered = new Set([
      ...wholly,
      ...partly,
      ...methods.filter(isChosen).map(({ declaredId }) => declaredId),
    ]);
    const left = new Set([
      ...shown.filter(
        (tool) => chosen.has(tool) || offersOf(tool).some((declaredId) => partly.has(declaredId)),
      ),
      ...behindSurfaces.filter((tool) => chosen.has(tool) || wholly.has(tool.spec.declaredId)),
    ]);
    return toolset.filter((tool) => left.has(tool), {
      offered,
      reuse: (specs) => this.sameArray(specs),
    });
  }

  private sameArray(specs: readonly ToolSpec[]): readonly ToolSpec[] {
    const key = specs.map(({ id }) => id).join(' ');
    const known = this.known.get(key);
    // A tool that was removed and added again has the same id and another spec.
    if (known?.every((spec, index) => spec === specs[index])) return known;
    this.known.set(key, specs);
    return specs;
  }
}
