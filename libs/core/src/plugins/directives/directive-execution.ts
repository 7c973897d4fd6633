import type { ExecutionScope, PlacedCall } from '../../call/call.js';
import { ToolCatalog } from '../../catalog/tool-catalog.js';
import type { DirectiveIntent } from '../../contracts/directive.js';
import type { Tool, ToolDirective } from '../../contracts/tool.js';
import { toolFoundAgain } from '../entities/entity-extraction.js';

/** The call of a directive, and where it is executed. */
export interface DirectiveExecution {
  readonly request: PlacedCall;
  readonly scope: ExecutionScope;
}

/** The tool of a directive; undefined where the application has none any more. */
export function directiveToolOf(
  catalog: ToolCatalog,
  { call, type }: DirectiveIntent,
): DirectiveTool | undefined {
  const { declaredId, instanceId } = call;
  const tool =
    instanceId === undefined
      ? catalog.find(declaredId)
      : toolFoundAgain(catalog, declaredId, instanceId);
  return tool?.directive?.type === type ? { ...tool, directive: tool.directive } : undefined;
}

/** A tool whose calls are directives. */
export type DirectiveTool = Tool & { readonly directive: ToolDirective };
