import { isThenable } from '../contracts/thenable.js';
import { waitForHook } from './hook-time.js';
import { failureOfHook, type PluginAt, reportHook } from './installed-plugin.js';
import type { PointName } from './plugin.js';
import type { Awaitable } from './run-points.js';
import type { RunView } from './run-view.js';

/**
 * Asks the hook of one plugin, and waits for its answer as long as a plugin may take. What it
 * answers at once is returned at once: most do, at each step and call of a run.
 *
 * @throws {Error} the failure of the hook, with the name of its plugin
 */
export function askHook<Point extends PointName, Answer>(
  one: PluginAt<Point>,
  point: Point,
  run: RunView,
  ask: (plugin: PluginAt<Point>['plugin']) => Awaitable<Answer>,
): Awaitable<Answer> {
  try {
    const answer = ask(one.plugin);
    if (!isThenable(answer)) return answer;
    return waitForHook(Promise.resolve(answer), one.declaration, run).catch((error: unknown) => {
      throw failureOfHook(one, point, error, run);
    });
  } catch (error) {
    throw failureOfHook(one, point, error, run);
  }
}

/** Tells the hook of one plugin what it only observes. Never rejects: a failure is logged. */
export function tellHook<Point extends PointName>(
  one: PluginAt<Point>,
  point: Point,
  run: RunView,
  tell: (plugin: PluginAt<Point>['plugin']) => Awaitable<void>,
): Awaitable<void> {
  const report = (error: unknown): void => reportHook(one, point, error, run);
  try {
    const answer = tell(one.plugin);
    if (isThenable(answer))
      return waitForHook(Promise.resolve(answer), one.declaration, run).catch(report);
  } catch (error) {
    report(error);
  }
}

/** Tells of a rejection of a hook that is not waited for, which would end the process otherwise. */
export function reportLate(answer: unknown, report: (error: unknown) => void): void {
  if (isThenable(answer)) Promise.resolve(answer).catch(report);
}
