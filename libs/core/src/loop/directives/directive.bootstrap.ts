import { Injectable } from '@nestjs/common';
import type { CatalogEntry } from '../../catalog/tool.selection.js';
import type { Finding } from '../../protocol/errors.js';
import { LoopSettings } from '../loop.settings.js';
import { directiveStatusTool } from './directive-status.tool.js';
import { directiveOptionFindings } from './directive.options.js';
import { DirectiveRunner } from './directive.runner.js';
import { DirectiveScopes } from './directive.scopes.js';
import { DirectiveService } from './directive.service.js';

/** What directives need when the application starts. */
@Injectable()
export class DirectiveBootstrap {
  constructor(
    private readonly service: DirectiveService,
    private readonly scopes: DirectiveScopes,
    private readonly runner: DirectiveRunner,
    private readonly settings: LoopSettings,
  ) {}

  /** The tool that tells a directive's status, in an application that has any. */
  entries(tools: readonly CatalogEntry[]): readonly CatalogEntry[] {
    if (!tools.some(hasDirective)) return [];
    return [{ tool: directiveStatusTool((directiveId, who) => this.service.get(directiveId, who)), at: 'Toolloop' }];
  }

  findings(tools: readonly CatalogEntry[]): readonly Finding[] {
    const having = tools.filter(hasDirective);
    const { directives = {} } = this.settings.options;
    const findings = directiveOptionFindings(directives, 'ToolLoopModule directives');
    const [first] = having;
    if (first && !this.scopes.hasDirectory)
      findings.push({
        at: first.at,
        problem: 'It has a directive, but nothing loads the actor for whom it is performed later.',
        remedy: 'Provide a class that extends ActorDirectory, in any module.',
      });
    const types = having.map(({ tool }) => tool.directive?.type);
    const shared = having.filter(({ tool }) => types.indexOf(tool.directive?.type) !== types.lastIndexOf(tool.directive?.type));
    return [
      ...findings,
      ...shared.map(({ at, tool }) => ({
        at,
        problem: `Another tool also has directives of the type "${tool.directive?.type}".`,
        remedy: 'Give each tool a type of its own.',
      })),
    ];
  }

  /** Once everything is checked and in the catalog. */
  async start(tools: readonly CatalogEntry[]): Promise<void> {
    const having = tools.filter(hasDirective);
    if (having.length === 0) return;
    const { toolCallMs } = this.settings.limitsFor();
    await this.runner.start(Math.max(...having.map(({ tool }) => tool.timeoutMs ?? toolCallMs)));
  }
}

function hasDirective({ tool }: CatalogEntry): boolean {
  return tool.directive !== undefined;
}
