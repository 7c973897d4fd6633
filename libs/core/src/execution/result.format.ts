import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import { toJsonApi } from './call.failure.js';
import type { CallProgress } from './execution.scope.js';

/** As much of a name that a model made up as is said back to it. */
const MOST_OF_A_NAME = 64;

/** A result on its way to the model. */
export interface ShownValue {
  readonly live: unknown;
  /** The model's projection. */
  readonly value: JsonValue;
  /** The result in a sentence, where the tool words it. */
  readonly sentence: string | undefined;
}

/** What the model reads of a result: the value or the envelope, as JSON; text stands for itself. */
export function resultText(tool: Tool, { live, value, sentence }: ShownValue, { options }: CallProgress): string {
  if (options.resultFormat === 'envelope') {
    const worded = sentence !== undefined && { human_readable: sentence };
    return JSON.stringify({ ok: true, type: tool.spec.declaredId, result: value, ...worded });
  }
  if (typeof value === 'string') return value;
  return isVoid(tool, live) ? '{"ok":true}' : JSON.stringify(value);
}

/** What the model reads of a failure. A tool that policy denies reads like one that does not exist, its type included. */
export function failureText({ request, tool, options }: CallProgress, failure: ToolFailure): string {
  const shownAs = failure.code === 'policy_denied' ? 'unknown_tool' : failure.code;
  const { errors } = toJsonApi(failure, shownAs);
  if (options.resultFormat === 'value') return JSON.stringify({ errors });
  const known = shownAs === 'unknown_tool' ? undefined : tool?.spec.declaredId;
  return JSON.stringify({ ok: false, type: known ?? request.call.name.slice(0, MOST_OF_A_NAME), errors });
}

/** What inline metadata says of a call; undefined where none is wanted. */
export function metadataOf(tool: Tool, { options, scope, startedAt }: CallProgress): JsonObject | undefined {
  if (options.metadata === 'none') return undefined;
  const now = new Date();
  return {
    duration_ms: now.getTime() - startedAt.getTime(),
    tool_name: tool.spec.id,
    timestamp: now.toISOString(),
    ...(scope.agentName !== undefined && { agent_name: scope.agentName }),
  };
}

/** The value with its metadata, where it is an object: a list or a scalar has no place for it. */
export function withMetadata(value: JsonValue, metadata: JsonObject | undefined): JsonValue {
  return metadata && isJsonObject(value) ? { ...value, _execution_metadata: metadata } : value;
}

/** A method that returns nothing, or of which nothing is shown, says so in a way a model understands; `null` is an answer. */
function isVoid({ spec: { redaction } }: Tool, live: unknown): boolean {
  return redaction.kind === 'reveal' && (live === undefined || redaction.fields.length === 0);
}
