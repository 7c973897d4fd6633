import { isObject } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { type ToolInjection, ToolInjectionStrategy } from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { COMMIT_ID } from '../flow/commitments.js';
import { builtInTool } from '../../schema/built-in-tool.js';
import { compileReveal } from '../../schema/reveal.js';

/**
 * Creates a strategy that lets a model plan its changes: at the levels `taint` and `values` a call
 * that it planned before it read anything from outside needs no approval. Policy must allow
 * `plan__commit`.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   policy: { allow: ['orders__*', 'plan__commit'] },
 *   injection: [planning()],
 * });
 */
export function planning(): ToolInjectionStrategy {
  return new PlanningStrategy();
}

const ARGUMENT: JSONSchema7 = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1 },
    value: { description: 'The very value, where you know it.' },
    from: {
      type: 'string',
      pattern: '^[^#]+#',
      description:
        'Or the place that the value will come from: the tool, #, and a JSON pointer into its result with * for any item, such as orders__find#/*/id.',
    },
    where: {
      type: 'object',
      description:
        'Which item is meant, by its other fields, such as {"name":"report.pdf"}, where more may stand there than you plan calls.',
    },
  },
  required: ['name'],
  additionalProperties: false,
};

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    calls: {
      type: 'array',
      minItems: 1,
      maxItems: 20,
      items: {
        type: 'object',
        properties: {
          tool: { type: 'string', minLength: 1, description: 'The tool that will be called.' },
          count: {
            type: 'integer',
            minimum: 1,
            maximum: 20,
            description: 'How often, at most. Default: once.',
          },
          arguments: {
            type: 'array',
            maxItems: 20,
            items: ARGUMENT,
            description: 'Every argument that decides what the call does to whom.',
          },
        },
        required: ['tool'],
        additionalProperties: false,
      },
    },
  },
  required: ['calls'],
  additionalProperties: false,
};

const DESCRIPTION =
  'Plans the calls that will change or send something. Call it once, first, before you read anything that others wrote: the calls of the plan need no approval later, and others may.';

/** As policies know the tool, and the catalog, which reserves its id. */
export const PLAN_TOOL: Tool = {
  ...builtInTool({
    id: COMMIT_ID,
    description: DESCRIPTION,
    inputSchema: INPUT,
    labels: { returns: 'trusted', reads: 'public', egress: false },
  }),
  output: compileReveal('all'),
  invoke: (input) => ({ planned: callsIn(input).length }),
};

function callsIn(input: unknown): readonly unknown[] {
  const calls: unknown = isObject(input) ? input['calls'] : undefined;
  return Array.isArray(calls) ? calls : [];
}

/**
 * Offers the model a tool by which it commits itself to calls before it reads what others wrote.
 */
class PlanningStrategy extends ToolInjectionStrategy {
  override readonly name = 'plan';

  override begin(): ToolInjection {
    return { add: [PLAN_TOOL] };
  }

  override evaluate(): ToolInjection {
    return {};
  }
}
