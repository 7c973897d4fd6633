import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider, Scope } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import {
  type Plugin,
  type PluginDeclaration,
  type RunView,
  schemaOf,
  slot,
  type SlotDeclaration,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { findingsOf, start } from '../tools/application.js';
import { Plugins } from '@toolloop/core/internal';

@Injectable()
@ToolLoopPlugin({ name: 'acme.first' })
class First implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: 'acme.first' })
class Second implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: 'acme.needy', requires: ['acme.first', 'acme.none'] })
class Needy implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: 'acme.misspelled' })
class Misspelled implements Plugin {
  open(): boolean {
    return true;
  }

  conclueded(): void {}

  steped(_run: RunView): void {}

  concludeTheMonth(): void {}
}

@Injectable({ scope: Scope.REQUEST })
@ToolLoopPlugin({ name: 'acme.scoped' })
class Scoped implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: 'acme.chicken', before: ['acme.egg'] })
class Chicken implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: 'acme.egg', before: ['acme.chicken'] })
class Egg implements Plugin {
  concluded(): void {}
}

@Injectable()
@ToolLoopPlugin({ name: '' })
class Nameless implements Plugin {
  concluded(): void {}
}

const slotOf = (rest: Partial<SlotDeclaration<number>> = {}) =>
  slot({
    name: 'acme.a/count',
    version: 1,
    schema: schemaOf((value): value is number => typeof value === 'number'),
    initial: () => 0,
    inherit: 'fresh',
    ...rest,
  });

/** A plugin with a declaration in JavaScript, which no compiler has looked at. */
function declared(declaration: object): Provider {
  @Injectable()
  @ToolLoopPlugin(declaration as PluginDeclaration)
  class Declared implements Plugin {
    concluded(): void {}
  }
  return { provide: Declared, useClass: Declared };
}

const brokenFirst = (): never => {
  throw new Error('no clock');
};

const DECLARATIONS: readonly (readonly [string, object, string])[] = [
  ['no name', {}, 'Its plugin has no name.'],
  ['a name that is a number', { name: 7 }, 'Its plugin has no name.'],
  ['an unknown option', { name: 'acme.a', requrires: [] }, 'There is no option "requrires".'],
  ['an order that is no list', { name: 'acme.a', before: 'audit' }, 'Its before is "audit".'],
  [
    'a slot that is none',
    { name: 'acme.a', slots: [{ name: 'x' }] },
    'Its slots are not what slot() and memory() make.',
  ],
  ['a filter that is none', { name: 'acme.a', concerns: 'x' }, 'Its concerns is "x".'],
  [
    'a slot of version 0',
    { name: 'acme.a', slots: [slotOf({ version: 0 })] },
    'The slot "acme.a/count" has the version 0.',
  ],
  [
    'a slot that begins with what its schema refuses',
    { name: 'acme.a', slots: [slotOf({ initial: () => 'x' as unknown as number })] },
    'The slot "acme.a/count" begins wrongly: "acme.a/count" is not what it must be.',
  ],
  [
    'a slot whose first value cannot be made',
    { name: 'acme.a', slots: [slotOf({ initial: brokenFirst })] },
    'The slot "acme.a/count" begins wrongly: it cannot be made: no clock.',
  ],
];

describe('a plugin that is wrong', () => {
  it('keeps the application from starting, with every mistake at once', async () => {
    const findings = await findingsOf({
      providers: [First, Second, Needy, Misspelled, Scoped, Chicken, Egg, Nameless],
    });
    expect(findings.map(({ at, problem }) => `${at}: ${problem}`).toSorted()).toEqual([
      'Misspelled.conclueded: No point has this name.',
      'Misspelled.steped: No point has this name.',
      'Nameless: Its plugin has no name.',
      'Needy: The plugin "acme.needy" requires "acme.none", which is not there.',
      'Scoped: It is a plugin, which the loop uses outside of any request, but it is not a singleton.',
      'Second: Another plugin is named "acme.first" as well.',
      'plugin acme.chicken, acme.egg: Each of these plugins is to come before another one of them.',
    ]);
    expect(findings.map(({ remedy }) => remedy)).toContain('Did you mean "concluded"?');
  });

  it.each(DECLARATIONS)('is found by %s', async (_what, declaration, problem) => {
    const findings = await findingsOf({ providers: [declared(declaration)] });
    expect(findings.map((finding) => finding.problem)).toEqual([problem]);
  });

  it('is found by a slot whose name another plugin has as well', async () => {
    const findings = await findingsOf({
      providers: [
        declared({ name: 'acme.a', slots: [slotOf()] }),
        declared({ name: 'acme.b', slots: [slotOf()] }),
      ],
    });
    expect(findings.map(({ problem }) => problem)).toEqual([
      'Another slot is named "acme.a/count" as well.',
    ]);
  });

  it('is found by the values of a loop that no plugin takes', async () => {
    const wrong = [
      { slot: 'acme.a/count', value: 'x' },
      { slot: 'acme.c/x', value: 1 },
    ];
    const findings = await findingsOf({
      providers: [declared({ name: 'acme.a', slots: [slotOf()] })],
      imports: [ToolLoopModule.forFeature({ loops: { night: { plugins: wrong } } })],
    });
    expect(findings.map(({ at, problem }) => `${at}: ${problem}`)).toEqual([
      'loop "night".plugins: The value is wrong: "acme.a/count" is not what it must be.',
      'loop "night".plugins: No plugin has the slot "acme.c/x".',
    ]);
  });

  it('does not keep it from starting if the same instance is found in two modules', async () => {
    const shared = new First();
    const module = await start({
      providers: [
        { provide: First, useValue: shared },
        { provide: 'again', useExisting: First },
        { provide: 'once more', useValue: shared },
      ],
    });
    expect(module.get(Plugins).names.filter((name) => name.startsWith('acme.'))).toEqual([
      'acme.first',
    ]);
    await module.close();
  });
});
