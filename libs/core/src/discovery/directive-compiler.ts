import type { Finding, ToolEffect } from '@toolloop/protocol';
import type { ToolDirective, ToolInputCodec } from '../contracts/tool.js';
import type { DirectiveDeclaration, RawDirectiveDeclaration } from '../decorators/llm-tool.decorator.js';
import { nearestName } from '../findings/options.js';
import { fieldsIn, problemWithField, rendered } from '../schema/optional-nulls.js';

/** What a tool says of itself that its directive is held against. */
export interface DirectiveSurroundings {
  readonly effect?: ToolEffect | undefined;
  readonly input: Pick<ToolInputCodec, 'schema' | 'hidden'>;
  readonly preview?: unknown;
  readonly idempotencyKey?: unknown;
}

const ATTEMPTS = 5;
const MOST_ATTEMPTS = 50;
const TYPE = /^[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*$/;
const LONGEST_TYPE = 64;
const OPTIONS: readonly (keyof DirectiveDeclaration)[] = ['type', 'subject', 'key', 'preview', 'compensate', 'maybeRan', 'attempts'];

/** A declared directive, ready to name itself for a call. */
export function compileDirective(declared: DirectiveDeclaration | RawDirectiveDeclaration): ToolDirective {
  const { type, subject, key, preview = 'optional', maybeRan = 'ask', attempts = ATTEMPTS } = declared;
  return {
    type,
    preview,
    maybeRan,
    attempts,
    subjectOf: (args) => rendered(subject, args),
    ...(key !== undefined && { keyOf: (args) => rendered(key, args) }),
  };
}

/** What is wrong with a declared directive. */
export function directiveFindings(
  at: string,
  declared: Partial<DirectiveDeclaration | RawDirectiveDeclaration> | undefined,
  tool: DirectiveSurroundings,
): Finding[] {
  if (declared === undefined) return [];
  const { type, subject, key } = declared;
  return [
    ...Object.keys(declared)
      .filter((name) => !OPTIONS.some((known) => known === name))
      .map((name) => ({ at, problem: `Its directive has no option "${name}".`, remedy: nearestName(name, OPTIONS) })),
    ...typeFindings(at, type),
    ...templateFindings(at, 'subject', subject, tool),
    ...(key === undefined ? [] : templateFindings(at, 'key', key, tool)),
    ...wordFindings(at, declared),
    ...surroundingFindings(at, declared, tool),
  ];
}

/** What is wrong with directives that were not declared but written as data. */
export function givenDirectiveFindings(at: string, directive: ToolDirective | undefined, tool: DirectiveSurroundings): Finding[] {
  if (!directive) return [];
  return [...typeFindings(at, directive.type), ...wordFindings(at, directive), ...surroundingFindings(at, directive, tool)];
}

/** Where the instance of an entity would have to come from when the directive is performed. */
export function entityDirectiveFindings(at: string, directive: unknown): Finding[] {
  if (directive === undefined) return [];
  const remedy = 'Make it a tool of a service that takes the id, such as refundOrder(orderId).';
  return [{ at, problem: 'It is a tool of an entity, and a directive outlives the instance that the run was given.', remedy }];
}

function typeFindings(at: string, type: unknown): Finding[] {
  if (typeof type === 'string' && TYPE.test(type) && type.length <= LONGEST_TYPE) return [];
  const remedy = `Use small letters and digits, joined by ".", "-" or "_", ${LONGEST_TYPE} characters at most: order.refund.`;
  return [{ at, problem: `Its directive has no type, or none that can be used: ${JSON.stringify(type)}.`, remedy }];
}

function templateFindings(at: string, option: string, template: unknown, { input }: DirectiveSurroundings): Finding[] {
  if (typeof template !== 'string' || template.trim() === '')
    return [
      { at, problem: `Its directive has no ${option}.`, remedy: `Build it from arguments of the tool, e.g. ${option}: '{orderId}'.` },
    ];
  const known = Object.keys(input.schema.properties ?? {});
  return fieldsIn(template).flatMap((name) => {
    const problem = problemWithField(name, input.schema, input.hidden);
    if (problem === undefined) return [];
    const remedy = known.includes(name) ? 'Name another one, or make this one required.' : nearestName(name, known);
    return [{ at, problem: `The ${option} of its directive names "${name}", and ${problem}.`, remedy }];
  });
}

function wordFindings(
  at: string,
  { preview, maybeRan, attempts }: Partial<Pick<ToolDirective, 'preview' | 'maybeRan' | 'attempts'>>,
): Finding[] {
  return [
    ...choiceFindings(at, 'preview', preview, ['required', 'optional']),
    ...choiceFindings(at, 'maybeRan', maybeRan, ['ask', 'repeat']),
    ...(attempts === undefined || (Number.isSafeInteger(attempts) && attempts >= 1 && attempts <= MOST_ATTEMPTS)
      ? []
      : [{ at, problem: `Its directive says ${attempts} attempts.`, remedy: `Give a whole number from 1 to ${MOST_ATTEMPTS}.` }]),
  ];
}

function choiceFindings(at: string, option: string, value: unknown, choices: readonly string[]): Finding[] {
  if (value === undefined || choices.some((choice) => choice === value)) return [];
  const remedy = `Say ${choices.map((choice) => `'${choice}'`).join(' or ')}.`;
  return [{ at, problem: `The ${option} of its directive is ${JSON.stringify(value)}.`, remedy }];
}

function surroundingFindings(at: string, { preview }: Pick<DirectiveDeclaration, 'preview'>, tool: DirectiveSurroundings): Finding[] {
  const findings: Finding[] = [];
  if (tool.effect === 'read_only')
    findings.push({ at, problem: 'It only reads and has a directive.', remedy: 'Leave the directive out: there is no effect to ask for.' });
  if (preview === 'required' && tool.preview === undefined)
    findings.push({
      at,
      problem: 'Its directive requires a preview, and the tool has none.',
      remedy: 'Give the tool one: @LlmTool({ preview }).',
    });
  if (tool.idempotencyKey !== undefined)
    findings.push({
      at,
      problem: 'It has both an idempotencyKey and a directive.',
      remedy: 'Say in `directive.key` which requests count as the same.',
    });
  return findings;
}
