import type { Finding, ToolEffect } from '@toolloop/protocol';
import type { ToolDirective, ToolInputCodec } from '../../contracts/tool.js';
import {
  DIRECTIVE_DATA,
  type DirectiveDeclaration,
  type RawDirectiveDeclaration,
} from '../../tools/decorators/directive-declaration.js';
import { nearestName } from '../../findings/nearest-name.js';
import { fieldsIn, problemWithField, renderTemplate } from '../../schema/optional-nulls.js';

/** A declared directive, ready to name itself for a call. */
export function compileDirective(
  declared: DirectiveDeclaration | RawDirectiveDeclaration,
): ToolDirective {
  const {
    type,
    subject,
    key,
    preview = 'optional',
    maybeRan = 'ask',
    attempts = ATTEMPTS,
  } = declared;
  return {
    type,
    preview,
    maybeRan,
    attempts,
    subjectOf: (args) => renderTemplate(subject, args),
    ...(key !== undefined && { keyOf: (args) => renderTemplate(key, args) }),
  };
}

/** The declaration around a directive, which it is checked against. */
export interface DirectiveSurroundings {
  readonly effect?: ToolEffect | undefined;
  readonly input: Pick<ToolInputCodec, 'schema' | 'hidden'>;
  readonly preview?: unknown;
  readonly idempotencyKey?: unknown;
  /** True for a method of an entity, whose templates can name the `instanceId`. */
  readonly isOfEntity?: boolean;
}

const ATTEMPTS = 5;

/** The findings about a declared directive that the rest of its tool does not bear out. */
export function directiveFindings(
  at: string,
  directive: Partial<DirectiveDeclaration | RawDirectiveDeclaration> | undefined,
  tool: DirectiveSurroundings,
): Finding[] {
  if (directive === undefined) return [];
  const { subject, key } = directive;
  return [
    ...templateFindings(at, 'subject', subject, tool),
    ...templateFindings(at, 'key', key, tool),
    ...surroundingFindings(at, directive, tool),
  ];
}

/** The findings about a directive that was not declared but written as data. */
export function givenDirectiveFindings(
  at: string,
  directive: ToolDirective | undefined,
  tool: DirectiveSurroundings,
): Finding[] {
  if (!directive) return [];
  return [
    ...DIRECTIVE_DATA.findings(DIRECTIVE_DATA.copy(directive), at),
    ...surroundingFindings(at, directive, tool),
  ];
}

/**
 * Returns the finding for a directive of an entity that nothing finds again: it outlives the
 * instance that the run was given.
 */
export function entityDirectiveFindings(
  at: string,
  directive: unknown,
  { name, isFoundAgain }: DirectiveEntity,
): Finding[] {
  if (directive === undefined || isFoundAgain) return [];
  const remedy = `Write a class marked @ToolEntityResolver(${name}) that loads it by its id, and leave \`rehydrate: 'never'\` out; or make the tool one of a service that takes the id.`;
  return [
    {
      at,
      problem: `It has a directive, and nothing finds its ${name} again when that is performed.`,
      remedy,
    },
  ];
}

/** The class of an entity, for findings. */
interface DirectiveEntity {
  readonly name: string;
  readonly isFoundAgain: boolean;
}

/** A template that is no text is a finding of the table. */
function templateFindings(
  at: string,
  option: string,
  template: unknown,
  { input, isOfEntity }: DirectiveSurroundings,
): Finding[] {
  if (typeof template !== 'string') return [];
  const known = Object.keys(input.schema.properties ?? {});
  return fieldsIn(template).flatMap((name) => {
    if (isOfEntity && name === 'instanceId' && !known.includes(name)) return [];
    const problem = problemWithField(name, input.schema, input.hidden);
    if (problem === undefined) return [];
    const remedy = known.includes(name)
      ? 'Name another one, or make this one required.'
      : nearestName(name, known);
    return [
      { at, problem: `The ${option} of its directive names "${name}", and ${problem}.`, remedy },
    ];
  });
}

function surroundingFindings(
  at: string,
  { preview }: Pick<DirectiveDeclaration, 'preview'>,
  tool: DirectiveSurroundings,
): Finding[] {
  const findings: Finding[] = [];
  if (tool.effect === 'read_only')
    findings.push({
      at,
      problem: 'It only reads and has a directive.',
      remedy: 'Leave the directive out: there is no effect to ask for.',
    });
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
