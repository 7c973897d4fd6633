import { describe, expect, it } from '@jest/globals';
import type { Citation, ModelEvent } from '@toolloop/protocol';
import { call, calls, events, ScriptedModel, text } from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const CITATION: Citation = { url: 'https://example.org/tea', title: 'Tea', start: 0, end: 4 };
const PROVIDER_DATA = { scripted: { blocks: [{ type: 'server_tool_use', id: 'ws_1' }] } };
const SEARCHED: readonly ModelEvent[] = [
  { type: 'provider-tool', id: 'ws_1', name: 'web_search', status: 'started' },
  { type: 'provider-tool', id: 'ws_1', name: 'web_search', status: 'succeeded' },
  { type: 'text-delta', text: 'Tea.' },
  { type: 'citation', citation: CITATION },
  { type: 'finish', finishReason: 'stop', providerData: PROVIDER_DATA },
];

describe('a tool that the provider runs itself', () => {
  it('is shown, and is no call of the run', async () => {
    const { events: seen, result } = await play(
      await openShop(new ScriptedModel([events(SEARCHED)])),
      ask({ limits: { callsPerTool: 0 } }),
    );
    expect(seen.filter(({ type }) => type === 'provider-tool')).toMatchObject([
      { step: 1, id: 'ws_1', name: 'web_search', status: 'started' },
      { step: 1, id: 'ws_1', name: 'web_search', status: 'succeeded' },
    ]);
    expect(seen.filter(({ type }) => type.startsWith('tool-'))).toEqual([]);
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Tea.', toolCalls: [] });
  });

  it('may have the name of one of ours, and ours is not run for it', async () => {
    const shown: ModelEvent[] = [
      { type: 'provider-tool', id: 'x', name: 'probe__write', status: 'started' },
      ...SEARCHED.slice(2),
    ];
    const { result } = await play(await openShop(new ScriptedModel([events(shown)])), ask());
    expect(result.toolCalls).toEqual([]);
  });

  it('goes back to the provider as it came, beside the calls of the run', async () => {
    const step: ModelEvent[] = [
      ...SEARCHED.slice(0, 2),
      { type: 'tool-call', toolCallId: 'c1', name: 'probe__read', arguments: '{}' },
      { type: 'finish', finishReason: 'tool_calls', providerData: PROVIDER_DATA },
    ];
    const model = new ScriptedModel([events(step), text('Done.')]);
    await play(await openShop(model), ask());
    expect(model.requests[1]?.messages[1]).toMatchObject({
      role: 'assistant',
      providerData: PROVIDER_DATA,
    });
  });
});

describe('a citation', () => {
  it('is an event, and part of the answer in the transcript and the result', async () => {
    const { events: seen, result } = await play(
      await openShop(new ScriptedModel([events(SEARCHED)])),
      ask(),
    );
    expect(seen.filter(({ type }) => type === 'citation')).toMatchObject([
      { step: 1, citation: CITATION },
    ]);
    expect(result.citations).toEqual([CITATION]);
    expect(result.messages.at(-1)).toMatchObject({ content: 'Tea.', citations: [CITATION] });
    expect(JSON.parse(JSON.stringify(result))).toMatchObject({ citations: [CITATION] });
  });

  it.each([
    'javascript:alert(1)',
    'JAVASCRIPT:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    '//evil.example',
    '/local',
    '',
    5,
    {},
  ])('has no address but one of the web, whatever model says it: %j', async (url) => {
    const said = [{ url, title: 'Tea' }, { url }].map((citation): ModelEvent => ({
      type: 'citation',
      citation: citation as Citation,
    }));
    const model = new ScriptedModel([
      events([
        { type: 'text-delta', text: 'Tea.' },
        ...said,
        { type: 'finish', finishReason: 'stop' },
      ]),
    ]);
    const { events: seen, result } = await play(await openShop(model), ask());
    expect(result.citations).toEqual([{ title: 'Tea' }]);
    expect(seen.filter(({ type }) => type === 'citation')).toMatchObject([
      { citation: { title: 'Tea' } },
    ]);
    expect(JSON.stringify(seen)).not.toContain('"url"');
  });

  it('belongs to the answer it came with: the result has those of the last', async () => {
    const first: ModelEvent[] = [{ type: 'citation', citation: CITATION }];
    const both = {
      ...calls(call('probe__read')),
      events: () => [...first, ...calls(call('probe__read', {}, { id: 'c1' })).events(() => 'c1')],
    };
    const { result } = await play(await openShop(new ScriptedModel([both, text('Done.')])), ask());
    expect(result.citations).toBeUndefined();
    expect(result.messages[1]).toMatchObject({ role: 'assistant', citations: [CITATION] });
  });

  it('is not taken from a message from outside', async () => {
    const model = new ScriptedModel([text('Done.')]);
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Tea.', citations: [CITATION] },
      { role: 'user', content: 'And?' },
    ] as const;
    await play(await openShop(model), ask({ messages }));
    expect(model.requests[0]?.messages[1]).not.toHaveProperty('citations');
  });
});
