import type { Toolset } from '../catalog/toolset.js';
import type { ToolSpec } from '../protocol/tool.js';

/**
 * Narrows the toolsets of one run. The same narrowing gives the same array of specs, whatever happened to the tools left out, so that a wire need not
 * encode it again.
 */
export class ToolsetNarrowing {
  private readonly known = new Map<string, readonly ToolSpec[]>();

  narrow(toolset: Toolset, isChosen: (spec: ToolSpec) => boolean): Toolset {
    const chosen = toolset.specs.filter(isChosen);
    return chosen.length === toolset.specs.length ? toolset : toolset.only(this.sameArray(chosen));
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
