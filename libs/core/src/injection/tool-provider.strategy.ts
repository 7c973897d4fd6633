import { Injectable } from '@nestjs/common';
import { ToolInjectionStrategy, type ToolInjection, type ToolInjectionContext } from '../protocol/tool-injection.js';
import { ToolProviderExtractor } from './tool-provider.extractor.js';

/** Adds the tools of every entity that a result shows. On by default. */
@Injectable()
export class ToolProviderStrategy extends ToolInjectionStrategy {
  override readonly name = 'entities';

  constructor(private readonly extractor: ToolProviderExtractor) {
    super();
  }

  override evaluate({ last, limits, handles }: ToolInjectionContext): ToolInjection {
    const depth = last.depth + 1;
    const extracted = this.extractor.extract(last.live, { handles, depth });
    if (depth <= limits.injectionDepth || extracted.add.length === 0) return extracted;
    const message = `The tools of what ${last.record.id} returned were not added: they would be ${depth} injections deep, and the limit is ${limits.injectionDepth}.`;
    return { warnings: [...extracted.warnings, { code: 'injection_depth', message }] };
  }
}
