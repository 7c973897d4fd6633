import { TOOL_EFFECTS, type ToolEffect, type ToolSpec } from '@toolloop/protocol';
import { isGlob, matchesGlob } from '../../catalog/glob.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import { isToolPredicate, selectsClass } from '../../catalog/tool-selection.js';
import type { Toolset } from '../../catalog/toolset.js';
import type { SubRun } from '../../contracts/loop-request.js';
import type { ToolSelector } from '../../contracts/tool-selector.js';
import type { Tool } from '../../contracts/tool.js';
import type { EnclosingRun } from '../../run/run-plan.js';
import { RESULT_READER } from '../pages/result-reader.js';

/**
 * The tools that a sub-run may use, no matter which strategy adds them: in a sub-run the list holds
 * for injected tools too.
 */
export class SubRunTools {
  private named = new WeakMap<Selection, ReadonlySet<string>>();
  private version = 0;
  private known: ReadonlySet<string> | undefined;

  constructor(private readonly catalog: ToolCatalog) {}

  /** A predicate, as `exclude` takes one. */
  keptOut(selection: Selection, strongest: ToolEffect): (spec: ToolSpec) => boolean {
    return (spec) =>
      spec.declaredId !== RESULT_READER.spec.declaredId &&
      !(rankOf(spec.effect) <= rankOf(strongest) && this.isNamed(selection, spec));
  }

  /**
   * The tool with the strongest effect that its own tools have, where it does not say one itself.
   */
  withEffect(tool: Tool): Tool {
    if (!tool.subRun) return tool;
    return {
      ...tool,
      spec: Object.freeze({ ...tool.spec, effect: this.strongestOf(tool, tool.subRun, new Set()) }),
    };
  }

  /** Sub-runs within sub-runs may name each other in a circle. */
  private strongestOf({ spec }: Tool, subRun: SubRun, seen: Set<string>): ToolEffect {
    if (subRun.effect || seen.has(spec.id)) return subRun.effect ?? 'read_only';
    seen.add(spec.id);
    const ids = this.idsIn(subRun);
    const ranks = this.catalog.subjects().flatMap(({ declaredId, effect }) => {
      const inner = this.catalog.find(declaredId);
      return ids.has(declaredId)
        ? [rankOf(inner?.subRun ? this.strongestOf(inner, inner.subRun, seen) : effect)]
        : [];
    });
    return TOOL_EFFECTS[Math.max(0, ...ranks)] ?? 'external_side_effect';
  }

  private isNamed(selection: Selection, spec: ToolSpec): boolean {
    if (this.version !== this.catalog.version) {
      this.version = this.catalog.version;
      this.named = new WeakMap();
      this.known = undefined;
    }
    if (this.idsIn(selection).has(spec.declaredId)) return true;
    this.known ??= new Set(this.catalog.subjects().map(({ declaredId }) => declaredId));
    if (this.known.has(spec.declaredId)) return false;
    // Of a tool that joins during runs, all that is known is its spec.
    const isBy = (selector: ToolSelector): boolean => namesSpec(selector, spec);
    return selection.tools.some(isBy) && !(selection.exclude ?? []).some(isBy);
  }

  /** Declared ids, of entity tools too. */
  private idsIn(selection: Selection): ReadonlySet<string> {
    const known = this.named.get(selection);
    if (known) return known;
    const ids = new Set([
      ...this.catalog.build(selection).map(({ spec }) => spec.declaredId),
      ...this.entityIdsIn(selection),
    ]);
    this.named.set(selection, ids);
    return ids;
  }

  private entityIdsIn({ tools, exclude = [] }: Selection): readonly string[] {
    return this.catalog.entities.definitions.flatMap((definition) =>
      definition.tools.flatMap(({ template: { spec } }) => {
        const isBy = (selector: ToolSelector): boolean =>
          namesSpec(selector, spec) || selectsClass(selector, definition);
        return tools.some(isBy) && !exclude.some(isBy) ? [spec.declaredId] : [];
      }),
    );
  }
}

/** The run around a sub-run, and the tools it has when it makes the call. */
export interface OuterRun {
  readonly live: EnclosingRun;
  readonly toolset: Toolset;
}

type Selection = Pick<SubRun, 'tools' | 'exclude'>;

function namesSpec(selector: ToolSelector, spec: ToolSpec): boolean {
  if (typeof selector === 'string')
    return (
      selector === spec.declaredId || (isGlob(selector) && matchesGlob(selector, spec.declaredId))
    );
  return isToolPredicate(selector) && selector(spec);
}

function rankOf(effect: ToolEffect): number {
  return TOOL_EFFECTS.indexOf(effect);
}
