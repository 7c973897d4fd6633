import { Injectable } from '@nestjs/common';
import type { JsonObject, JsonValue } from '../protocol/json.js';
import type { Limits } from '../protocol/limits.js';
import type { ToolCall } from '../protocol/message.js';
import type { Tool } from '../protocol/tool.js';
import { canonicalJson } from '../schema/canonical-json.js';
import { SchemaValidators } from '../schema/schema.validators.js';
import { reservedNamesIn } from '../schema/schema.subset.js';
import { CallFailure } from './call.failure.js';
import { parseJson } from './from-arguments.js';

/** Arguments that passed every check. */
export interface ReadArguments {
  /** Canonical JSON, defaults filled in: what is hashed, approved and stored. */
  readonly canonical: string;
  readonly args: JsonObject;
  /** What the tool's method receives, built from the canonical JSON. */
  readonly built: unknown;
}

/** Stages 2 and 3: size, JSON, reserved names, schema, DTO. Nothing is repaired. */
@Injectable()
export class ArgumentReader {
  constructor(private readonly validators: SchemaValidators) {}

  /** Throws `invalid_json`, `tenant_override` or `invalid_args`. */
  async read(tool: Tool, call: ToolCall, limits: Limits): Promise<ReadArguments> {
    const args = parseArguments(call, limits.argumentBytes);
    const reserved = reservedNamesIn(args, tool.input.reserved);
    if (reserved !== undefined)
      throw CallFailure.of(
        'tenant_override',
        `The argument at "${reserved}" is set by the application and never by a caller. Leave it out.`,
      );
    const problems = this.validators.validate(tool.input.schema, args);
    if (problems.length > 0) throw CallFailure.of('invalid_args', 'The arguments do not fit the schema.', problems);
    const canonical = canonicalJson(args);
    const built = tool.input.build(args);
    const more = tool.input.check ? await tool.input.check(built) : [];
    if (more.length > 0) throw CallFailure.of('invalid_args', 'The arguments are not valid.', more);
    return { canonical, args, built };
  }
}

function parseArguments({ arguments: text }: ToolCall, mostBytes: number): JsonObject {
  const bytes = Buffer.byteLength(text);
  if (bytes > mostBytes)
    throw CallFailure.of('invalid_args', `The arguments have ${bytes} bytes; at most ${mostBytes} are taken. Send less at a time.`);
  const value = parseJson(text);
  if (value === undefined) throw CallFailure.of('invalid_json', 'The arguments are not JSON. Send one JSON object.');
  if (value === null) return {};
  if (isObject(value)) return value;
  throw CallFailure.of(
    'invalid_args',
    `The arguments must be one JSON object, not ${Array.isArray(value) ? 'a list' : `a ${typeof value}`}.`,
  );
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
