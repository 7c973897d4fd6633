import type { JSONSchema7 } from 'json-schema';
import type { JsonValue } from '../protocol/json.js';
import { isObject } from '../protocol/object.guards.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { WithheldTools } from '../protocol/tool-injection.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { compileReveal } from '../schema/revealed.projection.js';
import { compileSchemaInput } from '../schema/tool.input.js';

export const SEARCH_ID = 'tools__search';
/** Of a description in a result: the whole of it comes with the tool. */
const MOST_CHARACTERS = 160;

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: {
    query: { type: 'string', minLength: 1, maxLength: 200, description: 'What the tool should do, in a few words, e.g. "refund an order"' },
  },
  required: ['query'],
  additionalProperties: false,
};

const DESCRIPTION =
  'Finds further tools by what they do. The tools it returns can be called from the next step on; search again when they do not fit.';

const CODEC = compileSchemaInput({ at: SEARCH_ID, reserved: [], schema: INPUT }).input;
const OUTPUT = compileReveal('all');
const TRUSTED = specOf('trusted');
/** Of a run that may find tools of strangers, who wrote their descriptions. */
const UNTRUSTED = specOf('untrusted');

/** The tool without anything to search: what a policy names and a catalog reserves. */
export const SEARCH_TOOL: Tool = searchTool({ all: [], named: () => [], search: () => [] }, 0);

/** The tool as it is bound to what one run may find. */
export function searchTool(withheld: WithheldTools, most: number): Tool {
  const isTrusted = withheld.all.every(({ origin }) => origin.trusted);
  return {
    spec: isTrusted ? TRUSTED : UNTRUSTED,
    origin: { source: 'toolloop', trusted: true },
    input: CODEC,
    output: OUTPUT,
    invoke: (input) => ({ tools: withheld.search(queryOf(input), most).map(({ spec }) => summaryOf(spec)) }),
  };
}

function specOf(returns: 'trusted' | 'untrusted'): ToolSpec {
  const semantics = { description: DESCRIPTION, inputSchema: INPUT };
  return Object.freeze<ToolSpec>({
    id: SEARCH_ID,
    declaredId: SEARCH_ID,
    ...semantics,
    effect: 'read_only',
    labels: { returns, reads: 'public', egress: false },
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: sha256(canonicalDeclaration(semantics)),
  });
}

/** The ids in a result of the tool; none where it is something else. */
export function idsFoundIn(result: unknown): readonly string[] {
  const tools: unknown = isObject(result) ? result['tools'] : undefined;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool: unknown) => (isObject(tool) && typeof tool['id'] === 'string' ? [tool['id']] : []));
}

function summaryOf({ id, description }: ToolSpec): JsonValue {
  return { id, description: description.length > MOST_CHARACTERS ? `${description.slice(0, MOST_CHARACTERS)}…` : description };
}

function queryOf(input: unknown): string {
  return isObject(input) && typeof input['query'] === 'string' ? input['query'] : '';
}
