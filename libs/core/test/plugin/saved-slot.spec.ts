import { describe, expect, it } from '@jest/globals';
import { type KeptSlot, schemaOf, slot, type SlotDeclaration } from '@toolloop/core/plugin';
import type { AnySlot } from '../../src/plugin/slot.js';
import { RunOfPlugins } from '../../src/plugin/run-of-plugins.js';
import { DEFAULT_LIMITS } from '@toolloop/core';

const isList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

/** A slot with the calls that a plugin has seen. */
function seenCalls(
  rest: Partial<SlotDeclaration<readonly string[]>> = {},
): KeptSlot<readonly string[]> {
  return slot({
    name: 'acme.a/seen',
    version: 1,
    schema: schemaOf(isList),
    initial: () => [],
    inherit: 'fresh',
    ...rest,
  });
}

function runView(slots: readonly AnySlot[] = [], around?: RunOfPlugins): RunOfPlugins {
  return new RunOfPlugins(
    {
      context: { runId: 'run', actor: {}, tenant: 'acme', context: {}, state: new Map() },
      requestId: 'request',
      mode: 'live',
      approvals: 'suspend',
      limits: DEFAULT_LIMITS,
      options: {},
      signal: new AbortController().signal,
    },
    slots,
    around,
  );
}

describe('the values of a run that is saved', () => {
  it('are those of a process that continues it', () => {
    const seen = seenCalls();
    const before = runView([seen]);
    before.set(seen, (now) => [...now, 'call_1']);
    const saved = before.save();
    expect(saved).toEqual({ 'acme.a/seen': { version: 1, value: ['call_1'] } });
    const after = runView([seen]);
    after.restore(saved);
    expect(after.get(seen)).toEqual(['call_1']);
  });

  it('are left out of what is saved as long as nothing has asked for them', () => {
    expect(runView([seenCalls()]).save()).toEqual({});
  });

  it('are written back as they were if this process has no plugin for them', () => {
    const other = { 'acme.gone/list': { version: 7, value: { a: [1] } } };
    const seen = seenCalls();
    const run = runView([seen]);
    run.restore(other);
    run.set(seen, (now) => [...now, 'call_1']);
    expect(run.save()).toEqual({ ...other, 'acme.a/seen': { version: 1, value: ['call_1'] } });
  });

  it('are saved by the run around a sub-run if they are shared', () => {
    const seen = seenCalls({ inherit: 'share' });
    const outer = runView([seen]);
    const inner = runView([seen], outer);
    inner.set(seen, () => ['inner']);
    expect(inner.save()).toEqual({});
    expect(outer.save()['acme.a/seen']?.value).toEqual(['inner']);
  });

  it('pass through each step between their version and that of the plugin', () => {
    const seen = seenCalls({
      version: 3,
      upgrade: {
        1: (saved) => ({ list: saved }),
        2: (saved) => (Object(saved) as { readonly list: string[] }).list.map((id) => `${id}!`),
      },
    });
    const run = runView([seen]);
    run.restore({ 'acme.a/seen': { version: 1, value: ['a'] } });
    expect(run.get(seen)).toEqual(['a!']);
  });

  it.each([
    ['of a later version', 2, ['a'], '"acme.a/seen" is of version 2, and this is 1'],
    ['of another form', 1, 'a', '"acme.a/seen" is not what it must be'],
  ])('keep the run from being resumed if they are %s', (_what, version, value, problem) => {
    expect(seenCalls().problemWith({ version, value })).toBe(problem);
  });

  it('keep it from being resumed if a step of the upgrade is missing', () => {
    const seen = seenCalls({ version: 3, upgrade: { 2: (saved) => saved } });
    expect(seen.problemWith({ version: 1, value: [] })).toBe(
      '"acme.a/seen" has no step from its version 1',
    );
  });

  it('begin anew if they cannot be read and the plugin allows that', () => {
    const seen = seenCalls({ ifUnreadable: 'initial' });
    const run = runView([seen]);
    expect(seen.problemWith({ version: 1, value: 7 })).toBeUndefined();
    run.restore({ 'acme.a/seen': { version: 1, value: 7 } });
    expect(run.get(seen)).toEqual([]);
  });

  it('are refused when they are set if no later process could read them', () => {
    const seen = seenCalls();
    const run = runView([seen]);
    const given = run.get(seen);
    const wrong = [7] as unknown as readonly string[];
    expect(() => run.set(seen, () => wrong)).toThrow('"acme.a/seen" is not what it must be');
    expect(run.get(seen)).toBe(given);
  });

  it('are refused if no plugin lists their slot, which would lose them', () => {
    const seen = seenCalls();
    expect(() => runView().get(seen)).toThrow('No plugin lists the slot "acme.a/seen"');
    expect(() => runView().set(seen, () => [])).toThrow('No plugin lists');
  });
});
