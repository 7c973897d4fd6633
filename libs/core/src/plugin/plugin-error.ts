import type { PointName } from './plugin.js';

/** The failure of a plugin's hook. It names the plugin, so that its author is the one to be asked. */
export class PluginError extends Error {
  override readonly name = 'PluginError';

  constructor(
    readonly plugin: string,
    readonly point: PointName,
    options: { readonly cause: unknown },
  ) {
    super(`The plugin "${plugin}" failed at "${point}".`, options);
  }
}
