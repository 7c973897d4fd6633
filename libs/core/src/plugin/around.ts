import { waitForHook } from './hook-time.js';
import { type PluginAt, reportHook } from './installed-plugin.js';
import type { PointName } from './plugin.js';
import type { Next } from './run-points.js';
import type { RunView } from './run-view.js';

/**
 * Does something within the hooks of plugins, the first of them outermost. A hook observes: what it
 * returns is not looked at, and one that fails or hangs changes nothing about what is done.
 */
export function doWithin<Point extends PointName, Made>(
  [outermost, ...inner]: readonly PluginAt<Point>[],
  hooks: HooksAround<Point, Made>,
  work: Next<Made>,
): Promise<Made> {
  return outermost ? doWithinOne(outermost, hooks, () => doWithin(inner, hooks, work)) : work();
}

/** The hooks at a point around something. */
export interface HooksAround<Point extends PointName, Made> {
  readonly point: Point;
  readonly run: RunView;
  /** Calls the hook of one plugin. */
  readonly call: (plugin: PluginAt<Point>['plugin'], next: Next<Made>) => Promise<unknown>;
}

async function doWithinOne<Point extends PointName, Made>(
  one: PluginAt<Point>,
  { point, run, call }: HooksAround<Point, Made>,
  work: Next<Made>,
): Promise<Made> {
  const report = (error: unknown): void => reportHook(one, point, error, run);
  let made: Promise<Made> | undefined;
  const next = (): Promise<Made> => (made ??= work());
  const { hook, asked } = begin((inner) => call(one.plugin, inner), next);
  await waitForHook(Promise.race([hook, asked]), one.declaration, run).catch(report);
  const result = next();
  const hasFailed = await result.then(
    () => false,
    () => true,
  );
  await waitForHook(hook, one.declaration, run).catch(hasFailed ? () => undefined : report);
  return result;
}

/** Calls a hook. `asked` resolves once it has asked for what it is around. */
function begin<Made>(
  call: (next: Next<Made>) => Promise<unknown>,
  next: Next<Made>,
): { readonly hook: Promise<unknown>; readonly asked: Promise<void> } {
  let hook: Promise<unknown> = Promise.resolve();
  const asked = new Promise<void>((resolve) => {
    hook = callSafely(() =>
      call(() => {
        resolve();
        return next();
      }),
    );
  });
  return { hook, asked };
}

/** A hook that throws at once has rejected, like any. */
async function callSafely(call: () => Promise<unknown>): Promise<unknown> {
  return call();
}
