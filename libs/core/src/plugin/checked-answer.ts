import { PluginError } from './plugin-error.js';
import type { InstalledPlugin } from './installed-plugin.js';
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
  if (typeof refusal?.safeMessage !== 'string' || typeof refusal.code !== 'string')
    throw wrong(one, 'admit', 'A refusal has a `code` and a `safeMessage` for the model.');
  return { index, refusal, ...(finish && { finish: checkedFinish(finish, one, 'admit') }) };
}

function wrong({ declaration }: InstalledPlugin, point: PointName, message: string): PluginError {
  return new PluginError(declaration.name, point, { cause: new TypeError(message) });
}
