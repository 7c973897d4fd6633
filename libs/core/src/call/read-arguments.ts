import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import { isJsonObject, type JsonObject, ToolError } from '@toolloop/protocol';
import type { InputReading, Tool, ToolInputCodec } from '../contracts/tool.js';
import { canonicalJson, fromCanonical, parseJson } from '../schema/canonical-json.js';
import { reservedNamesIn } from '../schema/reserved-names.js';
import type { SchemaValidators } from '../schema/validators.js';
import { CallFailure } from './call-failure.js';
import { Interruption, inTime } from '../contracts/interruption.js';
import { meaningOf } from './argument-meaning.js';
import type { Call, ReadArguments, ResolvedCall } from './call.js';
import {
  type ExpandedArguments,
  type RunValues,
  UnknownReferenceError,
} from '../plugins/values/value-references.js';
import { VALUE_TOOL_IDS } from '../plugins/values/value-tools.js';

/**
 * Stages 2 and 3: size, JSON, reserved names, optional nulls, schema, DTO. Nothing is repaired.
 *
 * @throws {CallFailure} `invalid_json`, `tenant_override` or `invalid_args`.
 */
export async function readArguments(
  validators: SchemaValidators,
  call: ResolvedCall,
  text: string,
): Promise<ReadArguments> {
  const { options, limits, tool } = call;
  const sent = parseArguments(text, limits.argumentBytes);
  assertBounded(sent);
  assertNotReserved(sent, tool);
  const { scope, request } = call;
  const isLiteral = request.outside !== undefined || !scope.values;
  const { args: expanded = sent, outside }: TakenArguments = isLiteral
    ? request
    : withValues(sent, call, scope.values);
  const args = tool.input.normalize(expanded);
  const problems = validators.validate(tool.input.schema, args); // which fills in the defaults
  if (options.validation && problems.length > 0)
    throw CallFailure.of('invalid_args', 'The arguments do not fit the schema.', problems);
  const canonical = canonicalJson(args);
  // what a tool does to its input changes no record
  const built = await build(call, fromCanonical(canonical));
  const read = { canonical, args, built, ...(outside && { outside }) };
  const meaning = tool.spec.effect === 'read_only' ? undefined : meaningOf(read);
  return meaning === undefined || meaning === canonical ? read : { ...read, meaning };
}

/** Arguments with texts in the place of references; without references those that were sent. */
interface TakenArguments {
  readonly args?: JsonObject;
  readonly outside?: ReadArguments['outside'] | undefined;
}

function assertNotReserved(args: JsonObject, { input }: Tool): void {
  const reserved = reservedNamesIn(args, input.reserved);
  if (reserved === undefined) return;
  throw CallFailure.of(
    'tenant_override',
    `The argument at "${reserved}" is set by the application and never by a caller. Leave it out.`,
  );
}

/** A sub-run works with the same references; every other tool receives the values. */
function withValues(
  args: JsonObject,
  { tool }: ResolvedCall,
  values: RunValues,
): ExpandedArguments {
  if (tool.subRun || VALUE_TOOL_IDS.has(tool.spec.declaredId)) return { args, outside: [] };
  try {
    return values.expand(args);
  } catch (error) {
    if (error instanceof UnknownReferenceError) throw CallFailure.of('invalid_args', error.message);
    throw error;
  }
}

async function build({ tool, options, scope }: ResolvedCall, copy: JsonObject): Promise<unknown> {
  let reading: InputReading;
  try {
    reading = await inTime(readInput(tool.input, copy, options), scope.signal);
  } catch (error) {
    return unreadable(error);
  }
  if ('value' in reading) return reading.value;
  throw CallFailure.of('invalid_args', 'The arguments are not valid.', reading.problems);
}

/**
 * Fails a call for what a transform, a setter or a validator threw at its arguments: values that
 * they were not made for. What it threw on purpose stands.
 */
function unreadable(cause: unknown): never {
  if ([CallFailure, Interruption, ToolError, HttpException].some((type) => cause instanceof type))
    throw cause;
  const safeMessage =
    'The arguments cannot be read. Send values of the kind that their descriptions ask for.';
  throw new CallFailure(
    { code: 'invalid_args', safeMessage, correlationId: randomUUID() },
    { cause },
  );
}

/** Builds the input of the method; unchecked where the tool checks for itself. */
export function readInput(
  input: ToolInputCodec,
  args: JsonObject,
  { validation }: Call['options'],
): InputReading | Promise<InputReading> {
  return validation || !input.build ? input.read(args) : { value: input.build(args) };
}

function parseArguments(text: string, mostBytes: number): JsonObject {
  const bytes = Buffer.byteLength(text);
  if (bytes > mostBytes)
    throw CallFailure.of(
      'invalid_args',
      `The arguments have ${bytes} bytes; at most ${mostBytes} are taken. Send less at a time.`,
    );
  const value = parseJson(text);
  if (value === undefined)
    throw CallFailure.of('invalid_json', 'The arguments are not JSON. Send one JSON object.');
  if (value === null) return {};
  if (isJsonObject(value)) return value;
  throw CallFailure.of(
    'invalid_args',
    `The arguments must be one JSON object, not ${Array.isArray(value) ? 'a list' : `a ${typeof value}`}.`,
  );
}

/**
 * Deeper than any arguments worth sending, and far from the end of the stack for all who walk
 * through them later.
 */
const MOST_LEVELS = 64;

/** `1e999` is JSON, and read as infinity it is none any more. */
function assertBounded(args: JsonObject): void {
  let level: readonly unknown[] = [args];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MOST_LEVELS)
      throw CallFailure.of(
        'invalid_args',
        'The arguments are nested too deeply; send flatter ones.',
      );
    if (level.some((value) => value === Infinity || value === -Infinity))
      throw CallFailure.of('invalid_args', 'The arguments hold a number that is too large.');
    level = level.flatMap(childrenOf);
  }
}

const childrenOf = (value: unknown): unknown[] =>
  typeof value === 'object' && value !== null ? Object.values(value) : [];
