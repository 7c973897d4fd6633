import type { Type } from '@nestjs/common';
import type { Finding, ToolLabels, ToolOrigin, ToolSpec } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { givenOptions, type RunContext, type ToolCallContext, type ToolExecutionOptions } from '../contracts/tool-call.js';
import type { IdempotencyScope, ResultProjector, Tool, ToolInputCodec } from '../contracts/tool.js';
import type { LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import type { RawTool, RawToolDeclaration } from '../decorators/raw-tool.js';
import { providerOptionsOf, type ResolvedOutput, resolveOutput, type ToolMethod } from '../decorators/tool-metadata.js';
import { unknownOptions } from '../findings/options.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { compileRawInput } from '../schema/raw-input.js';
import type { ProjectionCompiler } from '../schema/result-projection.js';
import { compileReveal } from '../schema/reveal.js';
import { argumentsOf, type CompiledInput, compileToolInput, withoutAllowed } from '../schema/tool-input.js';
import type { SchemaValidators } from '../schema/validators.js';
import {
  basicFindings,
  callFindings,
  labelFindings,
  METHOD_OPTIONS,
  noRedaction,
  optionFindings,
  parametersWithoutTool,
  RAW_OPTIONS,
  saidTwice,
  schemaFindings,
  toolExecutionFindings,
} from './declaration-findings.js';
import { compileDirective, directiveFindings } from './directive-compiler.js';
import { isClassOrBelow } from './provider-instances.js';
import { callNamed, methodHookFindings, methodHooks, ownHookFindings, ownHooks, type ToolHooks, type ToolTarget } from './tool-hooks.js';

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
  readonly idempotencyKey?: NonNullable<Tool['idempotencyKey']>;
  readonly idempotencyScope?: IdempotencyScope;
  readonly idempotent?: boolean;
  readonly concurrency?: number;
  readonly execution?: ToolExecutionOptions;
  readonly humanReadable?: NonNullable<Tool['humanReadable']>;
  readonly layers?: NonNullable<Tool['layers']>;
  readonly allowReserved?: NonNullable<Tool['allowReserved']>;
  readonly directive?: NonNullable<Tool['directive']>;
  readonly subRun?: NonNullable<Tool['subRun']>;
  readonly hooks: ToolHooks;
  readonly call: (target: object, input: unknown, context: ToolCallContext) => unknown;
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
    private readonly validators: SchemaValidators,
  ) {}

  /** A decorated method. */
  compile(declaration: ToolDeclaration): CompiledTool {
    const at = placeOf(declaration);
    const { method, declaredId } = declaration;
    const { options } = method;
    if (!options) return { returns: undefined, findings: [parametersWithoutTool(at)] };
    const input = compileToolInput({ at, method, reserved: this.rules.reservedArguments });
    const call: ToolTemplate['call'] = (target, built, context) => callNamed(target, method.property, argumentsOf(method, built, context));
    const inherited = providerOptionsOf(declaration.type)?.execution;
    const compiled = this.assemble({ at, declaredId, options, input, call, hooks: methodHooks(method), ...(inherited && { inherited }) });
    const findings = [
      ...unknownOptions(options, METHOD_OPTIONS, at),
      ...this.actorFindings(at, method),
      ...methodHookFindings(at, declaration.type, method),
    ];
    return withFindings(compiled, findings);
  }

  /** A tool that is no method; it is called on nothing. */
  compileRaw({ declaration, at, source, subRun }: RawTool): CompiledTool {
    const { id = '', input: declared, description = '', effect, canCall, preview, ...options } = declaration;
    const compensate = options.directive?.compensate;
    const own = { ...(canCall && { canCall }), ...(preview && { preview }), ...(compensate && { compensate }) };
    const reserved = withoutAllowed(this.rules.reservedArguments, options.allowReserved?.arguments);
    const input = compileRawInput({ at, reserved, input: declared }, this.validators);
    const call: ToolTemplate['call'] = (_target, built, context) => source.execute(built, context);
    const compiled = this.assemble({ at, declaredId: id, options: { ...options, description, effect }, input, call, hooks: ownHooks(own) });
    const findings = [...unknownOptions(declaration, RAW_OPTIONS, at), ...ownHookFindings(at, own)];
    const { template } = compiled;
    return withFindings(subRun && template ? { ...compiled, template: { ...template, subRun } } : compiled, findings);
  }

  private assemble(parts: ToolParts): CompiledTool {
    const { at, options, input, hooks } = parts;
    const output = this.compileOutput(at, options);
    const { returns } = output;
    const findings = [
      ...basicFindings(at, options),
      ...optionFindings(at, options),
      ...callFindings(at, options),
      ...directiveFindings(at, options.directive, { ...options, ...input, preview: hooks.preview }),
      ...toolExecutionFindings(at, options.execution),
      ...labelFindings(at, options.labels, input.input.schema),
      ...input.findings,
      ...output.findings,
      ...schemaFindings(at, input.input),
    ];
    return findings.length > 0 ? { returns, findings } : { template: toTemplate(parts, options, output), returns, findings };
  }

  private actorFindings(at: string, method: ToolMethod): Finding[] {
    const { actorClass } = this.rules;
    if (!actorClass) return [];
    const contexts = new Set(method.parameters.filter(({ kind }) => kind === 'context').map(({ index }) => index));
    const designTypes = method.designTypes.filter((_, index) => !contexts.has(index));
    const namedTypes = method.parameters.map((parameter) => (parameter.kind === 'input' ? parameter.type : undefined));
    if (![...designTypes, ...namedTypes].some((type) => isClassOrBelow(type, actorClass))) return [];
    const problem = `A parameter has the type of the actor, ${actorClass.name}; a model must never choose who acts.`;
    return [{ at, problem, remedy: 'Take the actor from the @ToolContext() parameter.' }];
  }

  private compileOutput(at: string, options: DeclaredOptions): CompiledOutput {
    const { reveal, output } = options;
    if (reveal !== undefined && output !== undefined) return nothingLeaves(saidTwice(at));
    if (isReveal(reveal))
      return { projector: compileReveal(reveal), redaction: { kind: 'reveal', fields: reveal }, returns: undefined, findings: [] };
    const returns = output === undefined ? undefined : resolveOutput(output);
    if (!returns) return nothingLeaves(noRedaction(at));
    const projector = this.projections.compile(returns);
    const { type, list, nullable } = returns;
    const findings = projector.findings.map((finding) => ({ at, ...finding }));
    return { projector, redaction: { kind: 'output', type: type.name, list, nullable }, returns, schema: projector.schema, findings };
  }
}

/** A compiled declaration; with findings there is no template. */
export interface CompiledTool {
  readonly template?: ToolTemplate;
  /** The declared result class, findings or not: what it leads to has findings of its own. */
  readonly returns: ResolvedOutput | undefined;
  readonly findings: readonly Finding[];
}

/** A tool with something wrong has no template. */
function withFindings(compiled: CompiledTool, findings: readonly Finding[]): CompiledTool {
  return findings.length > 0 ? { returns: compiled.returns, findings: [...findings, ...compiled.findings] } : compiled;
}

/** Where a method stands, for findings: class and method. */
export function placeOf({ type, method }: Pick<ToolDeclaration, 'type' | 'method'>): string {
  return `${type.name}.${method.property}`;
}

interface CompiledOutput {
  readonly projector: ResultProjector;
  readonly redaction: ToolSpec['redaction'];
  readonly returns: ResolvedOutput | undefined;
  readonly schema?: JSONSchema7;
  readonly findings: readonly Finding[];
}

/** What every declaration says, however it is written; the effect may be missing until its finding was told. */
type DeclaredOptions = Omit<LlmToolOptions, 'name' | 'effect' | 'canCall' | 'preview' | 'directive'> & {
  readonly effect?: LlmToolOptions['effect'] | undefined;
  readonly directive?: LlmToolOptions['directive'] | RawToolDeclaration['directive'];
};

interface ToolParts {
  readonly at: string;
  readonly declaredId: string;
  readonly options: DeclaredOptions;
  readonly input: CompiledInput;
  readonly call: ToolTemplate['call'];
  readonly hooks: ToolHooks;
  /** Execution options of the provider. */
  readonly inherited?: ToolExecutionOptions;
}

function toTemplate(
  { declaredId, input: { input }, call, hooks, inherited }: ToolParts,
  options: DeclaredOptions,
  output: CompiledOutput,
): ToolTemplate {
  const { effect = 'external_side_effect' } = options;
  // What a directive answers is not what the method returns.
  const outputSchema = !options.directive && output.schema && { outputSchema: output.schema };
  const semantics = { description: options.description, inputSchema: input.schema, ...outputSchema };
  const labels: ToolLabels = {
    returns: 'untrusted',
    reads: 'private',
    egress: effect === 'external_side_effect',
    ...options.labels,
  };
  const spec = Object.freeze<ToolSpec>({
    id: declaredId,
    declaredId,
    ...semantics,
    effect,
    labels,
    redaction: output.redaction,
    schemaHash: sha256(canonicalDeclaration(semantics)),
  });
  return {
    spec,
    input,
    output: output.projector,
    returns: output.returns,
    ...(options.when && { when: options.when }),
    ...callOptionsOf(options),
    ...((inherited ?? options.execution) && { execution: { ...givenOptions(inherited), ...givenOptions(options.execution) } }),
    ...(options.humanReadable && { humanReadable: options.humanReadable }),
    ...(options.allowReserved && { allowReserved: options.allowReserved }),
    ...(options.directive && { directive: compileDirective(options.directive) }),
    hooks,
    call,
  };
}

/** What holds for all calls of the tool together. */
function callOptionsOf({
  timeoutMs,
  idempotencyKey,
  idempotencyScope,
  idempotent,
  concurrency,
}: DeclaredOptions): Pick<ToolTemplate, 'timeoutMs' | 'idempotencyKey' | 'idempotencyScope' | 'idempotent' | 'concurrency'> {
  return {
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(idempotencyKey && { idempotencyKey }),
    ...(idempotencyScope && { idempotencyScope }),
    ...(idempotent && { idempotent }),
    ...(concurrency !== undefined && { concurrency }),
  };
}

function isReveal(reveal: LlmToolOptions['reveal']): reveal is 'all' | readonly string[] {
  return reveal === 'all' || Array.isArray(reveal);
}

function nothingLeaves(finding: Finding): CompiledOutput {
  return { projector: compileReveal([]), redaction: { kind: 'reveal', fields: [] }, returns: undefined, findings: [finding] };
}

/** Tools of the application's own classes. */
const DISCOVERED: ToolOrigin = { source: 'discovery', trusted: true };

/** The tool that a template makes, called on what is found for the run. */
export function boundTool(template: ToolTemplate, target: ToolTarget): Tool {
  const { call, hooks, returns: _returns, directive, ...shared } = template;
  const { canCall, preview, compensate } = hooks;
  return {
    ...shared,
    origin: DISCOVERED,
    ...(canCall && { canCall: (run) => canCall(target, run) }),
    ...(preview && { preview: (input, context) => preview(target, input, context) }),
    ...(directive && {
      directive: {
        ...directive,
        ...(compensate && { compensate: (input, performed, context) => compensate(target, input, performed, context) }),
      },
    }),
    invoke: (input, context) => {
      const found = target(context);
      return found instanceof Promise ? found.then((instance) => call(instance, input, context)) : call(found, input, context);
    },
  };
}
