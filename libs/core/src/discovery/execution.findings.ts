import type { ExecutionOptions, ToolExecutionOptions } from '../protocol/execution-options.js';
import type { Finding } from '../protocol/errors.js';
import type { ToolEffect } from '../protocol/tool.js';
import { BOOLEAN, NOT_NEGATIVE, oneOf, type OptionValue } from '../findings/option-values.js';
import { nearestName } from '../findings/nearest-name.js';

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
  return optionFindings(at, options, new Map(Object.entries(TOOL_OPTIONS)));
}

/** What is wrong with the execution options of the application or of a run: they cannot say that a tool manages itself. */
export function executionFindings(at: string, options: Partial<ExecutionOptions> | undefined): Finding[] {
  return optionFindings(at, options, new Map(Object.entries(OPTIONS)));
}

function optionFindings(at: string, options: object = {}, known: ReadonlyMap<string, OptionValue>): Finding[] {
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
