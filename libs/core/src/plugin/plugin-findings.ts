import type { Finding } from '@toolloop/protocol';
import { nearestIn } from '../findings/nearest-name.js';
import { declarationFindings, withSoundDeclaration } from './declaration-findings.js';
import type { InstalledPlugin } from './installed-plugin.js';
import { circleFinding, orderPlugins } from './plugin-order.js';
import { POINTS } from './plugin.js';

/** Returns everything that is wrong with the plugins of an application. */
export function findingsOfPlugins(installed: readonly InstalledPlugin[]): readonly Finding[] {
  const plugins = installed.map(withSoundDeclaration);
  const names = plugins.map(({ declaration }) => declaration.name);
  const order = orderPlugins(plugins);
  return [
    ...installed.flatMap(declarationFindings),
    ...plugins.flatMap((one, index) => [
      ...repeatedName(one, names.indexOf(one.declaration.name) < index),
      ...missingPlugins(one, names),
      ...misspelledPoints(one),
    ]),
    ...repeatedSlots(plugins),
    ...('circle' in order ? [circleFinding(order.circle)] : []),
  ];
}

function repeatedName({ declaration, plugin }: InstalledPlugin, isRepeated: boolean): Finding[] {
  if (declaration.name === '' || !isRepeated) return [];
  return [
    {
      at: plugin.constructor.name,
      problem: `Another plugin is named "${declaration.name}" as well.`,
      remedy: 'Give it a name of its own, such as "acme.quota".',
    },
  ];
}

/** Two slots of one name would take each other's value out of a saved run. */
function repeatedSlots(plugins: readonly InstalledPlugin[]): Finding[] {
  const listed = plugins.flatMap(({ declaration: { slots = [] }, plugin }) =>
    slots.map((slot) => ({ at: plugin.constructor.name, slot })),
  );
  return listed
    .filter(({ slot }, index) =>
      listed.slice(0, index).some((other) => other.slot !== slot && other.slot.name === slot.name),
    )
    .map(({ at, slot: { name } }) => ({
      at,
      problem: `Another slot is named "${name}" as well.`,
      remedy: 'Name a slot after its plugin, such as "acme.quota/spent".',
    }));
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
