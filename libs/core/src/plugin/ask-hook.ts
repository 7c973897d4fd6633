import { waitForHook } from './hook-time.js';
import { failureOfHook, type PluginAt, reportHook } from './installed-plugin.js';
import type { PointName } from './plugin.js';
import type { Awaitable } from './run-points.js';
import type { RunView } from './run-view.js';

/**
 * Asks the hook of one plugin, and waits for its answer as long as a plugin may take.
 *
 * @throws {Error} the failure of the hook, with the name of its plugin
 */
export async function askHook<Point extends PointName, Answer>(
  one: PluginAt<Point>,
  point: Point,
  run: RunView,
  ask: (plugin: PluginAt<Point>['plugin']) => Awaitable<Answer>,
): Promise<Answer> {
  try {
    const answer = ask(one.plugin);
    return answer instanceof Promise ? await waitForHook(answer, one.declaration, run) : answer;
  } catch (error) {
    throw failureOfHook(one, point, error, run);
  }
}

/** Tells the hook of one plugin what it only observes. Never rejects: a failure is logged. */
export async function tellHook<Point extends PointName>(
  one: PluginAt<Point>,
  point: Point,
  run: RunView,
  tell: (plugin: PluginAt<Point>['plugin']) => Awaitable<void>,
): Promise<void> {
  try {
    const answer = tell(one.plugin);
    if (answer instanceof Promise) await waitForHook(answer, one.declaration, run);
  } catch (error) {
    reportHook(one, point, error, run);
  }
}
