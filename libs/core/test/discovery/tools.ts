import type { Tool, ToolCallContext, ToolEffect } from '@toolloop/core';
import type { ToolOrigin } from '@toolloop/core/contracts';
import type { JSONSchema7 } from 'json-schema';
import { compileReveal } from '../../src/schema/reveal.js';
import { compileSchemaInput } from '../../src/schema/tool-input.js';

export interface RawTool {
  readonly id: string;
  readonly effect?: ToolEffect;
  /** @default anything in an object */
  readonly schema?: JSONSchema7;
  readonly reserved?: readonly string[];
  readonly origin?: ToolOrigin;
  readonly timeoutMs?: number;
  readonly reveal?: 'all' | readonly string[];
  invoke?(input: unknown, context: ToolCallContext): unknown;
}

/** A tool as a source hands it over. */
export function toolOf({ id, effect = 'read_only', reveal = 'all', origin = { source: 'remote', trusted: false }, ...raw }: RawTool): Tool {
  const schema = raw.schema ?? { type: 'object' };
  const { input } = compileSchemaInput({ at: id, reserved: raw.reserved ?? ['tenant', 'tenantId', 'actor', 'actorId'], schema });
  return {
    spec: {
      id,
      declaredId: id,
      description: `Runs ${id}.`,
      inputSchema: schema,
      effect,
      labels: { returns: 'untrusted', reads: 'private', egress: false },
      redaction: { kind: 'reveal', fields: reveal },
      schemaHash: '',
    },
    origin,
    input,
    output: compileReveal(reveal),
    ...(raw.timeoutMs !== undefined && { timeoutMs: raw.timeoutMs }),
    invoke: (built, context) => raw.invoke?.(built, context),
  };
}
