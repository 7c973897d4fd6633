import type { ToolFailure } from '@toolloop/protocol';
import type { CallOutcome, ResultChange } from './call-points.js';
import type { InstalledPlugin } from './installed-plugin.js';
import { PluginError } from './plugin-error.js';
import type { PointName } from './plugin.js';
import {
  type CallLimit,
  type PlannedCall,
  PLUGIN_REASONS,
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
  return { reason, ...(detail !== undefined && { detail }) };
}

/** @throws {PluginError} for a limit that refuses none of the calls */
export function checkedLimit(
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
  if (typeof refusal?.safeMessage !== 'string' || typeof refusal.code !== 'string')
    throw wrong(one, point, 'A refusal has a `code` and a `safeMessage` for the model.');
  return refusal;
}

/** @throws {PluginError} for what cannot be read in the place of an outcome */
export function checkedChange(
  { content, result, isFromOutside }: ResultChange,
  { record }: CallOutcome,
  one: InstalledPlugin,
): ResultChange {
  if (content !== undefined && typeof content !== 'string' && !Array.isArray(content))
    throw wrong(one, 'result', 'The `content` is neither text nor parts.');
  if (result !== undefined && record.status !== 'succeeded')
    throw wrong(one, 'result', 'A call that did not succeed has no `result`.');
  return {
    ...(content !== undefined && { content }),
    ...(result !== undefined && { result: structuredClone(result) }),
    ...(isFromOutside && { isFromOutside }),
  };
}

function wrong({ declaration }: InstalledPlugin, point: PointName, message: string): PluginError {
  return new PluginError(declaration.name, point, { cause: new TypeError(message) });
}
