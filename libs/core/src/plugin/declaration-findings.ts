import type { Finding } from '@toolloop/protocol';
import { BOOLEAN, FUNCTION, listOf, TEXT } from '../findings/option-rules.js';
import { defineOptions, ITS, type OptionRule, type OptionTable } from '../findings/options.js';
import type { InstalledPlugin } from './installed-plugin.js';
import { KeptSlot } from './saved-slot.js';
import { type AnySlot, Slot } from './slot.js';
import type { PluginDeclaration } from './tool-loop-plugin.decorator.js';

/** Returns everything that is wrong with the declaration of a plugin by itself. */
export function declarationFindings({ declaration, plugin }: InstalledPlugin): readonly Finding[] {
  const at = plugin.constructor.name;
  const { slots = [] } = DECLARATION.sound(declaration);
  return [
    ...DECLARATION.findings(declaration, at),
    ...slots
      .flatMap((slot) => (slot instanceof KeptSlot ? slot.problems : []))
      .map((problem) => ({ at, problem, remedy: CORRECT })),
  ];
}

const CORRECT = 'Count versions from 1, and return from `initial` a value that the schema accepts.';

/** The plugin with as much of its declaration as can be used. */
export function withSoundDeclaration(one: InstalledPlugin): InstalledPlugin {
  return { ...one, declaration: { name: '', ...DECLARATION.sound(one.declaration) } };
}

const NAME: OptionRule<string> = {
  ...TEXT,
  accept: (value) => typeof value === 'string' && value.trim() !== '',
  isNeeded: true,
  problem: () => 'Its plugin has no name.',
  remedy: () => 'Give it a name of its own, such as "acme.quota".',
};

const SLOT: OptionRule<AnySlot> = {
  wanted: 'a slot, made by slot() or memory()',
  accept: (value) => value instanceof Slot,
};

const NAMES: OptionRule<readonly string[]> = listOf(TEXT, 'a list of names of plugins');

const DECLARATION: OptionTable<PluginDeclaration> = defineOptions<PluginDeclaration>(
  {
    name: NAME,
    requires: NAMES,
    before: NAMES,
    after: NAMES,
    slots: {
      ...listOf(SLOT, 'a list of what slot() and memory() made'),
      problem: () => 'Its slots are not what slot() and memory() make.',
    },
    isBounded: BOOLEAN,
    concerns: FUNCTION,
  },
  { wording: ITS },
);
