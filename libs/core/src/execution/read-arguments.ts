import { Injectable } from '@nestjs/common';
import { isJsonObject, type JsonObject, type ToolCall } from '@toolloop/protocol';
import type { InputReading, Tool, ToolInputCodec } from '../contracts/tool.js';
import { canonicalJson, fromCanonical, parseJson } from '../schema/canonical-json.js';
import { reservedNamesIn } from '../schema/subset.js';
import { SchemaValidators } from '../schema/validators.js';
import { CallFailure, untilAborted } from './call-failure.js';
import { type CallProgress, limitsOf } from './call.js';

/** Arguments that passed every check. */
export interface ReadArguments {
  /** Canonical JSON, optional nulls left out and defaults filled in: what is hashed, approved and stored. */
  readonly canonical: string;
  readonly args: JsonObject;
  /** What the tool's method receives, built from the canonical JSON. */
  readonly built: unknown;
}

/** Stages 2 and 3: size, JSON, reserved names, optional nulls, schema, DTO. Nothing is repaired. */
@Injectable()
export class ArgumentReader {
  constructor(private readonly validators: SchemaValidators) {}

  /** Throws `invalid_json`, `tenant_override` or `invalid_args`. */
  async read(tool: Tool, progress: CallProgress): Promise<ReadArguments> {
    const { request, scope, options } = progress;
    const sent = parseArguments(request.call, limitsOf(progress).argumentBytes);
    if (isTooDeep(sent)) throw CallFailure.of('invalid_args', 'The arguments are nested too deeply; send flatter ones.');
    const reserved = reservedNamesIn(sent, tool.input.reserved);
    if (reserved !== undefined)
      throw CallFailure.of(
        'tenant_override',
        `The argument at "${reserved}" is set by the application and never by a caller. Leave it out.`,
      );
    const args = tool.input.normalize(sent);
    const problems = this.validators.validate(tool.input.schema, args); // which fills in the defaults
    if (options.validation && problems.length > 0) throw CallFailure.of('invalid_args', 'The arguments do not fit the schema.', problems);
    const canonical = canonicalOf(args);
    const pending = readInput(tool.input, fromCanonical(canonical), options); // of a copy: what a tool does to its input changes no record
    const reading = pending instanceof Promise ? await untilAborted(pending, scope.signal) : pending;
    if ('problems' in reading) throw CallFailure.of('invalid_args', 'The arguments are not valid.', reading.problems);
    return { canonical, args, built: reading.value };
  }
}

/** What the method receives; unchecked where the tool checks for itself. */
export function readInput(
  input: ToolInputCodec,
  args: JsonObject,
  { validation }: CallProgress['options'],
): InputReading | Promise<InputReading> {
  return validation || !input.build ? input.read(args) : { value: input.build(args) };
}

function parseArguments({ arguments: text }: ToolCall, mostBytes: number): JsonObject {
  const bytes = Buffer.byteLength(text);
  if (bytes > mostBytes)
    throw CallFailure.of('invalid_args', `The arguments have ${bytes} bytes; at most ${mostBytes} are taken. Send less at a time.`);
  const value = parseJson(text);
  if (value === undefined) throw CallFailure.of('invalid_json', 'The arguments are not JSON. Send one JSON object.');
  if (value === null) return {};
  if (isJsonObject(value)) return value;
  throw CallFailure.of(
    'invalid_args',
    `The arguments must be one JSON object, not ${Array.isArray(value) ? 'a list' : `a ${typeof value}`}.`,
  );
}

/** Deeper than any arguments worth sending, and far from the end of the stack for all who walk through them later. */
const MOST_LEVELS = 64;

function isTooDeep(args: JsonObject): boolean {
  let level: readonly unknown[] = [args];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MOST_LEVELS) return true;
    level = level.flatMap(childrenOf);
  }
  return false;
}

function childrenOf(value: unknown): unknown[] {
  return typeof value === 'object' && value !== null ? Object.values(value) : [];
}

/** `1e999` is JSON, and read as infinity it is none any more. */
function canonicalOf(args: JsonObject): string {
  try {
    return canonicalJson(args);
  } catch {
    throw CallFailure.of('invalid_args', 'The arguments hold a number that is too large.');
  }
}
