import { isRecord, type JsonValue, type ToolFailure } from '@toolloop/protocol';
import type { CallOutcome, FailureWords, ResultChange } from './call-points.js';
import type { InstalledPlugin } from './installed-plugin.js';
import { PluginError } from './plugin-error.js';
import type { PointName } from './plugin.js';
import {
  type CallLimit,
  type PlannedCall,
  PLUGIN_REASONS,
  PLUGIN_REFUSALS,
  type PluginFinish,
} from './run-points.js';

/** @throws {PluginError} for an end that a plugin may not give a run */
export function checkedFinish(
  { reason, detail }: PluginFinish,
  one: InstalledPlugin,
  point: PointName,
): PluginFinish {
  if (!PLUGIN_REASONS.includes(reason))
    throw wrong(one, point, `A plugin can end a run with ${PLUGIN_REASONS.join(', ')}.`);
  if (detail !== undefined && typeof detail !== 'string')
    throw wrong(one, point, 'The `detail` of an end is text.');
  return { reason, ...(detail !== undefined && { detail }) };
}

/** @throws {PluginError} for a limit that refuses none of the calls */
function checkedLimit(
  { index, refusal, finish }: CallLimit,
  calls: readonly PlannedCall[],
  one: InstalledPlugin,
): CallLimit {
  if (!calls.some((call) => call.index === index))
    throw wrong(one, 'admit', `No call that is left has the index ${index}.`);
  return {
    index,
    refusal: checkedRefusal(refusal, one, 'admit'),
    ...(finish && { finish: checkedFinish(finish, one, 'admit') }),
  };
}

/** @throws {PluginError} for what the model cannot be told */
export function checkedRefusal(
  refusal: ToolFailure,
  one: InstalledPlugin,
  point: PointName,
): ToolFailure {
  if (!isRecord(refusal) || typeof refusal.safeMessage !== 'string')
    throw wrong(one, point, 'A refusal has a `code` and a `safeMessage` for the model.');
  const { code, safeMessage, problems, retryable } = refusal;
  if (!PLUGIN_REFUSALS.some((known) => known === code))
    throw wrong(one, point, `A plugin refuses a call with ${PLUGIN_REFUSALS.join(', ')}.`);
  if (!areProblems(problems))
    throw wrong(one, point, 'The `problems` are a list of `pointer` and `message`.');
  return {
    code,
    safeMessage,
    ...(problems && { problems }),
    ...(retryable === true && { retryable }),
  };
}

function areProblems(problems: unknown): boolean {
  return problems === undefined || (Array.isArray(problems) && problems.every(isProblem));
}

function isProblem(problem: unknown): boolean {
  return (
    isRecord(problem) &&
    typeof problem['pointer'] === 'string' &&
    typeof problem['message'] === 'string'
  );
}

/** @throws {PluginError} for what is no list of limits */
export function checkedLimits(
  limits: readonly CallLimit[] | void,
  calls: readonly PlannedCall[],
  one: InstalledPlugin,
): readonly CallLimit[] {
  if (limits === undefined) return [];
  const isList = Array.isArray(limits) && !limits.some((limit) => !isRecord(limit));
  if (!isList) throw wrong(one, 'admit', 'The answer is no list of limits.');
  return limits.map((limit: CallLimit) => checkedLimit(limit, calls, one));
}

const OF_A_CHANGE: readonly string[] = [
  'content',
  'result',
  'error',
  'isFromOutside',
] satisfies (keyof ResultChange)[];

/** @throws {PluginError} for what cannot be read in the place of an outcome */
export function checkedChange(
  change: ResultChange,
  outcome: CallOutcome,
  one: InstalledPlugin,
): ResultChange {
  const problem = problemInChange(change, outcome);
  if (problem !== undefined) throw wrong(one, 'result', problem);
  const { content, result, error, isFromOutside } = change;
  return {
    ...(content !== undefined && { content }),
    ...(result !== undefined && { result: copyOf(result, one) }),
    ...(error !== undefined && { error: checkedWords(error, one) }),
    ...(isFromOutside && { isFromOutside }),
  };
}

function problemInChange(change: ResultChange, { record }: CallOutcome): string | undefined {
  if (!isRecord(change) || Object.keys(change).some((name) => !OF_A_CHANGE.includes(name)))
    return `The answer is no object of ${OF_A_CHANGE.join(', ')}.`;
  const { content, result, error } = change;
  if (content !== undefined && !isContent(content))
    return 'The `content` is neither text nor parts.';
  if (result !== undefined && record.status !== 'succeeded')
    return 'A call that did not succeed has no `result`.';
  return error !== undefined && !record.error ? 'A call that succeeded has no `error`.' : undefined;
}

/** @throws {PluginError} for what are no words of a failure */
function checkedWords(error: FailureWords, one: InstalledPlugin): FailureWords {
  if (!isRecord(error) || typeof error.safeMessage !== 'string' || !areProblems(error.problems))
    throw wrong(one, 'result', 'The `error` is no object of `safeMessage` and `problems`.');
  const { safeMessage, problems } = error;
  return { safeMessage, ...(problems && { problems }) };
}

function isContent(content: unknown): boolean {
  return typeof content === 'string' || (Array.isArray(content) && content.every(isPart));
}

function isPart(part: unknown): boolean {
  if (!isRecord(part)) return false;
  const { type, text, url } = part;
  if (type === 'text') return typeof text === 'string';
  return (type === 'image' || type === 'file') && typeof url === 'string';
}

/** @throws {PluginError} for what JSON cannot carry */
function copyOf(result: JsonValue, one: InstalledPlugin): JsonValue {
  try {
    JSON.stringify(result);
    return structuredClone(result);
  } catch {
    throw wrong(one, 'result', 'The `result` is no JSON.');
  }
}

function wrong({ declaration }: InstalledPlugin, point: PointName, message: string): PluginError {
  return new PluginError(declaration.name, point, { cause: new TypeError(message) });
}
