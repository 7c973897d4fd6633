import { LanguageModel, type Message } from '@toolloop/core';
import type { ModelRequest } from '@toolloop/protocol';
import { describe, expect, it } from '@jest/globals';
import { offline } from '../src/index.js';
import { assistantMessage, eventsOf, runLoop, spec } from './loop.js';
import { orderDesk } from './order-desk.js';

const tools = orderDesk.map((one) => one.spec);

function asked(prompt: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return { messages: [{ role: 'user', content: prompt }], tools, ...more };
}

const question = "What is John Smith's average spend?";

describe('the port', () => {
  it('is a language model that names itself', () => {
    const model = offline();
    expect(model).toBeInstanceOf(LanguageModel);
    expect([model.provider, model.modelId]).toEqual(['offline', 'rules']);
  });

  it('streams a call as delta, call, usage, finish', async () => {
    const events = await eventsOf(offline(), asked(question));
    const call = { toolCallId: 'offline_0', name: 'crm__searchCustomers' };
    expect(events).toEqual([
      { type: 'tool-call-delta', ...call, argumentsDelta: '{"name":"John Smith"}' },
      { type: 'tool-call', ...call, arguments: '{"name":"John Smith"}' },
      { type: 'usage', usage: { inputTokens: expect.any(Number), outputTokens: 11 } },
      { type: 'finish', finishReason: 'tool_calls' },
    ]);
  });

  it('streams text in several deltas', async () => {
    const events = await eventsOf(offline(), asked('Who are you?'));
    expect(events.filter(({ type }) => type === 'text-delta').length).toBeGreaterThan(5);
    expect(events.slice(-2)).toEqual([
      {
        type: 'usage',
        usage: { inputTokens: expect.any(Number), outputTokens: expect.any(Number) },
      },
      { type: 'finish', finishReason: 'stop' },
    ]);
  });

  it('gives every call of a transcript an id of its own', async () => {
    const { messages } = await runLoop('Give me the items of all orders of John Smith', orderDesk);
    const again = await runLoop(question, orderDesk, { messages });
    const ids = again.messages
      .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
      .map(({ toolCallId }) => toolCallId);
    expect(ids).toEqual(ids.map((_, index) => `offline_${index}`));
  });

  it('takes no id that is taken', async () => {
    const messages: Message[] = [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: '',
        toolCalls: [{ toolCallId: 'offline_1', name: 'gone', arguments: '{}' }],
      },
      { role: 'tool', toolCallId: 'offline_1', toolName: 'gone', content: 'null' },
      { role: 'assistant', content: 'done' },
      { role: 'user', content: question },
    ];
    expect(
      assistantMessage(await eventsOf(offline(), { messages, tools })).toolCalls?.[0]?.toolCallId,
    ).toBe('offline_2');
  });

  it('answers the same request the same way, whatever was asked between', async () => {
    const model = offline();
    const first = await eventsOf(model, asked(question));
    await eventsOf(model, asked('Cancel order o-100'));
    expect(await eventsOf(model, asked(question))).toEqual(first);
  });

  it('keeps two interleaved runs apart', async () => {
    const model = offline();
    const signal = new AbortController().signal;
    const one = model.stream(asked(question), signal)[Symbol.asyncIterator]();
    const other = model.stream(asked('Cancel order o-100'), signal)[Symbol.asyncIterator]();
    const [first, second] = [await one.next(), await other.next()];
    expect(first.value).toMatchObject({ name: 'crm__searchCustomers' });
    expect(second.value).toMatchObject({ name: 'orders__getOrder' });
  });

  it('reads the text of messages made of parts', async () => {
    const content = [
      { type: 'image' as const, url: 'data:image/png;base64,' },
      { type: 'text' as const, text: question },
    ];
    expect(
      assistantMessage(await eventsOf(offline(), { messages: [{ role: 'user', content }], tools }))
        .toolCalls,
    ).toHaveLength(1);
  });
});

describe('aborting', () => {
  it('ends at once when aborted before', async () => {
    expect(await eventsOf(offline(), asked(question), AbortSignal.abort())).toEqual([]);
  });

  it('ends in the middle of a pause of an hour', async () => {
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 20);
    expect(
      await eventsOf(offline({ delayMs: 3_600_000 }), asked('Who are you?'), abort.signal),
    ).toEqual([]);
  });

  it('pauses before each delta', async () => {
    const started = performance.now();
    const events = await eventsOf(offline({ delayMs: 5 }), asked(question));
    expect(performance.now() - started).toBeGreaterThanOrEqual(4);
    expect(events).toHaveLength(4);
  });
});

describe('tool choice', () => {
  it('answers in text where no tool may be called', async () => {
    const answer = assistantMessage(
      await eventsOf(offline(), asked(question, { toolChoice: 'none' })),
    );
    expect(answer.toolCalls).toBeUndefined();
    expect(answer.content).toContain('no LLM');
  });

  it('calls the named tool, whatever its words', async () => {
    const named = asked('o-100 please', { toolChoice: { tool: 'orders__getOrder' } });
    expect(assistantMessage(await eventsOf(offline(), named)).toolCalls?.[0]).toMatchObject({
      name: 'orders__getOrder',
      arguments: '{"orderId":"o-100"}',
    });
  });

  it('asks for what the named tool lacks', async () => {
    const named = asked('hello there', { toolChoice: { tool: 'orders__getOrder' } });
    expect(assistantMessage(await eventsOf(offline(), named)).content).toContain('`orderId`');
  });

  it('calls the named tool once', async () => {
    const run = await runLoop('o-100 please', orderDesk, {
      toolChoice: { tool: 'orders__getOrder' },
    });
    expect(run.calls).toEqual(['orders__getOrder {"orderId":"o-100"}']);
  });

  it('calls something when a call is required', async () => {
    const free = [...tools, spec('time__now', { description: 'Current time.' })];
    const answer = assistantMessage(
      await eventsOf(offline(), asked('hello there', { tools: free, toolChoice: 'required' })),
    );
    expect(answer.toolCalls?.[0]?.name).toBe('time__now');
  });
});

describe('what it says of itself', () => {
  it.each(['Who are you?', 'Are you an LLM?', 'What can you do?', 'help'])(
    'is no LLM: %s',
    async (prompt) => {
      const { text, calls } = await runLoop(prompt, orderDesk);
      expect(calls).toEqual([]);
      expect(text).toMatch(/rule-based offline model, no LLM/);
      expect(text).toContain("openai('gpt-5-mini')");
      expect(text).toContain('- search customers: Find customers by name.');
    },
  );

  it('lists what it can do when no tool fits', async () => {
    const { text } = await runLoop('Paint me a picture', orderDesk);
    expect(text).toMatch(/^I found no tool that fits your words\./);
    expect(text).toContain('- get order: One order by its id.');
  });

  it('copes with no tools and no question', async () => {
    expect((await runLoop('hello', [])).text).toContain('I have no tools at the moment');
    expect(
      assistantMessage(await eventsOf(offline(), { messages: [], tools: [] })).content,
    ).toContain('no LLM');
  });
});
