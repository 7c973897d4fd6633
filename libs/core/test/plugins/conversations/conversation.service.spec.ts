import { describe, expect, it } from '@jest/globals';
import { ConversationService } from '@toolloop/core';
import { call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { alice, desk } from '../../hostile/bench.js';

const everything = { version: 'v1', allow: ['*'], flow: 'off' } as const;
const read = calls(call('inbox__read', { page: 1 }));

async function talked(script: readonly ScriptedTurn[], ...ids: readonly string[]) {
  const { run, module } = await desk(script, everything, { inbox: 'a secret of the inbox' });
  for (const conversationId of ids)
    await run({ conversationId, prompt: `Hello ${conversationId}` });
  const service: ConversationService = module.get(ConversationService);
  return { service, run };
}

const strangers = [
  ['another actor', { ...alice, actor: { id: 'eve', roles: [] } }],
  ['the same actor of another tenant', { ...alice, tenant: 'globex' }],
  ['an actor without an id', { ...alice, actor: { roles: [] } }],
] as const;

describe('conversations', () => {
  it('are listed to whose they are, the last used first, page by page', async () => {
    const { service, run } = await talked(
      [text('1'), text('2'), text('3'), text('4')],
      'a',
      'b',
      'c',
    );
    await run({ conversationId: 'a', prompt: 'Again' });
    const ids = async (listing?: object) =>
      (await service.list(alice, listing)).map(({ conversationId }) => conversationId);
    expect(await ids()).toEqual(['a', 'c', 'b']);
    expect(await ids({ limit: 2 })).toEqual(['a', 'c']);
    expect(await ids({ limit: 2, after: 'c' })).toEqual(['b']);
    expect((await service.list(alice)).map(({ messages }) => messages)).toEqual([4, 2, 2]);
  });

  it('are read as what was said and called', async () => {
    const { service } = await talked([read, text('Nothing new.')], 'a');
    const part = await service.read('a', alice);
    expect(part).toEqual({
      conversationId: 'a',
      entries: [
        { position: 0, role: 'user', text: 'Hello a' },
        {
          position: 2,
          role: 'tool',
          text: '',
          call: expect.objectContaining({ declaredId: 'inbox__read', status: 'succeeded' }),
        },
        { position: 3, role: 'assistant', text: 'Nothing new.' },
      ],
    });
  });

  it('are read part by part', async () => {
    const { service } = await talked([text('1'), text('2')], 'a', 'a');
    const first = await service.read('a', alice, { limit: 3 });
    expect([first?.entries.length, first?.next]).toEqual([3, 3]);
    const second = await service.read('a', alice, { from: 3, limit: 3 });
    expect([second?.entries.map(({ text: said }) => said), second?.next]).toEqual([
      ['2'],
      undefined,
    ]);
    expect(await service.read('a', alice, { from: 9 })).toEqual({
      conversationId: 'a',
      entries: [],
    });
  });

  it('are deleted, once, and begin anew', async () => {
    const { service, run } = await talked([text('1'), text('2')], 'a');
    expect([await service.delete('a', alice), await service.delete('a', alice)]).toEqual([
      true,
      false,
    ]);
    expect([await service.read('a', alice), await service.list(alice)]).toEqual([undefined, []]);
    expect((await run({ conversationId: 'a', prompt: 'New' })).messages).toHaveLength(2);
  });

  it.each(strangers)('do not exist for %s', async (_, who) => {
    const { service } = await talked([text('1')], 'a');
    expect(await service.list(who)).toEqual([]);
    expect([await service.read('a', who), await service.delete('a', who)]).toEqual([
      undefined,
      false,
    ]);
    expect(await service.read('a', alice)).toBeDefined();
  });
});
