import type { Finding, JsonObject, ToolSpec } from '@toolloop/protocol';
import type { Tool } from '../contracts/tool.js';
import { TOOL_BASICS, type ToolBasics } from '../decorators/llm-tool.decorator.js';
import { defineOptions, FUNCTION } from '../findings/options.js';
import { optionalNullRemoval } from '../schema/optional-nulls.js';
import { withoutNullUnions } from '../schema/raw-input.js';
import { propertyNamesOf, schemaFindings } from '../schema/subset.js';
import { isReserved } from '../schema/tool-input.js';
import type { SchemaValidators } from '../schema/validators.js';
import { decisiveFindings } from './tool-template.js';
import { givenDirectiveFindings } from './directive-compiler.js';
import { foldedId, SAFE_TOOL_ID, sharedIdProblem, type TakenId } from './tool-names.js';

/** The rules for a tool from outside. */
export interface ContributionRules {
  readonly reservedArguments: readonly string[];
  readonly validators: SchemaValidators;
}

/** Returns the place of a contributed tool, for findings. */
export function placeOf({ spec, origin }: Tool): string {
  return `${origin.source}: ${spec.declaredId}`;
}

const DECLARED = defineOptions<ToolBasics & Pick<Tool, 'canCall' | 'preview'>>(
  { ...TOOL_BASICS.rules, canCall: FUNCTION, preview: FUNCTION },
  TOOL_BASICS.settings,
);

/** Reads a tool of a source: an untrusted one neither instructs the model nor decides how people see the tool. Returns the same tool where there is nothing to change. */
export function readContribution(contributed: Tool): Tool {
  const { presentation, instructions, ...rest } = contributed;
  const isMore = presentation !== undefined || instructions !== undefined;
  return withoutNulls(isMore && !contributed.origin.trusted ? rest : contributed);
}

/** Reads the unions with null in the input of a tool, see {@link withoutNullUnions}. */
function withoutNulls(tool: Tool): Tool {
  const { spec, input } = tool;
  const inputSchema = withoutNullUnions(spec.inputSchema);
  if (inputSchema === spec.inputSchema) return tool;
  const removeNulls = optionalNullRemoval(inputSchema);
  const normalize = (args: JsonObject): JsonObject => removeNulls(input.normalize(args));
  return { ...tool, spec: { ...spec, inputSchema }, input: { ...input, schema: withoutNullUnions(input.schema), normalize } };
}

/** Has the patterns of a tool of an untrusted source run in linear time only; called before its schemas are compiled. */
export function distrustPatterns({ origin, spec, input }: Tool, validators: SchemaValidators): void {
  if (!origin.trusted) validators.distrust(spec.inputSchema, input.schema, spec.outputSchema);
}

/** Finds the patterns of a tool that are not applied. They keep nothing from starting: its source checks them itself. */
export function unappliedFindings(tool: Tool, validators: SchemaValidators): Finding[] {
  const { spec, input } = tool;
  const schemas = [input.schema, ...(spec.outputSchema ? [spec.outputSchema] : [])];
  return [...new Set(schemas.flatMap((schema) => validators.unappliedPatterns(schema)))].map((pattern) => ({
    at: placeOf(tool),
    problem: `Its pattern ${JSON.stringify(pattern.slice(0, MOST_OF_A_PATTERN))} cannot be run in linear time, so it is not applied.`,
    remedy: 'Have its source write it shorter, without look-around and back references.',
  }));
}

const MOST_OF_A_PATTERN = 64;

/** A tool of a source, and where it comes from. */
interface Contribution {
  readonly tool: Tool;
  readonly at: string;
}

/** The tools of sources, without those in quarantine, and why each of these is there. */
export interface Quarantine<Entry> {
  readonly admitted: readonly Entry[];
  readonly findings: readonly Finding[];
}

/**
 * Keeps a tool of an untrusted source away whose id differs only in case from that of another tool: a person or a policy could take one for the other. Trusted tools
 * come first, wherever they stand. Two trusted ones are a finding of the catalog.
 */
export function quarantined<Entry extends Contribution>(own: readonly Contribution[], contributed: readonly Entry[]): Quarantine<Entry> {
  const trusted = [...own, ...contributed.filter(({ tool }) => tool.origin.trusted)];
  const ids = new Map(
    trusted.map(({ tool: { spec }, at }): [string, TakenId] => [foldedId(spec.declaredId), { declaredId: spec.declaredId, at }]),
  );
  const findings: Finding[] = [];
  const admitted = contributed.filter(({ tool, at }) => {
    if (tool.origin.trusted) return true;
    const { declaredId } = tool.spec;
    const taken = ids.get(foldedId(declaredId));
    if (!taken) ids.set(foldedId(declaredId), { declaredId, at });
    if (!taken || taken.declaredId === declaredId) return true;
    findings.push({
      at,
      problem: sharedIdProblem(declaredId, taken),
      remedy: 'Have its source name it otherwise; until then the tool is left out.',
    });
    return false;
  });
  return { admitted, findings };
}

/** Returns the findings in a tool of a `ToolSource`: it declares as much as a decorated method does. */
export function contributedFindings(tool: Tool, rules: ContributionRules): Finding[] {
  const at = placeOf(tool);
  const { spec } = tool;
  return [
    ...DECLARED.findings({ ...DECLARED.copy(spec), ...DECLARED.copy(tool) }, at),
    ...redactionFindings(at, spec),
    ...idFindings(at, tool),
    ...inputFindings(at, tool, rules),
    ...outputFindings(at, spec, rules),
    ...decisiveFindings(at, spec.labels, spec.inputSchema),
    ...givenDirectiveFindings(at, tool.directive, { ...tool, effect: spec.effect }),
  ];
}

/** The compiler makes sure of it, but a source may be written without one. */
function redactionFindings(at: string, { redaction }: Partial<ToolSpec>): Finding[] {
  if (redaction) return [];
  return [
    { at, problem: 'The tool does not say which data may leave it.', remedy: 'Give its spec a redaction, and an output that obeys it.' },
  ];
}

function outputFindings(at: string, { outputSchema }: ToolSpec, { validators }: ContributionRules): Finding[] {
  const broken = outputSchema && validators.problemWith(outputSchema);
  return broken === undefined ? [] : [{ at, problem: `The output schema cannot be used: ${broken}.`, remedy: 'Correct the schema.' }];
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

/** Checks the schema that the model sees, and the one that arguments are held against where a source has another. */
function inputFindings(
  at: string,
  { spec: { inputSchema }, input }: Tool,
  { reservedArguments, validators }: ContributionRules,
): Finding[] {
  const unusable = schemaFindings(at, inputSchema, validators);
  if (unusable.length > 0) return unusable;
  const broken = validators.problemWith(input.schema);
  if (broken !== undefined)
    return [{ at, problem: `Its arguments cannot be checked: ${broken}.`, remedy: 'Correct the schema of its input.' }];
  return propertyNamesOf(inputSchema)
    .filter((name) => isReserved(name, reservedArguments))
    .map((name) => ({
      at,
      problem: `The argument "${name}" has a reserved name.`,
      remedy: 'Rename it: who a call acts for is never the choice of a model.',
    }));
}
