import { describe, expect, it } from '@jest/globals';
import { assemble, NO_USAGE, type ModelEvent } from '@toolloop/protocol';

async function* eventsOf(
  events: readonly ModelEvent[],
  failure?: Error,
): AsyncGenerator<ModelEvent> {
  for (const event of events) yield await Promise.resolve(event);
  if (failure) throw failure;
}

const EVENTS: readonly ModelEvent[] = [
  { type: 'reasoning-delta', text: 'Let me ' },
  { type: 'reasoning-delta', text: 'look.' },
  { type: 'text-delta', text: 'I look ' },
  { type: 'tool-call-delta', toolCallId: 'a', name: 'get_order', argumentsDelta: '{"id":7' },
  { type: 'text-delta', text: 'it up.' },
  { type: 'tool-call', toolCallId: 'b', name: 'get_order', arguments: '{"id":8}' },
  { type: 'tool-call', toolCallId: 'a', name: 'get_order', arguments: '{"id":7}' },
  { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } },
  { type: 'usage', usage: { inputTokens: 3, outputTokens: 4 } },
  { type: 'finish', finishReason: 'tool_calls', providerData: { openai: { model: 'own-1' } } },
];

describe('an assembled answer', () => {
  it('has what the events say, and the calls in the model’s order', async () => {
    expect(await assemble(eventsOf(EVENTS))).toEqual({
      text: 'I look it up.',
      reasoning: 'Let me look.',
      toolCalls: [
        { toolCallId: 'b', name: 'get_order', arguments: '{"id":8}' },
        { toolCallId: 'a', name: 'get_order', arguments: '{"id":7}' },
      ],
      finishReason: 'tool_calls',
      usage: { inputTokens: 3, outputTokens: 4 },
      providerData: { openai: { model: 'own-1' } },
    });
  });

  it('has no count of tokens that is negative', async () => {
    const usage = {
      inputTokens: -5,
      outputTokens: 7,
      cachedInputTokens: -1,
      cacheWriteInputTokens: -2,
      reasoningTokens: -3,
    };
    const answer = await assemble(eventsOf([{ type: 'usage', usage }]));
    expect(answer.usage).toEqual({
      inputTokens: 0,
      outputTokens: 7,
      cachedInputTokens: 0,
      cacheWriteInputTokens: 0,
      reasoningTokens: 0,
    });
  });

  it('has no call of which deltas came only, and is incomplete where nothing says why it ended', async () => {
    expect(await assemble(eventsOf(EVENTS.slice(0, 4)))).toEqual({
      text: 'I look ',
      reasoning: 'Let me look.',
      toolCalls: [],
      finishReason: 'incomplete',
      usage: NO_USAGE,
    });
  });

  it('is none where the provider fails', async () => {
    await expect(assemble(eventsOf(EVENTS, new Error('It broke.')))).rejects.toThrow('It broke.');
  });
});
