import type { Tool } from '../contracts/tool.js';
import type { Plugin } from './plugin.js';
import type { AnySlot } from './slot.js';

/**
 * Marks a provider as a plugin. It is found in every module of the application, and needs no other
 * registration.
 *
 * @example
 * @Injectable()
 * @ToolLoopPlugin({ name: 'acme.quota', after: ['usage'] })
 * export class OutsideQuota implements Plugin {}
 */
export function ToolLoopPlugin(
  declaration: PluginDeclaration,
): (target: abstract new (...args: never[]) => Plugin) => void {
  return (target) => Reflect.defineMetadata(PLUGIN_METADATA, declaration, target);
}

/** The declaration of a plugin: its name, its order among the others, its state. */
export interface PluginDeclaration {
  /**
   * Unique in the application, and `author.name` for a plugin of a third party. It names the slots
   * of the plugin, and is in every error that its hooks cause.
   */
  readonly name: string;
  /** Plugins without which this one does not work. The start fails if one is missing. */
  readonly requires?: readonly string[];
  /** Plugins whose hooks come after those of this one. One that is not there is no mistake. */
  readonly before?: readonly string[];
  /** Plugins whose hooks come before those of this one. */
  readonly after?: readonly string[];
  /** The state that it keeps for each run. */
  readonly slots?: readonly AnySlot[];
  /**
   * True if everything that its hooks wait for has a bound of its own, such as a store. Any other
   * hook has `limits.pluginMs`. @default false
   */
  readonly isBounded?: boolean;
  /** Returns whether a tool concerns it, asked once for each tool. @default every tool does */
  readonly concerns?: (tool: Tool) => boolean;
}

const PLUGIN_METADATA = Symbol('toolloop:plugin');

/** Returns the declaration of a class of plugins; undefined for any other class. */
export function declarationOf(type: object): PluginDeclaration | undefined {
  return Reflect.getMetadata(PLUGIN_METADATA, type) as PluginDeclaration | undefined;
}
