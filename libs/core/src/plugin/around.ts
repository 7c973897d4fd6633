import { waitForHook } from './hook-time.js';
import type { Next } from './run-points.js';
import type { RunView } from './run-view.js';
import type { PluginDeclaration } from './tool-loop-plugin.decorator.js';

/** One hook around something, and whose it is. */
export interface AroundHook<Made> {
  readonly declaration: PluginDeclaration;
  readonly call: (next: Next<Made>) => Promise<unknown>;
  /** Tells of its failure, on which nothing else depends. */
  readonly report: (error: unknown) => void;
}

/**
 * Does something within the hooks around it, the first of them outermost. A hook observes: what it
 * returns is not looked at, and one that fails or hangs changes nothing about what is done.
 */
export function doWithin<Made>(
  [outermost, ...inner]: readonly AroundHook<Made>[],
  run: Pick<RunView, 'signal' | 'limits'>,
  work: Next<Made>,
): Promise<Made> {
  return outermost ? doWithinOne(outermost, run, () => doWithin(inner, run, work)) : work();
}

async function doWithinOne<Made>(
  { declaration, call, report }: AroundHook<Made>,
  run: Pick<RunView, 'signal' | 'limits'>,
  work: Next<Made>,
): Promise<Made> {
  let made: Promise<Made> | undefined;
  const next = (): Promise<Made> => (made ??= work());
  const { hook, asked } = begin(call, next);
  await waitForHook(Promise.race([hook, asked]), declaration, run).catch(report);
  const result = next();
  const hasFailed = await result.then(
    () => false,
    () => true,
  );
  await waitForHook(hook, declaration, run).catch(hasFailed ? () => undefined : report);
  return result;
}

/** Calls a hook. `asked` resolves once it has asked for what it is around. */
function begin<Made>(
  call: AroundHook<Made>['call'],
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
