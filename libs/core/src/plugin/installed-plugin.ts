import { StorageUnavailableError } from '@toolloop/protocol';
import { Interruption } from '../contracts/interruption.js';
import { Logger } from '../findings/logger.js';
import { PluginError } from './plugin-error.js';
import type { Plugin, PointName } from './plugin.js';
import type { RunView } from './run-view.js';
import type { PluginDeclaration } from './tool-loop-plugin.decorator.js';

/** A plugin of the application. */
export interface InstalledPlugin {
  readonly declaration: PluginDeclaration;
  readonly plugin: Plugin;
}

/** A plugin that acts at a point. */
export interface PluginAt<Point extends PointName> extends InstalledPlugin {
  readonly plugin: Required<Pick<Plugin, Point>>;
}

/** Returns the plugins that act at a point, in their order. */
export function pluginsAt<Point extends PointName>(
  point: Point,
  plugins: readonly InstalledPlugin[],
): readonly PluginAt<Point>[] {
  return plugins.filter((one): one is PluginAt<Point> => one.plugin[point] !== undefined);
}

/**
 * Returns the failure of a hook with the name of its plugin. That of a store is the store's own,
 * and a run that is over has been interrupted.
 */
export function failureOfHook(
  { declaration: { name } }: InstalledPlugin,
  point: PointName,
  error: unknown,
  { signal }: Pick<RunView, 'signal'>,
): Error {
  if (signal.aborted) return Interruption.from(signal);
  return StorageUnavailableError.in(error) ?? new PluginError(name, point, { cause: error });
}

const logger = new Logger('Plugins');

/**
 * Logs the failure of a hook that only observes. A run that was aborted does not wait for it, which
 * is no failure.
 */
export function reportHook(
  one: InstalledPlugin,
  point: PointName,
  error: unknown,
  { runId, signal }: Pick<RunView, 'runId' | 'signal'>,
): void {
  if (signal.aborted) return;
  const { name } = one.declaration;
  logger.error(`The plugin "${name}" failed at "${point}" (run ${runId}).`, error);
}
