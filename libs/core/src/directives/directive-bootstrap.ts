import { type Finding, ToolError } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { CatalogEntry } from '../catalog/tool-selection.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import type { EntityRegistry } from '../discovery/entity-registry.js';
import type { ToolTemplate } from '../discovery/tool-template.js';
import { builtInTool } from '../schema/built-in-tool.js';
import { LEFT_OUT_BY_APPLICATION, OF_APPLICATION } from '../schema/field-origins.js';
import { compileReveal } from '../schema/reveal.js';
import { type DirectiveOptions, directiveOptionsOf } from '../loop/run-directives.js';
import { DirectiveError, type DirectiveService, type DirectiveView } from './directive.service.js';

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
      tool: directiveStatusTool((directiveId, who) => service.get(directiveId, who)),
      at: 'Toolloop',
    },
  ];
}

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

const STATUS_ID = 'directives__status';

const description =
  'Says what became of something that was requested and is performed later, by the directive_id that the request answered. Nothing is performed by asking.';

const inputSchema: JSONSchema7 = {
  type: 'object',
  properties: {
    directive_id: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description: 'As the request answered it, such as dir_0a1b.',
    },
  },
  required: ['directive_id'],
  additionalProperties: false,
};

/** A subject and a failure may repeat what a stranger said. */
const outputSchema: JSONSchema7 = {
  type: 'object',
  properties: {
    directive_id: OF_APPLICATION,
    type: OF_APPLICATION,
    subject: LEFT_OUT_BY_APPLICATION,
    task: OF_APPLICATION,
    status: OF_APPLICATION,
    attempts: OF_APPLICATION,
    failure: LEFT_OUT_BY_APPLICATION,
  },
  additionalProperties: false,
};
const STATUS = builtInTool({ id: STATUS_ID, description, inputSchema, outputSchema });

/**
 * The tool by which a model learns what became of a directive that the actor may see, in the
 * actor's own tenant.
 */
function directiveStatusTool(
  get: (directiveId: string, who: Pick<RunContext, 'actor' | 'tenant'>) => Promise<DirectiveView>,
): Tool {
  return {
    ...STATUS,
    output: compileReveal('all'),
    invoke: async (args, { actor, tenant }) => {
      try {
        return statusOf(await get(idIn(args), { actor, tenant }));
      } catch (error) {
        if (error instanceof DirectiveError) throw new ToolError(error.message, { cause: error });
        throw error;
      }
    },
  };
}

/**
 * Returns the status of a directive for the model. The effect's result is left out: it is stored as
 * the ui may see it.
 */
function statusOf({
  directiveId,
  type,
  subject,
  task,
  status,
  attempts,
  failure,
}: DirectiveView): object {
  return {
    directive_id: directiveId,
    type,
    subject,
    task,
    status,
    attempts,
    ...(failure && { failure: failure.safeMessage }),
  };
}

function idIn(args: unknown): string {
  const id: unknown =
    typeof args === 'object' && args !== null ? Reflect.get(args, 'directive_id') : undefined;
  return typeof id === 'string' ? id : '';
}
