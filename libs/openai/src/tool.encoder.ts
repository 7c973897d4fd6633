import type { ToolSpec } from '@toolloop/core';
import { EncodedOnce } from '@toolloop/wire';

/**
 * Writes tools in the words of one API. Labels, effect and the like are ours: the model is told what a tool does and what it takes. An unchanged
 * toolset costs nothing, and one that grew keeps the bytes of its earlier tools.
 */
export class ToolEncoder {
  private readonly tools = new EncodedOnce<ToolSpec>();
  private readonly toolsets = new EncodedOnce<readonly ToolSpec[]>();

  constructor(private readonly toTool: (spec: ToolSpec) => object) {}

  /** The tools as JSON texts, with commas between them. */
  toJson(specs: readonly ToolSpec[]): string {
    return this.toolsets.text(specs, '', () => specs.map((spec) => this.toolJson(spec)).join(','));
  }

  private toolJson(spec: ToolSpec): string {
    return this.tools.text(spec, '', () => JSON.stringify(this.toTool(spec)));
  }
}
