import { type Finding, TOOL_EFFECTS, type ToolEffect, type ToolLabels } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ExecutionOptions, ToolExecutionOptions } from '../contracts/tool-call.js';
import type { ToolInputCodec } from '../contracts/tool.js';
import type { LlmToolOptions } from '../decorators/llm-tool.decorator.js';
import type { RawToolDeclaration } from '../decorators/raw-tool.js';
import type { ToolProviderOptions } from '../decorators/tool-provider.decorator.js';
import { BOOLEAN, nearestName, NOT_NEGATIVE, oneOf, type OptionNames, type OptionValue, unknownOptions } from '../findings/options.js';
import { subsetProblems } from '../schema/subset.js';

/** What every tool says of itself, whoever declares it. */
export function basicFindings(
  at: string,
  options: { readonly effect?: LlmToolOptions['effect'] | undefined; readonly description?: string },
): Finding[] {
  const findings: Finding[] = [];
  if (!options.description?.trim())
    findings.push({ at, problem: 'The tool has no description.', remedy: 'Say in @LlmTool({ description }) what it does.' });
  if (!TOOL_EFFECTS.some((effect) => effect === options.effect))
    findings.push({
      at,
      problem: options.effect === undefined ? 'The tool declares no effect.' : `"${options.effect}" is not an effect.`,
      remedy: `Add @LlmTool({ effect }): one of ${TOOL_EFFECTS.join(', ')}.`,
    });
  return findings;
}

export function optionFindings(
  at: string,
  { timeoutMs = 1, allowReserved }: Pick<LlmToolOptions, 'timeoutMs' | 'allowReserved'>,
): Finding[] {
  const findings: Finding[] = [];
  if (!(timeoutMs > 0))
    findings.push({ at, problem: `Its timeoutMs is ${timeoutMs}.`, remedy: 'Give milliseconds, more than 0, or leave it out.' });
  if (allowReserved && !allowReserved.reason.trim())
    findings.push({
      at,
      problem: 'It allows reserved arguments, but gives no reason.',
      remedy: 'Say why in @LlmTool({ allowReserved: { arguments, reason } }): the reason is kept for later reviews.',
    });
  return findings;
}

export function schemaFindings(at: string, input: ToolInputCodec): Finding[] {
  return subsetProblems(input.schema).map(({ pointer, problem }) => ({
    at,
    problem: `The input schema leaves the supported subset at "${pointer}": ${problem}`,
    remedy: 'Use types, enums, bounds, patterns, formats, nested objects and arrays only.',
  }));
}

export function parametersWithoutTool(at: string): Finding {
  return {
    at,
    problem: 'Its parameters are decorated, but the method is not.',
    remedy: 'Add @LlmTool({ description, effect, output }) to the method.',
  };
}

export function saidTwice(at: string): Finding {
  return {
    at,
    problem: 'The tool says twice which data may leave it.',
    remedy: 'Keep `output` for classes, or `reveal` for everything else.',
  };
}

export function noRedaction(at: string): Finding {
  const remedy =
    'Add @LlmTool({ output: SomeClass }) whose @Expose() properties may be shown, or reveal: "all" | [fields]; reveal: [] for void.';
  return { at, problem: 'The tool does not say which data may leave it.', remedy };
}

/** What a tool says of all its calls together. */
interface CallOptions {
  readonly concurrency?: number;
  readonly idempotencyKey?: unknown;
  readonly idempotencyScope?: unknown;
  readonly idempotent?: unknown;
  readonly effect?: ToolEffect | undefined;
}

const OPTIONS: Readonly<Record<keyof ExecutionOptions, OptionValue>> = {
  validation: BOOLEAN,
  logging: BOOLEAN,
  logArguments: BOOLEAN,
  truncateLogs: NOT_NEGATIVE,
  metadata: oneOf('none', 'inline'),
  resultFormat: oneOf('value', 'envelope'),
  availableOperations: BOOLEAN,
};
const TOOL_OPTIONS: Readonly<Record<keyof ToolExecutionOptions, OptionValue>> = { ...OPTIONS, selfManaged: BOOLEAN };

/** What is wrong with how often, and how many at once, a tool may be called. */
export function callFindings(at: string, options: CallOptions): Finding[] {
  const { concurrency = 1 } = options;
  const findings: Finding[] = [];
  if (!Number.isSafeInteger(concurrency) || concurrency < 1)
    findings.push({ at, problem: `Its concurrency is ${concurrency}.`, remedy: 'Give a whole number, 1 or more, or leave it out.' });
  return [...findings, ...repeatFindings(at, options), ...scopeFindings(at, options)];
}

/** A read may always be made again. */
function repeatFindings(at: string, { idempotencyKey, idempotent = false, effect }: CallOptions): Finding[] {
  const findings: Finding[] = [];
  if (idempotencyKey !== undefined && typeof idempotencyKey !== 'function')
    findings.push({ at, problem: 'Its idempotencyKey is not a function.', remedy: 'Give (input, context) => text, or leave it out.' });
  if (idempotencyKey !== undefined && effect === 'read_only')
    findings.push({ at, problem: 'It only reads and has an idempotencyKey, which is never used.', remedy: 'Leave it out.' });
  if (typeof idempotent !== 'boolean')
    findings.push({ at, problem: 'Its idempotent is neither true nor false.', remedy: 'Say true, or leave it out.' });
  if (idempotent === true && effect === 'read_only')
    findings.push({ at, problem: 'It only reads and says that it is idempotent, which is never used.', remedy: 'Leave it out.' });
  return findings;
}

function scopeFindings(at: string, { idempotencyKey, idempotencyScope }: CallOptions): Finding[] {
  if (idempotencyScope === undefined) return [];
  if (idempotencyScope !== 'actor' && idempotencyScope !== 'tenant')
    return [{ at, problem: 'Its idempotencyScope does not exist.', remedy: "Say 'actor' or 'tenant', or leave it out." }];
  if (idempotencyKey !== undefined) return [];
  return [{ at, problem: 'It has an idempotencyScope, but no idempotencyKey.', remedy: 'Give an idempotencyKey, or leave it out.' }];
}

/** What is wrong with the execution options of a tool or a provider. */
export function toolExecutionFindings(at: string, options: ToolExecutionOptions | undefined): Finding[] {
  return knownOptionFindings(at, options, new Map(Object.entries(TOOL_OPTIONS)));
}

/** What is wrong with the execution options of the application or of a run: they cannot say that a tool manages itself. */
export function executionFindings(at: string, options: Partial<ExecutionOptions> | undefined): Finding[] {
  return knownOptionFindings(at, options, new Map(Object.entries(OPTIONS)));
}

function knownOptionFindings(at: string, options: object = {}, known: ReadonlyMap<string, OptionValue>): Finding[] {
  return Object.entries(options).flatMap(([name, value]: [string, unknown]) => {
    const values = known.get(name);
    if (!values) return [unknownOption(at, name, [...known.keys()])];
    if (value === undefined || values.accept(value)) return [];
    return [{ at, problem: `The execution option "${name}" is ${JSON.stringify(value)}.`, remedy: `Give ${values.wanted}.` }];
  });
}

function unknownOption(at: string, name: string, known: readonly string[]): Finding {
  const problem = `There is no execution option "${name}" here.`;
  if (name in TOOL_OPTIONS) return { at, problem, remedy: 'Say it where the tool is declared: on the tool or its provider.' };
  return { at, problem, remedy: nearestName(name, known) };
}

/** The values each label takes. */
const VALUES = {
  returns: ['trusted', 'untrusted'],
  reads: ['public', 'private'],
  egress: [true, false],
} as const satisfies { readonly [Label in 'returns' | 'reads' | 'egress']: readonly ToolLabels[Label][] };
const LABELS: OptionNames<ToolLabels> = { returns: true, reads: true, egress: true, accepts: true, decisive: true };
const ACCEPTED: OptionNames<NonNullable<ToolLabels['accepts']>> = { untrusted: true, private: true };

/** What is wrong with a tool's labels. A slip in one of them would widen or narrow what policy lets through, and nobody would notice. */
export function labelFindings(at: string, labels: Partial<ToolLabels> = {}, inputSchema: JSONSchema7 = {}): Finding[] {
  return [
    ...unknownOptions(labels, LABELS, at, 'label'),
    ...Object.entries(VALUES).flatMap(([label, values]) => valueFindings(at, label, Reflect.get(labels, label), values)),
    ...acceptsFindings(at, labels.accepts),
    ...decisiveFindings(at, labels.decisive, Object.keys(inputSchema.properties ?? {})),
  ];
}

function acceptsFindings(at: string, accepts: unknown = {}): Finding[] {
  if (typeof accepts !== 'object' || accepts === null)
    return [{ at, problem: 'Its label "accepts" is not an object.', remedy: 'Give { untrusted: true }, { private: true } or both.' }];
  return [
    ...unknownOptions(accepts, ACCEPTED, at, 'label accepts'),
    ...Object.keys(ACCEPTED).flatMap((name) => valueFindings(at, `accepts.${name}`, Reflect.get(accepts, name), VALUES.egress)),
  ];
}

/** An argument that no call has decides nothing, and a call would be traced by the others alone. */
function decisiveFindings(at: string, decisive: unknown, known: readonly string[]): Finding[] {
  if (decisive === undefined) return [];
  const names: readonly unknown[] | undefined = Array.isArray(decisive) ? decisive : undefined;
  if (!names) return [{ at, problem: 'Its label "decisive" is not a list.', remedy: 'List the names of arguments.' }];
  return names
    .map(String)
    .filter((name) => !known.includes(name))
    .map((name) => ({
      at,
      problem: `Its label "decisive" names "${name}", and the tool has no such argument.`,
      remedy: nearestName(name, known),
    }));
}

function valueFindings(at: string, label: string, value: unknown, values: readonly unknown[]): Finding[] {
  if (value === undefined || values.includes(value)) return [];
  const problem = `Its label "${label}" is ${JSON.stringify(value)}.`;
  return [{ at, problem, remedy: `Give ${values.map((one) => JSON.stringify(one)).join(' or ')}.` }];
}

/** What `@ToolProvider()` takes. */
export const PROVIDER_OPTIONS: OptionNames<ToolProviderOptions> = {
  namespace: true,
  prefix: true,
  instanceIdProperty: true,
  rehydrate: true,
  tenantProperty: true,
  execution: true,
};

/** What `@LlmTool()` takes. */
export const METHOD_OPTIONS: OptionNames<LlmToolOptions> = {
  description: true,
  effect: true,
  name: true,
  labels: true,
  when: true,
  timeoutMs: true,
  idempotencyKey: true,
  idempotencyScope: true,
  idempotent: true,
  directive: true,
  concurrency: true,
  execution: true,
  humanReadable: true,
  allowReserved: true,
  canCall: true,
  preview: true,
  output: true,
  reveal: true,
};

const { name: _ofMethods, ...SHARED } = METHOD_OPTIONS;

/** What `tool()` and `rawTool()` take. */
export const RAW_OPTIONS: OptionNames<RawToolDeclaration> & { readonly execute: true } = {
  ...SHARED,
  id: true,
  input: true,
  execute: true,
};
