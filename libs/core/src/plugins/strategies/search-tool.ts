import { isObject, type JsonValue, type ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { WithheldTools } from '../../contracts/injection.js';
import type { Tool } from '../../contracts/tool.js';
import { builtInTool } from '../../schema/built-in-tool.js';
import { OF_APPLICATION } from '../../schema/field-origins.js';
import { compileReveal } from '../../schema/reveal.js';

/** Makes the search tool of one run. */
export function searchTool(withheld: WithheldTools, most: number): Tool {
  const isTrusted = withheld.all.every(({ origin }) => origin.trusted);
  return {
    ...(isTrusted ? TRUSTED : UNTRUSTED),
    output: OUTPUT,
    invoke: (input) => ({
      tools: withheld.search(queryOf(input), most).map(({ spec }) => summaryOf(spec)),
    }),
  };
}

export const SEARCH_ID = 'tools__search';

/** The longest description in a result; the tool itself has the whole of it. */
const MOST_CHARACTERS = 160;

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    query: {
      type: 'string',
      minLength: 1,
      maxLength: 200,
      description: 'What the tool should do, in a few words, e.g. "refund an order"',
    },
  },
  required: ['query'],
  additionalProperties: false,
};

const DESCRIPTION =
  'Finds further tools by what they do. The tools it returns can be called from the next step on; search again when they do not fit.';

const OUTPUT = compileReveal('all');

/**
 * A description is a stranger's text. The id stands in the list of tools as well, which tells what
 * it is worth.
 */
const FOUND: JSONSchema7 = {
  type: 'object',
  properties: {
    tools: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          id: OF_APPLICATION,
          description: { type: 'string' },
        },
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
};

function searching(returns: 'trusted' | 'untrusted'): ReturnType<typeof builtInTool> {
  const labels = { returns, reads: 'public', egress: false } as const;
  return builtInTool({
    id: SEARCH_ID,
    description: DESCRIPTION,
    inputSchema: INPUT,
    labels,
    ...(returns === 'untrusted' && { outputSchema: FOUND }),
  });
}

const TRUSTED = searching('trusted');
/**
 * The tool of a run that may find tools of untrusted sources, whose descriptions are in the
 * results.
 */
const UNTRUSTED = searching('untrusted');

/**
 * The search tool without anything to find, for policies and for the catalog, which reserves its
 * id.
 */
export const SEARCH_TOOL: Tool = searchTool({ all: [], named: () => [], search: () => [] }, 0);

/** Reads the ids in a result of the search tool; none if it has another form. */
export function idsFoundIn(result: unknown): readonly string[] {
  const tools: unknown = isObject(result) ? result['tools'] : undefined;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool: unknown) =>
    isObject(tool) && typeof tool['id'] === 'string' ? [tool['id']] : [],
  );
}

function summaryOf({ id, description }: ToolSpec): JsonValue {
  return {
    id,
    description:
      description.length > MOST_CHARACTERS
        ? `${description.slice(0, MOST_CHARACTERS)}…`
        : description,
  };
}

function queryOf(input: unknown): string {
  return isObject(input) && typeof input['query'] === 'string' ? input['query'] : '';
}
