import { describe, expect, it } from '@jest/globals';
import { Injectable, Scope } from '@nestjs/common';
import { type Plugin, type RunView, ToolLoopPlugin } from '@toolloop/core/plugin';
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
