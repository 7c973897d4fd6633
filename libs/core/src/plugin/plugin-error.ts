import type { PointName } from './plugin.js';

/** The failure of a plugin's hook, with the name of the plugin. */
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
