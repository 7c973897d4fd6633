import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { isObject } from '@toolloop/protocol';
import type { InstalledPlugin } from '../../plugin/installed-plugin.js';
import { declarationOf } from '../../plugin/tool-loop-plugin.decorator.js';
import { isClass } from '../nest/provider-classes.js';
import { isSingleton } from '../nest/provider-instances.js';

/** Returns the plugins among the providers of an application, each once. */
export function findPlugins(wrappers: readonly InstanceWrapper[]): readonly InstalledPlugin[] {
  const instances = wrappers.flatMap((wrapper) => {
    const instance: unknown =
      wrapper.isAlias || !isSingleton(wrapper) ? undefined : wrapper.instance;
    return isObject(instance) ? [instance] : [];
  });
  return [...new Set(instances)].flatMap((plugin) => {
    const type: unknown = Reflect.get(plugin, 'constructor');
    const declaration = isClass(type) ? declarationOf(type) : undefined;
    return declaration ? [{ declaration, plugin }] : [];
  });
}
