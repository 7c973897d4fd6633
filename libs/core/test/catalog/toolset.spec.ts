import { describe, expect, it } from '@jest/globals';
import { Toolset } from '../../src/catalog/toolset.js';
import { toolOf } from '../discovery/tools.js';

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
    const { toolset, added } = before.with([c]);
    expect(toolset.specs.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(added).toEqual([c.spec]);
    expect(before.specs.map(({ id }) => id)).toEqual(['a', 'b']);
  });

  it('keeps the very array of specs while nothing is new, so that a wire need not encode again', () => {
    const before = Toolset.of([a, b]);
    const { toolset, added } = before.with([toolOf({ id: 'a' })]);
    expect(toolset.specs).toBe(before.specs);
    expect(added).toEqual([]);
  });

  it('calls the newest instance under the old spec', () => {
    const newer = { ...toolOf({ id: 'a' }), timeoutMs: 7 };
    const { toolset } = Toolset.of([a]).with([newer]);
    expect(toolset.find('a')).toEqual({ ...newer, spec: a.spec });
    expect(toolset.find('a')?.spec).toBe(a.spec);
  });

  it('remembers how a removed tool comes back, until it does', () => {
    const { toolset: without, removed } = Toolset.of([a, b]).without(['a', 'nothing'], 'Search again.');
    expect([removed, without.find('a'), without.removalOf('a')]).toEqual([['a'], undefined, 'Search again.']);
    const { toolset: again } = without.with([a]);
    expect(again.removalOf('a')).toBeUndefined();
    expect(again.specs.map(({ id }) => id)).toEqual(['b', 'a']);
  });

  it('stays the same when there is nothing to remove', () => {
    const toolset = Toolset.of([a]);
    expect(toolset.without(['b'], 'x').toolset).toBe(toolset);
  });
});
