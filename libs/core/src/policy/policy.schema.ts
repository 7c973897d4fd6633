import type { JSONSchema7 } from 'json-schema';
import { TOOL_EFFECTS } from '../protocol/tool.js';

const patterns: JSONSchema7 = { type: 'array', items: { type: 'string', minLength: 1 } };
const effects: JSONSchema7 = { type: 'array', items: { type: 'string', enum: [...TOOL_EFFECTS] } };
const flag: JSONSchema7 = { type: 'boolean' };
const amount: JSONSchema7 = { type: 'number', minimum: 0 };
const text: JSONSchema7 = { type: 'string', minLength: 1 };
const pointer: JSONSchema7 = { type: 'string', pattern: '^/.' };

const grants = record({ allow: patterns, deny: patterns });

const approvalRule = record({
  tools: patterns,
  effects,
  arguments: { type: 'object' },
  tainted: { const: true },
  reason: text,
  roles: { type: 'array', items: text },
  notRequester: flag,
  mayEdit: flag,
  mayRemember: flag,
  expiresAfterMs: amount,
});

const runBudget = record({
  tools: patterns,
  calls: amount,
  sum: record({ argument: pointer, most: { type: 'number' } }, ['argument', 'most']),
  tokens: amount,
  usd: amount,
  beyond: { type: 'string', enum: ['deny', 'ask'] },
});

const vouchedTool = record({
  effect: { type: 'string', enum: [...TOOL_EFFECTS] },
  reads: { type: 'string', enum: ['public', 'private'] },
  egress: flag,
  schemaHash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
});

const callBudget = record({ tools: patterns, maxRuntimeMs: amount, maxResultBytes: amount, maxArgsBytes: amount });

/** The shape of a policy, which may well come from a file or a database. */
export const POLICY_SCHEMA: JSONSchema7 = record(
  {
    version: text,
    allow: patterns,
    deny: patterns,
    tenants: { type: 'object', additionalProperties: grants },
    roles: { type: 'object', additionalProperties: grants },
    effects,
    requireApproval: { type: 'array', items: approvalRule },
    runBudgets: { type: 'array', items: runBudget },
    callBudgets: { type: 'array', items: callBudget },
    connections: { type: 'array', items: record({ tools: patterns, connections: patterns }, ['tools', 'connections']) },
    vouched: { type: 'object', additionalProperties: vouchedTool },
    flow: { type: 'string', enum: ['off', 'legs', 'effect', 'taint', 'provenance'] },
    shadow: flag,
  },
  ['allow'],
);

function record(properties: Readonly<Record<string, JSONSchema7>>, required: readonly string[] = []): JSONSchema7 {
  return { type: 'object', properties, required: [...required], additionalProperties: false };
}
