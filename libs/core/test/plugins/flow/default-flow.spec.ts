import { describe, expect, it } from '@jest/globals';
import { attach, type Policy, tool, ToolLoopService } from '@toolloop/core';
import { type PolicyEngine, DataPolicyEngine } from '@toolloop/core/policy';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';
import { callOf, subjectOf, taintedFlow } from '../../policy/subjects.js';

const ALL: Policy = { version: 'all', allow: ['*'] };
const READ = calls(call('probe__read', { key: 'a letter' }));
const WRITE = calls(call('probe__write', { key: 'a note' }));

/**
 * Reads something from outside and then changes something, under the policies of the application
 * and of the run.
 */
async function readThenWrite(application: Policy | readonly Policy[], own?: Policy) {
  const loop = await openShop(new ScriptedModel([READ, WRITE, text('Done.')]), {
    policy: application,
  });
  const { finishReason, toolCalls } = await loop.run(ask(own && { policy: own }));
  return { finishReason, rule: toolCalls[1]?.decision?.rule };
}

describe('invariant 15: an application whose policies name no level of flow', () => {
  it('invariant 15: asks before a change once the model has read text from outside', async () => {
    expect(await readThenWrite(ALL)).toEqual({ finishReason: 'waiting', rule: 'flow: taint' });
  });

  it('invariant 15: keeps its level under policies that narrow it and name none, or a weaker one', async () => {
    expect((await readThenWrite(ALL, { version: 'own', allow: ['*'] })).finishReason).toBe(
      'waiting',
    );
    expect(
      (await readThenWrite(ALL, { version: 'own', allow: ['*'], flow: 'off' })).finishReason,
    ).toBe('waiting');
  });

  it('has no level imposed on it by a policy that narrows one which names `off`, or that stands beside it', async () => {
    const off: Policy = { ...ALL, flow: 'off' };
    const done = { finishReason: 'stop', rule: 'allow: *' };
    expect(await readThenWrite(off, { version: 'own', allow: ['*'] })).toEqual(done);
    expect(await readThenWrite([off, { version: 'also', allow: ['*'] }])).toEqual(done);
    expect(
      (await readThenWrite(off, { version: 'own', allow: ['*'], flow: 'taint' })).finishReason,
    ).toBe('waiting');
  });

  it('invariant 15: is not spared by a policy in shadow that names a level', async () => {
    expect((await readThenWrite([ALL, { ...ALL, flow: 'off', shadow: true }])).finishReason).toBe(
      'waiting',
    );
  });

  it('invariant 15: has the level as well where its policy is replaced, and a tenant none of its own', async () => {
    const module = await openModule(new ScriptedModel([READ, WRITE, text('Done.')]), {
      policy: { ...ALL, flow: 'off' },
    });
    const engine = module.get(DataPolicyEngine);
    engine.replace(ALL);
    expect((await module.get(ToolLoopService).run(ask())).finishReason).toBe('waiting');
    const change = {
      ...subjectOf({ effect: 'state_change' }),
      call: callOf({ flow: taintedFlow() }),
    };
    const ruleOf = (one: Pick<PolicyEngine, 'decide'>): string => one.decide(change).rule;
    expect(ruleOf(engine)).toBe('flow: taint');
    const own = [{ version: 'acme', allow: ['*'] }];
    engine.replace({ ...ALL, flow: 'off' });
    expect(ruleOf(engine.with({ tenant: 'acme', policies: own }))).toBe('allow: *');
    expect(ruleOf(engine.with({ policies: own }))).toBe('flow: taint');
  });

  it('asks no person about changes one after the other that tell the model nothing but that they took place', async () => {
    const noted: unknown[] = [];
    const note = tool({
      id: 'notes__add',
      description: 'Adds a note.',
      effect: 'state_change',
      input: { type: 'object', properties: { text: { type: 'string' } } },
      reveal: [],
      execute: (input) => noted.push(input),
    });
    const adding = calls(call('notes__add', { text: 'one' }), call('notes__add', { text: 'two' }));
    const loop = await openShop(new ScriptedModel([adding, text('Done.')]), {
      policy: ALL,
      tools: [note],
    });
    expect((await loop.run(ask())).finishReason).toBe('stop');
    expect(noted).toEqual([{ text: 'one' }, { text: 'two' }]);
  });

  it('invariant 15: asks after a call that shows nothing but a picture, which may hold a text', async () => {
    const scan = tool({
      id: 'scanner__scan',
      description: 'Scans a letter.',
      effect: 'read_only',
      input: { type: 'object', properties: {} },
      reveal: [],
      execute: () =>
        attach(undefined, {
          type: 'image',
          mediaType: 'image/png',
          data: Uint8Array.from([1, 2, 3, 4]),
        }),
    });
    const loop = await openShop(new ScriptedModel([calls(call('scanner__scan', {})), WRITE]), {
      policy: ALL,
      tools: [scan],
    });
    expect((await loop.run(ask())).finishReason).toBe('waiting');
  });
});
