import { describe, expect, it } from '@jest/globals';
import { type Ordered, orderPlugins } from '../../src/plugin/plugin-order.js';

const named = (name: string, rest: Omit<Ordered['declaration'], 'name'> = {}): Ordered => ({
  declaration: { name, ...rest },
});

function namesIn(plugins: readonly Ordered[]): readonly string[] {
  const order = orderPlugins(plugins);
  if ('circle' in order) throw new Error(`There is a circle: ${order.circle.join(', ')}`);
  return order.ordered.map(({ declaration }) => declaration.name);
}

describe('the order of plugins', () => {
  it('follows their names if nothing else is declared, whatever the order of modules is', () => {
    const plugins = [named('usage'), named('audit'), named('flow')];
    expect(namesIn(plugins)).toEqual(['audit', 'flow', 'usage']);
    expect(namesIn(plugins.toReversed())).toEqual(['audit', 'flow', 'usage']);
  });

  it('puts a plugin before those that it names, and after those that it names', () => {
    const plugins = [
      named('audit'),
      named('callbacks', { before: ['audit'] }),
      named('values', { after: ['written'] }),
      named('written'),
    ];
    expect(namesIn(plugins)).toEqual(['callbacks', 'audit', 'written', 'values']);
  });

  it('ignores a plugin that is not there', () => {
    expect(namesIn([named('b', { before: ['x'] }), named('a', { after: ['y'] })])).toEqual([
      'a',
      'b',
    ]);
  });

  it('names the plugins of a circle, and no other', () => {
    const plugins = [
      named('a', { before: ['b'] }),
      named('b', { before: ['c'] }),
      named('c', { before: ['a', 'd'] }),
      named('d'),
      named('e', { before: ['a'] }),
    ];
    expect(orderPlugins(plugins)).toEqual({ circle: ['a', 'b', 'c'] });
  });

  it('holds for every order in which 120 permutations of five plugins are found', () => {
    const plugins = [
      named('a', { after: ['e'] }),
      named('b'),
      named('c', { before: ['b'] }),
      named('d'),
      named('e'),
    ];
    const orders = new Set(permutationsOf(plugins).map((given) => namesIn(given).join(' ')));
    expect([...orders]).toEqual(['c b d e a']);
  });
});

function permutationsOf<Item>(items: readonly Item[]): readonly (readonly Item[])[] {
  if (items.length < 2) return [items];
  return items.flatMap((first, index) =>
    permutationsOf(items.toSpliced(index, 1)).map((rest) => rest.toSpliced(0, 0, first)),
  );
}
