import type { Finding } from '@toolloop/protocol';
import { nearestIn } from '../findings/nearest-name.js';
import type { InstalledPlugin } from './installed-plugin.js';
import { circleFinding, orderPlugins } from './plugin-order.js';
import { POINTS } from './plugin.js';

/** Returns everything that is wrong with the plugins of an application. */
export function findingsOfPlugins(plugins: readonly InstalledPlugin[]): readonly Finding[] {
  const names = plugins.map(({ declaration }) => declaration.name);
  const order = orderPlugins(plugins);
  return [
    ...plugins.flatMap((one, index) => [
      ...repeatedName(one, names.indexOf(one.declaration.name) < index),
      ...missingPlugins(one, names),
      ...misspelledPoints(one),
    ]),
    ...('circle' in order ? [circleFinding(order.circle)] : []),
  ];
}

function repeatedName({ declaration, plugin }: InstalledPlugin, isRepeated: boolean): Finding[] {
  if (declaration.name !== '' && !isRepeated) return [];
  return [
    {
      at: plugin.constructor.name,
      problem: isRepeated
        ? `Another plugin is named "${declaration.name}" as well.`
        : 'Its plugin has no name.',
      remedy: 'Give it a name of its own, such as "acme.quota".',
    },
  ];
}

function missingPlugins(
  { declaration, plugin }: InstalledPlugin,
  names: readonly string[],
): Finding[] {
  const { name, requires = [] } = declaration;
  return requires
    .filter((required) => !names.includes(required))
    .map((required) => ({
      at: plugin.constructor.name,
      problem: `The plugin "${name}" requires "${required}", which is not there.`,
      remedy: `Import the module that provides the plugin "${required}".`,
    }));
}

/** A method that is nearly a point is one that is never called. */
function misspelledPoints({ plugin }: InstalledPlugin): Finding[] {
  return methodsOf(plugin)
    .filter((name) => !POINTS.includes(name))
    .flatMap((name) => {
      const remedy = nearestIn(name, POINTS, 0.2);
      return remedy === undefined
        ? []
        : [
            {
              at: `${plugin.constructor.name}.${name}`,
              problem: 'No point has this name.',
              remedy,
            },
          ];
    });
}

function methodsOf(plugin: object): readonly string[] {
  const prototype: unknown = Object.getPrototypeOf(plugin);
  return typeof prototype === 'object' && prototype !== null && prototype !== Object.prototype
    ? [
        ...Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor'),
        ...methodsOf(prototype),
      ]
    : [];
}
