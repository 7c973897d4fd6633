import type { Toolset } from '../catalog/toolset.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';

function offersOf(toolset: Toolset, id: string): readonly string[] {
  return [...(toolset.find(id)?.surface?.offers ?? [])];
}

/**
 * Narrows the toolsets of one run. The same narrowing gives the same array of specs, whatever happened to the tools left out, so that a wire need not
 * encode it again.
 */
export class ToolsetNarrowing {
  private readonly known = new Map<string, readonly ToolSpec[]>();

  /**
   * A surface is chosen by its own spec, with all that is called over it, or because something is that is called over it. Of `methods`, which are those of
   * entities, it offers the chosen ones alone, whether the run has an instance of them or not.
   */
  narrow(toolset: Toolset, isChosen: (spec: ToolSpec) => boolean, methods: readonly ToolSpec[]): Toolset {
    const behind = toolset.behindSurfaces;
    const own = new Set(behind.filter(({ spec }) => isChosen(spec)));
    const wholly = new Set(toolset.specs.filter(isChosen).flatMap(({ id }) => offersOf(toolset, id)));
    const partly = new Set([...own].map(({ spec }) => spec.declaredId));
    const chosen = toolset.specs.filter(
      (spec) => isChosen(spec) || offersOf(toolset, spec.id).some((declaredId) => partly.has(declaredId)),
    );
    const isLeft = (tool: Tool): boolean => own.has(tool) || wholly.has(tool.spec.declaredId);
    const offered = new Set([...wholly, ...partly, ...methods.filter(isChosen).map(({ declaredId }) => declaredId)]);
    const isWhole = chosen.every(({ id }) => offersOf(toolset, id).every((declaredId) => offered.has(declaredId)));
    if (isWhole && chosen.length === toolset.specs.length && behind.every(isLeft)) return toolset;
    return toolset.only(this.sameArray(chosen), isLeft, offered);
  }

  private sameArray(specs: readonly ToolSpec[]): readonly ToolSpec[] {
    const key = specs.map(({ id }) => id).join(' ');
    const known = this.known.get(key);
    // A tool that went and came again has the same id and another spec.
    if (known?.every((spec, index) => spec === specs[index])) return known;
    this.known.set(key, specs);
    return specs;
  }
}
