import { Injectable } from '@nestjs/common';
import type { OnApplicationBootstrap } from '@nestjs/common';
import { ConfigurationError, ToolCatalog } from '@toolloop/core';
import type { Finding } from '@toolloop/core';
import { FakedTools } from './faked-tools.js';

/** Sees to it that each fake has a tool. A provider of the root module, whose turn comes when the catalog is filled. */
@Injectable()
export class FakedToolsCheck implements OnApplicationBootstrap {
  constructor(
    private readonly fakes: FakedTools,
    private readonly catalog: ToolCatalog,
  ) {}

  onApplicationBootstrap(): void {
    const known = new Set(this.catalog.subjects().map(({ declaredId }) => declaredId));
    const wrong = this.fakes.declaredIds.filter((declaredId) => !known.has(declaredId));
    if (wrong.length > 0) throw new ConfigurationError(wrong.map((declaredId) => this.findingOf(declaredId)));
  }

  private findingOf(declaredId: string): Finding {
    const closest = this.catalog.suggest(declaredId);
    return {
      at: `override('${declaredId}')`,
      problem: 'No tool has this declared id.',
      remedy: closest.length > 0 ? `Did you mean ${closest.join(' or ')}?` : 'No id is similar: is the module with the tool imported?',
    };
  }
}
