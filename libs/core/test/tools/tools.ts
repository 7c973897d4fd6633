import type { Tool, ToolCallContext, ToolEffect } from '@toolloop/core';
import type { ToolOrigin } from '@toolloop/core/contracts';
import { sourceTool } from '@toolloop/core/sources';
import type { JSONSchema7 } from 'json-schema';

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
export function toolOf({
  reserved = ['tenant', 'tenantId', 'actor', 'actorId'],
  ...raw
}: RawTool): Tool {
  const {
    id,
    schema = { type: 'object' },
    effect = 'read_only',
    origin = { source: 'remote', trusted: false },
    ...rest
  } = raw;
  const labels = { egress: false };
  const declared = { id, description: `Runs ${id}.`, inputSchema: schema, effect, origin, labels };
  const tool = sourceTool({
    ...declared,
    ...rest,
    invoke: (built, context) => raw.invoke?.(built, context),
  });
  return { ...tool, input: { ...tool.input, reserved } };
}
