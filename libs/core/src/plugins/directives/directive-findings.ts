import type { Finding } from '@toolloop/protocol';
import type { CatalogEntry } from '../../catalog/tool-selection.js';
import type { Tool } from '../../contracts/tool.js';
import type { ToolTemplate } from '../../tools/discovery/tool-template.js';
import type { EntityRegistry } from '../entities/entity-registry.js';
import { type DirectiveOptions, directiveOptionsOf } from './directive-options.js';
import { directiveStatusTool } from './directive-status-tool.js';
import type { DirectiveService } from './directive.service.js';

/**
 * Mistakes in the declarations of directives: no directory that loads their actors, or a type that
 * two tools share.
 */
export function directiveFindings(
  tools: readonly DirectiveDeclarer[],
  hasDirectory: boolean,
): readonly Finding[] {
  const having = tools.filter(hasDirective);
  const findings: Finding[] = [];
  const [first] = having;
  if (first && !hasDirectory)
    findings.push({
      at: first.at,
      problem: 'It has a directive, but nothing loads the actor for whom it is performed later.',
      remedy: 'Provide a class that extends ActorDirectory, in any module.',
    });
  const types = having.map(({ tool }) => tool.directive?.type);
  const shared = having.filter(
    ({ tool }) => types.indexOf(tool.directive?.type) !== types.lastIndexOf(tool.directive?.type),
  );
  return [
    ...findings,
    ...shared.map(({ at, tool }) => ({
      at,
      problem: `Another tool also has directives of the type "${tool.directive?.type}".`,
      remedy: 'Give each tool a type of its own.',
    })),
  ];
}

/** A tool of the application, on its own or of an entity, as far as its directive goes. */
export interface DirectiveDeclarer extends Pick<CatalogEntry, 'at'> {
  readonly tool: Pick<
    ToolTemplate,
    'directive' | 'timeoutMs' | 'subRun' | 'rehearse' | 'rowsBefore' | 'questions'
  > &
    Pick<Tool, 'spec'>;
}

/**
 * Returns the tools that may have directives: those of services, and those of every instance of an
 * entity.
 */
export function declarersIn(
  own: readonly CatalogEntry[],
  { definitions }: EntityRegistry,
): readonly DirectiveDeclarer[] {
  const ofEntities = definitions.flatMap(({ type, tools }) =>
    tools.map(({ name, template }) => ({ at: `${type.name}.${name}`, tool: template })),
  );
  return [...own.filter(({ tool }) => tool.origin.trusted), ...ofEntities];
}

/** The tool that tells a directive's status, in an application that has any. */
export function directiveEntries(
  tools: readonly DirectiveDeclarer[],
  service: DirectiveService,
): readonly CatalogEntry[] {
  if (!tools.some(hasDirective)) return [];
  return [
    {
      tool: directiveStatusTool((directiveId, who) => service.find(directiveId, who)),
      at: 'Toolloop',
    },
  ];
}

/**
 * Returns the finding about the tools whose effect on another system happens in their call, for
 * applications that treat them so: what an abort or a crash cuts off half-way may have happened,
 * and nothing takes it back.
 */
export function immediateEffectFindings(
  tools: readonly DirectiveDeclarer[],
  options: DirectiveOptions | undefined,
  treatment: DirectiveOptions['immediateEffects'],
): readonly Finding[] {
  if (directiveOptionsOf(options).immediateEffects !== treatment) return [];
  const immediate = tools.filter(
    ({ tool: { spec, directive, subRun } }) =>
      spec.effect === 'external_side_effect' && !directive && !subRun,
  );
  if (immediate.length === 0) return [];
  const ids = immediate.map(({ tool }) => tool.spec.declaredId).join(', ');
  return [
    {
      at: immediate.map(({ at }) => at).join(', '),
      problem: `An external side effect happens in the call itself (${ids}): a crash leaves its outcome unknown, and nothing takes it back.`,
      remedy:
        "Request it by @LlmTool({ directive }), or accept it by forRoot({ directives: { immediateEffects: 'allow' } }).",
    },
  ];
}

/**
 * The longest time that a call of a tool with directives may take, in milliseconds; undefined where
 * no tool has any.
 */
export function longestDirectiveMs(
  tools: readonly DirectiveDeclarer[],
  toolCallMs: number,
): number | undefined {
  const having = tools.filter(hasDirective);
  return having.length > 0
    ? Math.max(...having.map(({ tool }) => tool.timeoutMs ?? toolCallMs))
    : undefined;
}

function hasDirective({ tool }: DirectiveDeclarer): boolean {
  return tool.directive !== undefined;
}
