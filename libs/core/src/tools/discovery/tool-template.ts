import type { Type } from '@nestjs/common';
import {
  type Finding,
  isRecord,
  type ToolLabels,
  type ToolOrigin,
  type ToolSpec,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import {
  TOOL_EXECUTION_OPTIONS,
  type ToolExecutionOptions,
} from '../../contracts/execution-options.js';
import { type ToolCallContext } from '../../contracts/tool-call.js';
import {
  type ClientSide,
  type Tool,
  type ToolInputCodec,
  type ToolInstructions,
} from '../../contracts/tool.js';
import {
  type InterceptorOptions,
  TOOL_SETTINGS,
  type ToolSettings,
} from '../../contracts/tool-settings.js';
import { type ResultProjector } from '../../contracts/result-projector.js';
import { LLM_TOOL, type LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import { type ClientDeclaration } from '../decorators/client-tool.js';
import { RAW_TOOL, type RawTool, type RawToolDeclaration } from '../decorators/raw-tool.js';
import { providerOptionsOf, type ToolMethod } from '../decorators/tool-metadata.js';
import { type ResolvedOutput, resolveOutput } from '../decorators/resolved-output.js';
import { TOOL_PROVIDER } from '../decorators/tool-provider.decorator.js';
import { nearestName } from '../../findings/nearest-name.js';
import { canonicalDeclaration, sha256 } from '../../schema/canonical-json.js';
import { compileRawInput } from '../../schema/raw-input.js';
import { isStandardSchema } from '../../schema/standard-schema.js';
import { resultSchemaFindings } from '../../schema/origin-findings.js';
import type { ProjectionCompiler } from '../../schema/result-projection.js';
import { compileReveal } from '../../schema/reveal.js';
import { backtrackingIn, declaredFindings, patternFindings } from '../../schema/subset.js';
import { argumentsOf, callMethod } from '../../schema/call-arguments.js';
import { type CompiledInput, compileToolInput, withoutAllowed } from '../../schema/tool-input.js';
import type { SchemaValidators } from '../../schema/validators.js';
import {
  compileDirective,
  directiveFindings,
} from '../../plugins/directives/directive-compiler.js';
import { isClassOrBelow } from '../nest/provider-classes.js';
import type { RouteIdentity } from '../nest/route-layers.js';
import { askFindings, codeOfMethod, codeOfRaw } from './asking-code.js';
import {
  methodHookFindings,
  methodHooks,
  ownHooks,
  type ToolHooks,
  type ToolTarget,
} from './tool-hooks.js';

/**
 * The properties that all tools of one (class, method) share; compiled once, whatever the number of
 * instances.
 */
export interface ToolTemplate extends ToolSettings {
  /** The spec under its declared id. */
  readonly spec: ToolSpec;
  readonly input: ToolInputCodec;
  readonly output: ResultProjector;
  /** The declared result class, whose exposed fields may lead to entities. */
  readonly returns: ResolvedOutput | undefined;
  readonly layers?: NonNullable<Tool['layers']>;
  readonly directive?: NonNullable<Tool['directive']>;
  readonly subRun?: NonNullable<Tool['subRun']>;
  readonly client?: NonNullable<Tool['client']>;
  readonly instructions?: ToolInstructions;
  readonly hooks: ToolHooks;
  readonly call: (target: object, input: unknown, context: ToolCallContext) => unknown;
}

/** A decorated method on its way to a template. */
export interface ToolDeclaration {
  readonly type: Type;
  readonly method: ToolMethod;
  readonly declaredId: string;
  /** Set for the handler of a route: its input, and the way to call it. */
  readonly route?: { readonly input: CompiledInput; readonly call: ToolTemplate['call'] };
}

/** The code of a raw tool. */
export type RawCall = (input: unknown, context: ToolCallContext) => unknown;

/** The rules of an application for all tools. */
export interface DeclarationRules {
  readonly reservedArguments: readonly string[];
  /** A parameter typed so is refused: the model never chooses who acts. */
  readonly actorClass?: Type;
  /** The identity with which routes are called. */
  readonly identity?: RouteIdentity;
  /** The interceptors that no tool has. */
  readonly interceptors?: InterceptorOptions;
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
    if (!options) return { returns: undefined, findings: [{ at, ...WITHOUT_DECORATOR }] };
    const { input, call } = declaration.route ?? {
      input: compileToolInput({ at, method, reserved: this.rules.reservedArguments }),
      call: (target, built, context) =>
        callMethod(target, method.property, argumentsOf(method, built, context)),
    };
    const { execution: inherited, ...provider } = providerOptionsOf(declaration.type) ?? {};
    const { instructions: text } = TOOL_PROVIDER.sound(provider);
    const sound = LLM_TOOL.sound(options);
    const compiled = this.assemble({
      at,
      declaredId,
      options: sound,
      input,
      call,
      hooks: methodHooks(method),
      inherited,
    });
    const findings = [
      ...LLM_TOOL.findings(options, at),
      ...this.actorFindings(at, method),
      ...methodHookFindings(at, declaration.type, method),
      ...askFindings(at, sound.effect, codeOfMethod(declaration.type, method)),
      ...compiled.findings,
    ];
    const instructions = text !== undefined && { instructions: instructionsOf(declaredId, text) };
    return { ...compiled, template: { ...compiled.template, ...instructions }, findings };
  }

  /** A tool that is no method; it is called on nothing. */
  compileRaw(raw: RawTool, execute: RawCall): CompiledTool {
    const { declaration, at, subRun, client } = raw;
    const {
      id = '',
      input: declared,
      canCall,
      preflight,
      preview,
      ...options
    } = RAW_TOOL.sound(declaration);
    const hooks = ownHooks({
      canCall,
      preflight,
      preview,
      compensate: options.directive?.compensate,
    });
    const reserved = withoutAllowed(this.rules.reservedArguments, options.allowReserved?.arguments);
    const input = compileRawInput({ at, reserved, input: declared }, this.validators);
    const call: ToolTemplate['call'] = (_target, built, context) => execute(built, context);
    const { template, ...compiled } = this.assemble({
      at,
      declaredId: id,
      options,
      input,
      call,
      hooks,
    });
    const side =
      client && compileClientSide(at, client, this.validators, options.patterns !== undefined);
    const findings = [
      ...RAW_TOOL.findings(declaration, at),
      ...askFindings(at, options.effect, codeOfRaw(raw)),
      ...compiled.findings,
      ...(side?.findings ?? []),
    ];
    return {
      ...compiled,
      template: { ...template, ...(subRun && { subRun }), ...(side && { client: side.client }) },
      findings,
    };
  }

  private assemble(parts: ToolParts): CompiledTool & { readonly template: ToolTemplate } {
    const { at, options, input, hooks } = parts;
    const output = this.compileOutput(at, options);
    const { returns } = output;
    const { schema } = input.input;
    const backtracking = input.backtracking ?? backtrackingIn(at, schema);
    // those that may not are findings
    if (backtracking.length > 0) this.validators.letBacktrack(schema);
    // which compiles it for the first time
    const unfit = declaredFindings(at, schema, this.validators, true);
    const findings = [
      ...directiveFindings(at, options.directive, {
        ...options,
        ...input,
        preview: hooks.preview,
        isOfEntity: isEntityTool(parts),
      }),
      ...decisiveFindings(at, options.labels, schema),
      ...(options.unlisted === true && isEntityTool(parts) ? [{ at, ...COMES_WITH_RESULT }] : []),
      ...input.findings,
      ...output.findings,
      ...unfit,
      ...patternFindings(backtracking, options.patterns !== undefined),
    ];
    return { template: toTemplate(parts, options, output), returns, findings };
  }

  private actorFindings(at: string, method: ToolMethod): Finding[] {
    const { actorClass } = this.rules;
    if (!actorClass) return [];
    const contexts = new Set(
      method.parameters.filter(({ kind }) => kind === 'context').map(({ index }) => index),
    );
    const designTypes = method.designTypes.filter((_, index) => !contexts.has(index));
    const namedTypes = method.parameters.map((parameter) =>
      parameter.kind === 'input' ? parameter.type : undefined,
    );
    if (![...designTypes, ...namedTypes].some((type) => isClassOrBelow(type, actorClass)))
      return [];
    const problem = `A parameter has the type of the actor, ${actorClass.name}; a model must never choose who acts.`;
    return [{ at, problem, remedy: 'Take the actor from the @ToolContext() parameter.' }];
  }

  private compileOutput(at: string, options: DeclaredOptions): CompiledOutput {
    const { reveal, output, outputSchema: schema } = options;
    if ((reveal !== undefined || schema !== undefined) && output !== undefined)
      return nothingLeaves({ at, ...SAID_TWICE });
    if (isReveal(reveal)) {
      const findings = schema ? resultSchemaFindings(at, schema, this.validators) : [];
      const declared = schema && findings.length === 0 && { schema };
      return {
        projector: compileReveal(reveal),
        redaction: { kind: 'reveal', fields: reveal },
        returns: undefined,
        ...declared,
        findings,
      };
    }
    const returns = output === undefined ? undefined : resolveOutput(output);
    if (!returns) return nothingLeaves({ at, ...wrongRedaction(output) });
    const projector = this.projections.compile(returns);
    const { type, list, nullable } = returns;
    const findings = projector.findings.map((finding) => ({ at, ...finding }));
    return {
      projector,
      redaction: { kind: 'output', type: type.name, list, nullable },
      returns,
      schema: projector.schema,
      findings,
    };
  }
}

/**
 * A compiled declaration. With findings it has a template all the same, which is never called: what
 * names the tool, such as a policy, can then be checked, and its own findings are told at once.
 */
export interface CompiledTool {
  /** Absent where a method has no `@LlmTool()`. */
  readonly template?: ToolTemplate;
  /** The declared result class: what it leads to has findings of its own. */
  readonly returns: ResolvedOutput | undefined;
  readonly findings: readonly Finding[];
}

/** Returns the place of a method, for findings: class and method. */
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

/** The options of every declaration, as far as they are sound. */
type DeclaredOptions = Partial<
  Omit<LlmToolOptions, 'name' | 'canCall' | 'preview' | 'directive'>
> & {
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
  readonly inherited?: ToolExecutionOptions | undefined;
}

function toTemplate(
  { declaredId, input: { input }, call, hooks, inherited }: ToolParts,
  options: DeclaredOptions,
  output: CompiledOutput,
): ToolTemplate {
  const { description = '', effect = 'external_side_effect', execution = {}, directive } = options;
  // What a directive answers is not what the method returns.
  const outputSchema = !directive && output.schema && { outputSchema: output.schema };
  const semantics = { description, inputSchema: input.schema, ...outputSchema };
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
    ...TOOL_SETTINGS.copy(options),
    ...((inherited ?? options.execution) && {
      execution: TOOL_EXECUTION_OPTIONS.merge(inherited ?? {}, execution),
    }),
    ...(directive && { directive: compileDirective(directive) }),
    hooks,
    call,
  };
}

/** A compiled input, of which the schema alone is needed. */
type PlainInput = Omit<CompiledInput, 'input'> & { readonly input: Pick<ToolInputCodec, 'schema'> };

/** Compiles the part of a tool that the client does: the schema of its result. */
function compileClientSide(
  at: string,
  { output, expiresAfterMs }: ClientDeclaration,
  validators: SchemaValidators,
  mayBacktrack: boolean,
): { readonly client: ClientSide; readonly findings: readonly Finding[] } {
  const remedy = 'Give whole milliseconds above 0, or leave it out for ten minutes.';
  const isWrong = !Number.isSafeInteger(expiresAfterMs) || expiresAfterMs < 1;
  const timing = isWrong ? [{ at, problem: 'Its expiresAfterMs is no time.', remedy }] : [];
  if (output === undefined) return { client: { expiresAfterMs }, findings: timing };
  // A schema of anything but an object is taken as it is.
  const isPlain = isRecord(output) && output['type'] !== 'object' && !isStandardSchema(output);
  const { input, findings, backtracking }: PlainInput = isPlain
    ? { input: { schema: output }, findings: [] }
    : compileRawInput({ at, reserved: [], input: output }, validators);
  const patterns = patternFindings(backtracking ?? backtrackingIn(at, input.schema), mayBacktrack);
  validators.letBacktrack(input.schema);
  const broken = validators.problemWith(input.schema);
  const unusable =
    broken === undefined
      ? []
      : [
          {
            at,
            problem: `Its output cannot be checked: ${broken}.`,
            remedy: 'Correct the schema.',
          },
        ];
  return {
    client: { resultSchema: input.schema, expiresAfterMs },
    findings: [...timing, ...findings, ...patterns, ...unusable],
  };
}

function isEntityTool({ declaredId }: Pick<ToolParts, 'declaredId'>): boolean {
  return declaredId.includes('_*_');
}

/** Makes the instructions of a class for one of its tools; the same for all of them. */
function instructionsOf(declaredId: string, text: string): ToolInstructions {
  const [tools = ''] = declaredId.split(/__|_\*_/, 1);
  return { id: sha256(canonicalDeclaration({ tools, text })).slice(0, 16), tools, text };
}

function isReveal(reveal: LlmToolOptions['reveal']): reveal is 'all' | readonly string[] {
  return (
    reveal === 'all' ||
    (Array.isArray(reveal) && reveal.every((field) => typeof field === 'string'))
  );
}

function nothingLeaves(finding: Finding): CompiledOutput {
  return {
    projector: compileReveal([]),
    redaction: { kind: 'reveal', fields: [] },
    returns: undefined,
    findings: [finding],
  };
}

/** Tools of the application's own classes. */
const DISCOVERED: ToolOrigin = { source: 'discovery', trusted: true };

/** The tool that a template makes, called on what is found for the run. */
export function boundTool(template: ToolTemplate, target: ToolTarget): Tool {
  const { call, hooks, returns: _returns, directive, ...shared } = template;
  const { canCall, preflight, preview, compensate } = hooks;
  return {
    ...shared,
    origin: DISCOVERED,
    ...(canCall && { canCall: (run) => canCall(target, run) }),
    ...(preflight && { preflight: (input, context) => preflight(target, input, context) }),
    ...(preview && { preview: (input, context) => preview(target, input, context) }),
    ...(directive && {
      directive: {
        ...directive,
        ...(compensate && {
          compensate: (input, performed, context) => compensate(target, input, performed, context),
        }),
      },
    }),
    invoke: (input, context) => {
      const found = target(context);
      return found instanceof Promise
        ? found.then((instance) => call(instance, input, context))
        : call(found, input, context);
    },
  };
}

const WITHOUT_DECORATOR = {
  problem: 'Its parameters are decorated, but the method is not.',
  remedy: 'Add @LlmTool({ description, effect, output }) to the method.',
};
const COMES_WITH_RESULT = {
  problem:
    'It is unlisted and a tool of an entity, and such tools come with the result that has the entity.',
  remedy: 'Leave `unlisted` out, or write it as a method of a provider.',
};
const SAID_TWICE = {
  problem: 'The tool says twice which data may leave it.',
  remedy: 'Keep `output` for classes, or `reveal`, with `outputSchema`, for everything else.',
};
const NO_REDACTION = {
  problem: 'The tool does not say which data may leave it.',
  remedy:
    'Add @LlmTool({ output: SomeClass }) whose @Expose() properties may be shown, or reveal: "all" | [fields]; reveal: [] for void.',
};

const wrongRedaction = (output: unknown): Omit<Finding, 'at'> =>
  output === undefined ? NO_REDACTION : NO_OUTPUT;
const NO_OUTPUT = {
  problem: 'Its `output` is neither a class nor a list of one class.',
  remedy:
    'Give SomeClass, [SomeClass], or { type: SomeClass, nullable: true }, and nothing beside it.',
};

/** An argument that no call has decides nothing, and the others alone would decide. */
export function decisiveFindings(
  at: string,
  { decisive }: Partial<ToolLabels> = {},
  inputSchema: JSONSchema7 = {},
): Finding[] {
  const known = Object.keys(inputSchema.properties ?? {});
  const names: readonly unknown[] = Array.isArray(decisive) ? decisive : [];
  return names
    .filter((name) => typeof name === 'string')
    .filter((name) => !known.includes(name))
    .map((name) => ({
      at,
      problem: `Its label "decisive" names "${name}", and the tool has no such argument.`,
      remedy: nearestName(name, known),
    }));
}
