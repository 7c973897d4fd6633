import { Injectable } from '@nestjs/common';
import { ToolInjectionStrategy, type ToolInjection, type ToolInjectionContext } from '../protocol/tool-injection.js';
import { ToolProviderExtractor } from './tool-provider.extractor.js';

/** Adds the tools of every entity that a result shows. On by default. Too deep, it still refreshes the instances of those that are there. */
@Injectable()
export class ToolProviderStrategy extends ToolInjectionStrategy {
  override readonly name = 'entities';
  override readonly yields = true;

  constructor(private readonly extractor: ToolProviderExtractor) {
    super();
  }

  override evaluate({ last, limits, handles, toolset, run }: ToolInjectionContext): ToolInjection {
    const depth = last.depth + 1;
    const extracted = this.extractor.extract(last, { handles, depth, run });
    if (depth <= limits.injectionDepth) return extracted;
    const there = new Set(toolset.map(({ id }) => id));
    const add = extracted.add.filter(({ spec }) => there.has(spec.id));
    if (add.length === extracted.add.length) return extracted;
    const message = `The tools that the result of ${last.record.id} brings were not added: they would be ${depth} injections deep, and the limit is ${limits.injectionDepth}.`;
    return { add, warnings: [...extracted.warnings, { code: 'injection_depth', message }] };
  }
}
