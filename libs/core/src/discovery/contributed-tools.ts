import type { Finding, ToolSpec } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import { isReserved, propertyNamesOf, subsetProblems } from '../schema/subset.js';
import type { SchemaValidators } from '../schema/validators.js';
import { basicFindings, callFindings, labelFindings, toolExecutionFindings } from './declaration-findings.js';
import { givenDirectiveFindings } from './directive-compiler.js';
import { ownHookFindings } from './tool-hooks.js';
import { SAFE_TOOL_ID } from './tool-names.js';

/** What a tool from outside is held against. */
export interface ContributionRules {
  readonly reservedArguments: readonly string[];
  readonly validators: SchemaValidators;
}

/** Where a contributed tool comes from, for findings. */
export function placeOf({ spec, origin }: Tool): string {
  return `${origin.source}: ${spec.declaredId}`;
}

/** What is wrong with a tool of a `ToolSource`: it declares as much as a decorated method does. */
export function contributedFindings(tool: Tool, rules: ContributionRules): Finding[] {
  const at = placeOf(tool);
  const { spec } = tool;
  return [
    ...basicFindings(at, spec),
    ...redactionFindings(at, spec),
    ...idFindings(at, tool),
    ...schemaFindings(at, spec, rules),
    ...labelFindings(at, spec.labels, spec.inputSchema),
    ...ownHookFindings(at, { canCall: tool.canCall, preview: tool.preview }),
    ...givenDirectiveFindings(at, tool.directive, { ...tool, effect: spec.effect }),
    ...callFindings(at, { ...tool, effect: spec.effect }),
    ...toolExecutionFindings(at, tool.execution),
  ];
}

/** The compiler makes sure of it, but a source may be written without one. */
function redactionFindings(at: string, { redaction }: Partial<ToolSpec>): Finding[] {
  if (redaction) return [];
  return [
    { at, problem: 'The tool does not say which data may leave it.', remedy: 'Give its spec a redaction, and an output that obeys it.' },
  ];
}

/** A declared id of its own could be one that a policy names for another tool, or a glob. */
function idFindings(at: string, { spec: { id, declaredId }, entity }: Tool): Finding[] {
  const findings: Finding[] = [];
  if (!SAFE_TOOL_ID.test(id))
    findings.push({
      at,
      problem: 'Its id is not accepted by every model provider.',
      remedy: 'Use letters, digits, - and _, 64 characters at most.',
    });
  if (declaredId !== id && !entity)
    findings.push({
      at,
      problem: `Its declared id is not its id, "${id}".`,
      remedy: 'Only the tools of an entity have a declared id of their own.',
    });
  return findings;
}

function schemaFindings(at: string, { inputSchema }: ToolSpec, { reservedArguments, validators }: ContributionRules): Finding[] {
  const outside = subsetProblems(inputSchema).map(({ pointer, problem }) => ({
    at,
    problem: `${pointer}: ${problem}`,
    remedy: 'Use the supported subset of JSON Schema 7.',
  }));
  if (outside.length > 0) return outside;
  const broken = validators.problemWith(inputSchema);
  if (broken !== undefined) return [{ at, problem: `Its input schema cannot be used: ${broken}`, remedy: 'Correct the schema.' }];
  return propertyNamesOf(inputSchema)
    .filter((name) => isReserved(name, reservedArguments))
    .map((name) => ({
      at,
      problem: `The argument "${name}" has a reserved name.`,
      remedy: 'Rename it: who a call acts for is never the choice of a model.',
    }));
}
