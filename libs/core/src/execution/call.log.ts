import { Logger } from '@nestjs/common';
import type { JsonObject, JsonValue } from '../protocol/json.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { Tool } from '../protocol/tool.js';
import { CallFailure } from './call.failure.js';
import type { CallProgress } from './execution.scope.js';
import { shownArguments } from './tool.outcome.js';

/** As much of a name that a model made up as is worth a log. */
const MOST_OF_A_NAME = 64;

/**
 * One line when a call is let in and one when it has ended, for tools that log, and one for each attempt that failed where there may be several. None holds
 * a result or a text that the model reads; what an attempt threw is the last detail of its line.
 */
export class CallLog {
  private readonly logger = new Logger('ToolCall');

  started(tool: Tool, progress: CallProgress): void {
    const { options, args } = progress;
    const shown = options.logArguments &&
      args && { arguments: cutArguments(shownArguments(args, tool.input.hidden), options.truncateLogs) };
    this.write('debug', 'Tool call started', progress, { ...shown });
  }

  attemptFailed(
    progress: CallProgress,
    { number, code, error }: { readonly number: number; readonly code: string; readonly error: unknown },
  ): void {
    this.write('warn', 'Tool call attempt failed', progress, { attempt: number, code }, error instanceof CallFailure ? error.cause : error);
  }

  ended(progress: CallProgress, { status, durationMs, error, attempt }: ToolInvocationRecord): void {
    const level = status === 'succeeded' ? 'debug' : 'warn';
    const facts = { durationMs, status, ...(attempt > 1 && { attempt }), ...(error && { code: error.code }) };
    this.write(level, 'Tool call ended', progress, facts);
  }

  /** A logger that fails must not turn a call that took place into one that did not. */
  private write(
    level: 'debug' | 'warn',
    message: string,
    { options, request, scope, tool }: CallProgress,
    facts: JsonObject,
    ...details: readonly unknown[]
  ): void {
    if (!options.logging) return;
    const name = tool?.spec.declaredId ?? request.call.name.slice(0, MOST_OF_A_NAME);
    const { toolCallId } = request.call;
    try {
      this.logger[level](message, { runId: scope.run.runId, step: request.step, toolCallId, tool: name, ...facts }, ...details);
    } catch {
      // there is nowhere to tell it
    }
  }
}

function cutArguments(args: JsonObject, mostCharacters: number): JsonObject {
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [cut(name, MOST_OF_A_NAME), cutValue(value, mostCharacters)]));
}

/** Numbers, booleans and null are short as they are; lists and objects are logged as JSON. */
function cutValue(value: JsonValue, mostCharacters: number): JsonValue {
  if (typeof value === 'string') return cut(value, mostCharacters);
  return typeof value === 'object' && value !== null ? cut(JSON.stringify(value), mostCharacters) : value;
}

function cut(text: string, mostCharacters: number): string {
  return text.length > mostCharacters ? `${text.slice(0, mostCharacters)}…` : text;
}
