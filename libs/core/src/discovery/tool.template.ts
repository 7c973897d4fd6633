import type { Type } from '@nestjs/common';
import { resolveOutput, type ResolvedOutput, type ToolMethod } from '../decorators/tool-metadata.accessor.js';
import type { LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import type { Finding } from '../protocol/errors.js';
import type { RunContext, ToolCallContext } from '../protocol/tool-call-context.js';
import { TOOL_EFFECTS, type ResultProjector, type ToolInputCodec, type ToolLabels, type ToolSpec } from '../protocol/tool.js';
import { canonicalJson, sha256 } from '../schema/canonical-json.js';
import { toJson } from '../schema/from-value.js';
import { outputSchemaOf } from '../schema/output.schema.js';
import type { ProjectionCompiler } from '../schema/result.projection.js';
import { compileReveal } from '../schema/revealed.projection.js';
import { subsetProblems } from '../schema/schema.subset.js';
import { argumentsOf, compileToolInput } from '../schema/tool.input.js';

/** What all tools of one (class, method) share; compiled once, whatever the number of instances. */
export interface ToolTemplate {
  /** The spec under its declared id. */
  readonly spec: ToolSpec;
  readonly input: ToolInputCodec;
  readonly output: ResultProjector;
  /** The declared result class, whose exposed fields may lead to entities. */
  readonly returns: ResolvedOutput | undefined;
  readonly when?: (context: RunContext) => boolean;
  readonly timeoutMs?: number;
  call(target: object, input: unknown, context: ToolCallContext): unknown;
}

/** A decorated method on its way to a template. */
export interface ToolDeclaration {
  readonly type: Type;
  readonly method: ToolMethod;
  readonly declaredId: string;
}

/** What an application says about all tools. */
export interface DeclarationRules {
  readonly reservedArguments: readonly string[];
  /** A parameter typed so is refused: the model never chooses who acts. */
  readonly actorClass?: Type;
}

/** Turns a decorated method into a template, or into the findings that keep it from being one. */
export class ToolTemplateCompiler {
  constructor(
    private readonly projections: ProjectionCompiler,
    private readonly rules: DeclarationRules,
  ) {}

  compile(declaration: ToolDeclaration): { readonly template?: ToolTemplate; readonly findings: readonly Finding[] } {
    const at = `${declaration.type.name}.${declaration.method.property}`;
    const { options } = declaration.method;
    if (!options) return { findings: [parametersWithoutTool(at)] };
    const findings = [...basicFindings(at, options), ...this.actorFindings(at, declaration.method)];
    const { input, findings: inputFindings } = compileToolInput({ at, method: declaration.method, reserved: this.reservedFor(options) });
    const output = this.compileOutput(at, options);
    findings.push(...inputFindings, ...output.findings, ...schemaFindings(at, input));
    if (findings.length > 0) return { findings };
    return { template: toTemplate(declaration, options, { input, ...output }), findings };
  }

  private reservedFor(options: LlmToolOptions): readonly string[] {
    const allowed = options.allowReserved?.arguments ?? [];
    return this.rules.reservedArguments.filter((name) => !allowed.includes(name));
  }

  private actorFindings(at: string, method: ToolMethod): Finding[] {
    const { actorClass } = this.rules;
    if (!actorClass) return [];
    const contexts = new Set(method.parameters.filter(({ kind }) => kind === 'context').map(({ index }) => index));
    const typed = method.designTypes.some((type, index) => type === actorClass && !contexts.has(index));
    if (!typed) return [];
    const problem = `A parameter has the type of the actor, ${actorClass.name}; a model must never choose who acts.`;
    return [{ at, problem, remedy: 'Take the actor from the @ToolContext() parameter.' }];
  }

  private compileOutput(at: string, options: LlmToolOptions): CompiledOutput {
    if (options.reveal !== undefined) {
      const { reveal } = options;
      return { projector: compileReveal(reveal), redaction: { kind: 'reveal', fields: reveal }, returns: undefined, findings: [] };
    }
    const returns = options.output === undefined ? undefined : resolveOutput(options.output);
    if (!returns)
      return { projector: compileReveal([]), redaction: { kind: 'reveal', fields: [] }, returns: undefined, findings: [noRedaction(at)] };
    const projector = this.projections.compile(returns);
    const { type, list, nullable } = returns;
    const findings = projector.findings.map((finding) => ({ at, ...finding }));
    return { projector, redaction: { kind: 'output', type: type.name, list, nullable }, returns, findings };
  }
}

interface CompiledOutput {
  readonly projector: ResultProjector;
  readonly redaction: ToolSpec['redaction'];
  readonly returns: ResolvedOutput | undefined;
  readonly findings: readonly Finding[];
}

function toTemplate(
  declaration: ToolDeclaration,
  options: LlmToolOptions,
  parts: CompiledOutput & { readonly input: ToolInputCodec },
): ToolTemplate {
  const { method } = declaration;
  const outputSchema = parts.returns && outputSchemaOf(parts.returns);
  const semantics = { description: options.description, inputSchema: parts.input.schema, ...(outputSchema && { outputSchema }) };
  const labels: ToolLabels = {
    returns: 'untrusted',
    reads: 'private',
    egress: options.effect === 'external_side_effect',
    ...options.labels,
  };
  const spec = Object.freeze<ToolSpec>({
    id: declaration.declaredId,
    declaredId: declaration.declaredId,
    ...semantics,
    effect: options.effect,
    labels,
    redaction: parts.redaction,
    schemaHash: sha256(canonicalJson(toJson(semantics))),
  });
  return {
    spec,
    input: parts.input,
    output: parts.projector,
    returns: parts.returns,
    ...(options.when && { when: options.when }),
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
    call: (target, input, context) => callByName(target, method, { input, context }),
  };
}

/** Looked up at every call, so that decorators above `@LlmTool()` which replace the function are honoured. */
function callByName(target: object, method: ToolMethod, call: { readonly input: unknown; readonly context: ToolCallContext }): unknown {
  const found: unknown = Reflect.get(target, method.property);
  if (typeof found !== 'function') throw new TypeError(`${target.constructor.name}.${method.property} is not a method.`);
  return Reflect.apply(found, target, argumentsOf(method, call.input, call.context));
}

function basicFindings(at: string, options: LlmToolOptions): Finding[] {
  const findings: Finding[] = [];
  if (!options.description?.trim())
    findings.push({ at, problem: 'The tool has no description.', remedy: 'Say in @LlmTool({ description }) what it does.' });
  if (!TOOL_EFFECTS.includes(options.effect)) {
    findings.push({ at, problem: `The tool declares no effect.`, remedy: `Add @LlmTool({ effect }): one of ${TOOL_EFFECTS.join(', ')}.` });
  }
  return findings;
}

function schemaFindings(at: string, input: ToolInputCodec): Finding[] {
  return subsetProblems(input.schema).map(({ pointer, problem }) => ({
    at,
    problem: `The input schema leaves the supported subset at "${pointer}": ${problem}`,
    remedy: 'Use types, enums, bounds, patterns, formats, nested objects and arrays only.',
  }));
}

function parametersWithoutTool(at: string): Finding {
  return {
    at,
    problem: 'Its parameters are decorated, but the method is not.',
    remedy: 'Add @LlmTool({ description, effect, output }) to the method.',
  };
}

function noRedaction(at: string): Finding {
  const remedy =
    'Add @LlmTool({ output: SomeClass }) whose @Expose() properties may leave, or reveal: "all" | [fields]; reveal: [] for void.';
  return { at, problem: 'The tool does not say what may leave it.', remedy };
}
