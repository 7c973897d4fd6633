import {
  type Finding,
  isRecord,
  type JsonObject,
  type ToolSpec,
  visible,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { RefusedTool } from '../../contracts/source.js';
import type { Tool } from '../../contracts/tool.js';
import { FUNCTION } from '../../findings/option-rules.js';
import { defineOptions } from '../../findings/options.js';
import { givenDirectiveFindings } from '../../plugins/directives/directive-compiler.js';
import {
  ForeignDeclarationError,
  narrowedSchema,
  type NarrowedSchema,
} from '../../schema/foreign-schema.js';
import { withoutNullUnions } from '../../schema/null-unions.js';
import { sourceNullRemoval } from '../../schema/optional-nulls.js';
import { resultSchemaFindings } from '../../schema/origin-findings.js';
import { isReserved } from '../../schema/reserved-names.js';
import { propertyNamesOf, schemaFindings } from '../../schema/subset.js';
import type { SchemaValidators } from '../../schema/validators.js';
import { TOOL_BASICS, type ToolBasics } from '../decorators/llm-tool.decorator.js';
import { SAFE_TOOL_ID } from './tool-names.js';
import { decisiveFindings } from './tool-template.js';

/**
 * Checks a copied tool, and compiles its schemas; its patterns run in linear time or are not
 * applied.
 */
export function checkContribution(
  { at, tool, problems: known, notes }: Contribution,
  rules: ContributionRules,
): Contribution {
  if (known.length > 0) return { at, tool, problems: known, notes: [] };
  const { spec, input } = tool;
  rules.validators.distrust(spec.inputSchema, input.schema, spec.outputSchema);
  const problems = contributedFindings(tool, rules);
  return {
    at,
    tool,
    problems,
    notes: problems.length > 0 ? [] : [...notes, ...unappliedFindings(tool, rules)],
  };
}

/** The rules for a tool from outside. */
export interface ContributionRules {
  readonly reservedArguments: readonly string[];
  readonly validators: SchemaValidators;
}

/** A tool that was declared elsewhere, as it was read. */
export interface Contribution {
  /** Its source and its id, for findings. */
  readonly at: string;
  readonly tool: Tool;
  /** The reasons why it cannot be used. */
  readonly problems: readonly Finding[];
  /**
   * The parts of it that are not applied: it can be used, and its source checks more than the
   * application does.
   */
  readonly notes: readonly Finding[];
}

/** The longest description of a stranger's tool, in characters: every prompt holds it. */
const LONGEST_DESCRIPTION = 8_192;
const MOST_OF_AN_ID = 64;

/** Returns the place of a contributed tool, for findings. */
export function placeOf({ spec, origin }: Pick<Tool, 'spec' | 'origin'>): string {
  return `${origin.source}: ${shownId(spec.declaredId)}`;
}

/** An id that may be any text. */
export function shownId(id: string): string {
  return visible(id.length > MOST_OF_AN_ID ? `${id.slice(0, MOST_OF_AN_ID)}…` : id);
}

/** Tells whether a value has the parts of a tool. What is in them is checked when it is read. */
export function isTool(value: unknown): value is Tool {
  if (!isRecord(value)) return false;
  const { spec, origin, input, output, invoke } = value;
  if (!isRecord(origin) || !isRecord(spec) || !isRecord(input) || !isRecord(output)) return false;
  const ids = [spec['id'], spec['declaredId']];
  const functions = [invoke, output['project'], input['normalize'], input['read']];
  const lists = [input['hidden'], input['reserved']];
  return (
    ids.every((id) => typeof id === 'string') &&
    functions.every((one) => typeof one === 'function') &&
    lists.every((list) => Array.isArray(list))
  );
}

/** Tells whether a value is a tool that its source keeps back. */
export function isRefused(value: unknown): value is RefusedTool {
  if (!isRecord(value) || !isRecord(value['refused'])) return false;
  const { problem, remedy } = value['refused'];
  return [value['id'], problem, remedy].every((one) => typeof one === 'string');
}

const DECLARED = defineOptions<ToolBasics & Pick<Tool, 'canCall' | 'preflight' | 'preview'>>(
  { ...TOOL_BASICS.rules, canCall: FUNCTION, preflight: FUNCTION, preview: FUNCTION },
  TOOL_BASICS.settings,
);

/** A tool that was declared elsewhere, before it is checked. */
export interface CopiedContribution extends Contribution {
  /** The values in its schemas, if they were copied: what it costs to compile them. */
  readonly values: number;
}

/**
 * Reads a tool that was declared elsewhere. Of an untrusted source it is a copy, which the source
 * cannot change: with narrowed schemas, and without what instructs the model or decides how people
 * see the tool.
 */
export function copyContribution(given: Tool, rules: ContributionRules): CopiedContribution {
  const at = placeOf(given);
  if (given.origin.trusted)
    return { at, tool: withoutNulls(withoutAllowance(given)), problems: [], notes: [], values: 0 };
  try {
    return { at, problems: [], ...distrusted(given, rules) };
  } catch (error) {
    if (!(error instanceof ForeignDeclarationError)) throw error;
    const remedy = 'Have its source declare less, and in characters that are seen.';
    return {
      at,
      tool: given,
      problems: [{ at, problem: `It cannot be used: ${error.message}.`, remedy }],
      notes: [],
      values: 0,
    };
  }
}

/** Leaves out what lets patterns backtrack: those of a source never do. */
function withoutAllowance(given: Tool): Tool {
  const { patterns, ...tool } = given;
  return patterns === undefined ? given : tool;
}

/** Reads the unions with null in the input of a tool, see {@link withoutNullUnions}. */
function withoutNulls(tool: Tool): Tool {
  const { spec, input } = tool;
  const inputSchema = withoutNullUnions(spec.inputSchema);
  if (inputSchema === spec.inputSchema) return tool;
  return {
    ...tool,
    spec: { ...spec, inputSchema },
    input: withSchema(input, withoutNullUnions(input.schema), inputSchema),
  };
}

function withSchema(
  input: Tool['input'],
  schema: Tool['input']['schema'],
  shown: ToolSpec['inputSchema'],
): Tool['input'] {
  const removeNulls = sourceNullRemoval(shown);
  return {
    ...input,
    schema,
    normalize: (args: JsonObject): JsonObject => removeNulls(input.normalize(args)),
  };
}

/** @throws {ForeignDeclarationError} For a description or a schema that cannot be used. */
function distrusted(
  given: Tool,
  { reservedArguments, validators }: ContributionRules,
): Pick<CopiedContribution, 'tool' | 'notes' | 'values'> {
  const { presentation: _, instructions: _more, ...rest } = withoutAllowance(given);
  const { outputSchema, ...spec } = rest.spec;
  const { input } = rest;
  const asked = withoutReserved(spec.inputSchema, reservedArguments);
  const shown = narrowedSchema(asked, 'input');
  const held = input.schema === spec.inputSchema ? shown : narrowedSchema(input.schema, 'input');
  const { result, unusable } = usableResult(outputSchema, validators);
  const narrowed = [shown, ...(held === shown ? [] : [held]), ...(result ? [result] : [])];
  return {
    tool: {
      ...rest,
      spec: {
        ...spec,
        ...descriptionOf(spec, shown.told),
        inputSchema: shown.schema,
        ...(result && { outputSchema: result.schema }),
      },
      // Where a schema is open, names that are reserved may be in it.
      input: {
        ...withSchema(input, held.schema, shown.schema),
        reserved: [...new Set([...input.reserved, ...reservedArguments])],
      },
    },
    notes: [
      ...narrowedFindings(
        placeOf(given),
        narrowed.flatMap(({ unapplied }) => unapplied),
      ),
      ...(asked === spec.inputSchema ? [] : [{ at: placeOf(given), ...LEFT_OUT }]),
      ...(unusable === undefined
        ? []
        : [
            {
              at: placeOf(given),
              problem: `Its outputSchema is not applied: ${unusable}.`,
              remedy: UNCHECKED,
            },
          ]),
    ],
    values: narrowed.reduce((sum, { values }) => sum + values, 0),
  };
}

const LEFT_OUT = {
  problem: 'Arguments with reserved names are left out of it.',
  remedy:
    'Its source may ask for less without them; otherwise import it under a trusted source of your own, which sets them.',
};
const UNCHECKED = 'Its results are not held against a schema, and shown as they come.';

/**
 * Leaves out the arguments that a model must not give, if the tool can be called without. One that
 * needs them cannot be used.
 */
function withoutReserved(schema: JSONSchema7, reserved: readonly string[]): JSONSchema7 {
  const { properties, required = [] } = schema;
  const names = isRecord(properties)
    ? Object.keys(properties).filter((name) => reserved.includes(name))
    : [];
  if (
    !isRecord(properties) ||
    names.length === 0 ||
    !Array.isArray(required) ||
    names.some((name) => required.includes(name))
  )
    return schema;
  return {
    ...schema,
    properties: Object.fromEntries(
      Object.entries(properties).filter(([name]) => !names.includes(name)),
    ),
  };
}

/**
 * A schema for results that cannot be used takes no tool away: its results are untrusted anyway.
 */
function usableResult(
  schema: JSONSchema7 | undefined,
  validators: SchemaValidators,
): { readonly result?: NarrowedSchema; readonly unusable?: string } {
  if (!schema) return {};
  try {
    const result = narrowedSchema(schema, 'output');
    validators.distrust(result.schema);
    const [finding] = resultSchemaFindings('', result.schema, validators);
    return finding ? { unusable: 'it is no JSON Schema that can be used' } : { result };
  } catch (error) {
    if (!(error instanceof ForeignDeclarationError)) throw error;
    return { unusable: error.message };
  }
}

/** A tool without a description is a finding later on. */
function descriptionOf(
  { description }: Partial<ToolSpec>,
  told: string | undefined,
): Partial<Pick<ToolSpec, 'description'>> {
  if (typeof description !== 'string') return {};
  if (description.length > LONGEST_DESCRIPTION)
    throw new ForeignDeclarationError(
      `its description has more than ${LONGEST_DESCRIPTION} characters`,
    );
  return {
    description: [
      visible(description),
      ...(told === undefined ? [] : [`Its arguments. ${told}`]),
    ].join('\n'),
  };
}

const MOST_POINTERS = 5;

function narrowedFindings(at: string, unapplied: readonly string[]): Finding[] {
  if (unapplied.length === 0) return [];
  const named = unapplied.slice(0, MOST_POINTERS).map((pointer) => `"${shownId(pointer)}"`);
  const more =
    unapplied.length > MOST_POINTERS ? ` and ${unapplied.length - MOST_POINTERS} more` : '';
  return [
    {
      at,
      problem: `Parts of its schemas are not applied, so it takes more than its source says: ${named.join(', ')}${more}.`,
      remedy:
        'Have its source declare one object without unions, conditions and outside references, or rely on its own checks.',
    },
  ];
}

/** Finds the patterns of a tool that are not applied. */
function unappliedFindings(
  { spec, input, ...tool }: Tool,
  { validators }: ContributionRules,
): Finding[] {
  const schemas = [input.schema, ...(spec.outputSchema ? [spec.outputSchema] : [])];
  return [...new Set(schemas.flatMap((schema) => validators.unappliedPatterns(schema)))].map(
    (pattern) => ({
      at: placeOf({ spec, ...tool }),
      problem: `Its pattern ${JSON.stringify(pattern.slice(0, MOST_OF_A_PATTERN))} cannot be run in linear time, so it is not applied.`,
      remedy: 'Have its source write it shorter, without look-around and back references.',
    }),
  );
}

const MOST_OF_A_PATTERN = 64;

/**
 * Returns the findings in a tool of a `ToolSource`: it declares as much as a decorated method does.
 */
function contributedFindings(tool: Tool, rules: ContributionRules): Finding[] {
  const at = placeOf(tool);
  const { spec } = tool;
  return [
    ...DECLARED.findings({ ...DECLARED.copy(spec), ...DECLARED.copy(tool) }, at),
    ...redactionFindings(at, spec),
    ...idFindings(at, tool),
    ...inputFindings(at, tool, rules),
    ...(spec.outputSchema ? resultSchemaFindings(at, spec.outputSchema, rules.validators) : []),
    ...decisiveFindings(at, spec.labels, spec.inputSchema),
    ...givenDirectiveFindings(at, tool.directive, { ...tool, effect: spec.effect }),
  ];
}

/** The compiler makes sure of it, but a source may be written without one. */
function redactionFindings(at: string, { redaction }: Partial<ToolSpec>): Finding[] {
  if (redaction) return [];
  return [
    {
      at,
      problem: 'The tool does not say which data may leave it.',
      remedy: 'Give its spec a redaction, and an output that obeys it.',
    },
  ];
}

/** A declared id of its own could be one that a policy names for another tool, or a glob. */
function idFindings(at: string, { spec: { id, declaredId }, entity, origin }: Tool): Finding[] {
  const findings: Finding[] = [];
  if (!SAFE_TOOL_ID.test(id))
    findings.push({
      at,
      problem: 'Its id is not accepted by every model provider.',
      remedy: 'Use letters, digits, - and _, 64 characters at most.',
    });
  if (entity && !origin.trusted)
    findings.push({
      at,
      problem: 'It says that it belongs to an entity, which only the application can declare.',
      remedy: 'Have its source declare a tool without one.',
    });
  if (declaredId !== id && !entity)
    findings.push({
      at,
      problem: `Its declared id is not its id, "${shownId(id)}".`,
      remedy: 'Only the tools of an entity have a declared id of their own.',
    });
  return findings;
}

/**
 * Checks the schema that the model sees, and the one that arguments are held against where a source
 * has another.
 */
function inputFindings(
  at: string,
  { spec: { inputSchema }, input }: Tool,
  { reservedArguments, validators }: ContributionRules,
): Finding[] {
  const unusable = schemaFindings(at, inputSchema, validators);
  if (unusable.length > 0) return unusable;
  const broken = validators.problemWith(input.schema);
  if (broken !== undefined)
    return [
      {
        at,
        problem: `Its arguments cannot be checked: ${broken}.`,
        remedy: 'Correct the schema of its input.',
      },
    ];
  return propertyNamesOf(inputSchema)
    .filter((name) => isReserved(name, reservedArguments))
    .map((name) => ({
      at,
      problem: `The argument "${name}" has a reserved name.`,
      remedy: 'Rename it: who a call acts for is never the choice of a model.',
    }));
}
