import type { ToolSpec } from '@toolloop/core';
import type { ModelRequest } from '@toolloop/protocol';

/** A tool as the loop would hand it over, with all the things a provider must not see. */
export function toolSpec(
  id: string,
  properties: NonNullable<ToolSpec['inputSchema']['properties']> = {},
): ToolSpec {
  return Object.freeze({
    id,
    declaredId: `declared_${id}`,
    description: `What ${id} does.`,
    inputSchema: {
      type: 'object',
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
    },
    outputSchema: { type: 'string' },
    effect: 'read_only',
    labels: { returns: 'untrusted', reads: 'private', egress: false },
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: 'f00d',
  } satisfies ToolSpec);
}

export function ask(prompt: string, rest: Partial<ModelRequest> = {}): ModelRequest {
  return { messages: [{ role: 'user', content: prompt }], tools: [], ...rest };
}
