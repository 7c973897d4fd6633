import { describe, expect, it } from '@jest/globals';
import type { RemovalCause } from '../../src/contracts/injection.js';
import { isRemovalCause } from '../../src/catalog/removal-cause.js';
import type { SavedRemovals } from '../../src/catalog/tool-removals.js';
import { wayBack } from '../../src/catalog/way-back.js';
import { Toolset } from '../../src/catalog/toolset.js';
import { toolOf } from '../tools/tools.js';

const [a, b, c] = [toolOf({ id: 'a' }), toolOf({ id: 'b' }), toolOf({ id: 'c' })];

describe('Toolset', () => {
  it('finds a tool by the id the model uses, and nothing else', () => {
    const toolset = Toolset.of([a, b]);
    expect(toolset.find('a')).toBe(a);
    expect(toolset.find('constructor')).toBeUndefined();
    expect(toolset.find('__proto__')).toBeUndefined();
  });

  it('adds at the end, and leaves the toolset it came from as it was', () => {
    const before = Toolset.of([a, b]);
    const { toolset, added } = before.add([c]);
    expect(toolset.specs.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(added).toEqual([c.spec]);
    expect(before.specs.map(({ id }) => id)).toEqual(['a', 'b']);
  });

  it('keeps the very array of specs while nothing is new, so that a wire need not encode again', () => {
    const before = Toolset.of([a, b]);
    const { toolset, added } = before.add([toolOf({ id: 'a' })]);
    expect(toolset.specs).toBe(before.specs);
    expect(added).toEqual([]);
  });

  it('calls the newest instance under the old spec', () => {
    const newer = { ...toolOf({ id: 'a' }), timeoutMs: 7 };
    const { toolset } = Toolset.of([a]).add([newer]);
    expect(toolset.find('a')).toEqual({ ...newer, spec: a.spec });
    expect(toolset.find('a')?.spec).toBe(a.spec);
  });

  it('remembers for what cause a tool was removed, until it comes back', () => {
    const cause: RemovalCause = { kind: 'removed', strategy: 's', howToGetBack: 'Search again.' };
    const { toolset: without, removed } = Toolset.of([a, b]).remove([a], cause);
    expect([removed, without.find('a'), without.removalOf('a')]).toEqual([['a'], undefined, cause]);
    const { toolset: again } = without.add([a]);
    expect(again.removalOf('a')).toBeUndefined();
    expect(again.specs.map(({ id }) => id)).toEqual(['b', 'a']);
  });

  it('stays the same when there is nothing to remove, and when nothing is filtered out', () => {
    const toolset = Toolset.of([a]);
    expect(toolset.remove([], { kind: 'surface' }).toolset).toBe(toolset);
    expect(toolset.filter(() => true)).toBe(toolset);
  });

  it('holds the tools that went with a role, until they are there again, tried, or removed for another cause', () => {
    const { toolset } = Toolset.of([a, b, c]).remove([a, b, c], { kind: 'role' });
    expect(toolset.removedWithRole).toEqual([a, b, c]);
    expect(toolset.add([a]).toolset.removedWithRole).toEqual([b, c]);
    expect(toolset.withhold(['b'], { kind: 'withheld' }).toolset.removedWithRole).toEqual([a, c]);
    const tried = toolset.withoutSuspended([c]);
    expect([tried.removedWithRole, tried.removalOf('c')]).toEqual([[a, b], { kind: 'role' }]);
  });

  it('takes the causes of removals to another process and back, and holds no tool there that only a text would say went with a role', () => {
    const said: RemovalCause = {
      kind: 'removed',
      strategy: 's',
      howToGetBack: wayBack({ kind: 'role' }),
    };
    const { removals } = Toolset.of([a, b]).remove([a, b], ({ spec }) =>
      spec.id === 'a' ? { kind: 'role' } : said,
    ).toolset;
    const resumed = Toolset.of([c]).resumed(
      ['c'],
      JSON.parse(JSON.stringify(removals)) as SavedRemovals,
      [a, b],
    );
    expect(resumed.removals).toEqual(removals);
    expect(resumed.removedWithRole).toEqual([a]);
  });
});

describe('the cause of a removal', () => {
  it.each<[RemovalCause, string]>([
    [
      { kind: 'role' },
      'The actor of the run may not use it at present. Once they may, it can come back.',
    ],
    [
      { kind: 'evicted' },
      'Newer ones took its place. To get it back, call the tool that returned it again.',
    ],
    [{ kind: 'withheld', after: 'pay' }, 'It was taken away after pay. Continue without it.'],
    [
      { kind: 'phase', phase: 'cart', leadingBack: [] },
      'It belongs to the phase "cart", which is over.',
    ],
    [
      { kind: 'phase', phase: 'cart', leadingBack: ['a', 'b'] },
      'It belongs to the phase "cart", which is over. a or b leads back to it.',
    ],
    [
      { kind: 'removed', strategy: 's' },
      'It was removed by s. To get it back, call the tool that gave it again.',
    ],
  ])('is worded for the model and read back from what is stored: %j', (cause, words) => {
    expect(wayBack(cause)).toBe(words);
    expect(isRemovalCause(JSON.parse(JSON.stringify(cause)))).toBe(true);
  });

  it.each([
    'The actor of the run may not use it at present.',
    null,
    { kind: 'toString' },
    { kind: 'search' },
    { kind: 'role', givenBy: 1 },
    { kind: 'phase', phase: 'a' },
  ])('is not read from %j', (stored) => {
    expect(isRemovalCause(stored)).toBe(false);
  });
});
