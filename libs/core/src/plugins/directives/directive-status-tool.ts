import { DIRECTIVE_STATUSES, type DirectiveView, ToolError } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { RunContext } from '../../contracts/tool-call.js';
import type { Tool } from '../../contracts/tool.js';
import type { DirectiveIntent, DirectiveRecord } from '../../contracts/directive.js';
import { builtInTool } from '../../schema/built-in-tool.js';
import { VALUES_KEYWORD } from '../../schema/capacity.js';
import { LEFT_OUT_BY_APPLICATION, OF_APPLICATION } from '../../schema/field-origins.js';
import { compileReveal } from '../../schema/reveal.js';
import { ReadBySchema } from '../values/read-by-schema.js';
import { DirectiveError } from './directive-error.js';
import { toDirectiveView } from './directive-view.js';

/**
 * The tool by which a model learns what became of a directive that the actor may see, in the
 * actor's own tenant.
 */
export function directiveStatusTool(
  find: (
    directiveId: string,
    who: Pick<RunContext, 'actor' | 'tenant'>,
  ) => Promise<DirectiveRecord>,
): Tool {
  return {
    ...STATUS,
    output: {
      project: (told, audience, shown) =>
        OUTPUT.project(told instanceof ReadBySchema ? told.value : told, audience, shown),
    },
    invoke: async (args, { actor, tenant }) => {
      try {
        const record = await find(idIn(args), { actor, tenant });
        const { attempts, ...told } = statusOf(toDirectiveView(record));
        return isOfOutside(record.intent)
          ? new ReadBySchema(told, OUTSIDE_OUTCOME)
          : { ...told, attempts };
      } catch (error) {
        if (error instanceof DirectiveError) throw new ToolError(error.message, { cause: error });
        throw error;
      }
    },
  };
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
 * The same of a directive that a text from outside had a part in: how it ended may be up to that
 * text, as it is with a call. The attempts are not told.
 */
const OUTSIDE_OUTCOME: JSONSchema7 = {
  ...outputSchema,
  properties: {
    directive_id: OF_APPLICATION,
    type: OF_APPLICATION,
    subject: {},
    task: oneOf(['perform', 'compensate']),
    status: oneOf(DIRECTIVE_STATUSES),
    failure: {},
  },
};
const OUTPUT = compileReveal('all');

/**
 * Returns the status of a directive for the model. The effect's result is left out: it is stored as
 * the ui may see it.
 */
function statusOf({ directiveId, type, subject, task, status, attempts, failure }: DirectiveView) {
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

function isOfOutside({ authority: { flow } }: DirectiveIntent): boolean {
  return flow.integrity === 'untrusted' || (flow.outside?.length ?? 0) > 0;
}

function oneOf(values: readonly string[]): JSONSchema7 {
  return Object.assign<JSONSchema7, object>({}, { [VALUES_KEYWORD]: values });
}

function idIn(args: unknown): string {
  const id: unknown =
    typeof args === 'object' && args !== null ? Reflect.get(args, 'directive_id') : undefined;
  return typeof id === 'string' ? id : '';
}
