import type { JSONSchema7 } from 'json-schema';
import { closestTo } from '../catalog/suggestion.js';
import { isGlob, matchesGlob } from '../catalog/glob.js';
import type { Finding } from '../protocol/errors.js';
import type { Policy, PolicySubject } from '../protocol/policy.js';
import { TOOL_EFFECTS } from '../protocol/tool.js';
import type { SchemaValidators } from '../schema/schema.validators.js';

const patterns: JSONSchema7 = { type: 'array', items: { type: 'string', minLength: 1 } };
const effects: JSONSchema7 = { type: 'array', items: { type: 'string', enum: [...TOOL_EFFECTS] } };

/** The shape of a policy, which may well come from a file or a database. */
export const POLICY_SCHEMA: JSONSchema7 = {
  type: 'object',
  properties: {
    version: { type: 'string', minLength: 1 },
    allow: patterns,
    deny: patterns,
    effects,
    requireApproval: { type: 'object', properties: { effects }, additionalProperties: false },
  },
  required: ['allow'],
  additionalProperties: false,
};

/** What is wrong with a policy: its shape, and ids that name no tool. `at` says where the policy stands. */
export function policyFindings(
  policy: Policy,
  at: string,
  known: { readonly subjects: readonly PolicySubject[]; readonly validators: SchemaValidators },
): Finding[] {
  const problems = known.validators.validate(POLICY_SCHEMA, policy);
  if (problems.length > 0)
    return problems.map(({ pointer, message }) => ({
      at: `${at}${pointer}`,
      problem: message,
      remedy: 'See the type Policy for the fields and their values.',
    }));
  const ids = known.subjects.map(({ declaredId }) => declaredId);
  return [
    ...[...policy.allow, ...(policy.deny ?? [])].flatMap((pattern) => patternFindings(pattern, at, ids)),
    ...policy.allow.flatMap((pattern) => untrustedFindings(pattern, at, known.subjects)),
  ];
}

/** A glob that would have to let untrusted tools in lets nothing in, which nobody means. */
function untrustedFindings(pattern: string, at: string, subjects: readonly PolicySubject[]): Finding[] {
  if (pattern === '*' || !isGlob(pattern)) return [];
  const matching = subjects.filter(({ declaredId }) => matchesGlob(pattern, declaredId));
  if (matching.length === 0 || matching.some(({ origin }) => origin.trusted)) return [];
  return [
    {
      at,
      problem: `The policy allows "${pattern}", which only tools of untrusted sources match, and those no glob allows.`,
      remedy: `Name each exactly: ${matching.map(({ declaredId }) => `"${declaredId}"`).join(', ')}.`,
    },
  ];
}

function patternFindings(pattern: string, at: string, ids: readonly string[]): Finding[] {
  if (pattern === '*' || ids.some((id) => id === pattern || (isGlob(pattern) && matchesGlob(pattern, id)))) return [];
  const closest = closestTo(pattern, ids);
  const remedy =
    closest.length > 0 ? `Did you mean ${closest.map((id) => `"${id}"`).join(' or ')}?` : 'Name a tool of the catalog, or remove it.';
  return [{ at, problem: `The policy names "${pattern}", and no tool has such an id.`, remedy }];
}
