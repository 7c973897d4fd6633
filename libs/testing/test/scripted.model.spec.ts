import { describe, expect, it } from '@jest/globals';
import { type Message, ModelError, type ToolSpec } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import {
  ScriptedModel,
  call,
  calls,
  cut,
  events,
  fails,
  hangs,
  text,
  textAndCalls,
} from '@toolloop/testing';
import { UnexpectedModelCallError } from '../src/testing.error.js';

const never = new AbortController().signal;

function request(...messages: readonly Message[]): ModelRequest {
  return { messages, tools: [] };
}

const hello = request({ role: 'user', content: 'Hello' });

async function answer(
  model: ScriptedModel,
  asked: ModelRequest = hello,
  signal: AbortSignal = never,
): Promise<ModelEvent[]> {
  const read: ModelEvent[] = [];
  for await (const event of model.stream(asked, signal)) read.push(event);
  return read;
}

function textOf(read: readonly ModelEvent[]): string {
  return read.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
}

describe('the answers of a ScriptedModel', () => {
  it('streams text in up to three deltas that break no character', async () => {
    const read = await answer(new ScriptedModel([text('ab🙂cd')]));
    expect(read).toEqual([
      { type: 'text-delta', text: 'ab' },
      { type: 'text-delta', text: '🙂c' },
      { type: 'text-delta', text: 'd' },
      { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } },
      { type: 'finish', finishReason: 'stop' },
    ]);
  });

  it('streams no delta for an empty text, and what the options say beside it', async () => {
    const usage = { inputTokens: 1, outputTokens: 2 };
    const read = await answer(
      new ScriptedModel([text('', { reason: 'length', usage, reasoning: 'h' })]),
    );
    expect(read).toEqual([
      { type: 'reasoning-delta', text: 'h' },
      { type: 'usage', usage },
      { type: 'finish', finishReason: 'length' },
    ]);
  });

  it('streams each call in deltas and then assembled', async () => {
    const read = await answer(
      new ScriptedModel([textAndCalls('Hm', call('crm__find', { name: 'x' }, { id: 'c1' }))]),
    );
    const deltas = read.flatMap((event) =>
      event.type === 'tool-call-delta' ? [event.argumentsDelta] : [],
    );
    expect(textOf(read)).toBe('Hm');
    expect(deltas).toHaveLength(3);
    expect(deltas.join('')).toBe('{"name":"x"}');
    expect(read.slice(-3)).toEqual([
      { type: 'tool-call', toolCallId: 'c1', name: 'crm__find', arguments: '{"name":"x"}' },
      { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } },
      { type: 'finish', finishReason: 'tool_calls' },
    ]);
  });

  it('numbers the calls without an id through the whole script', async () => {
    const model = new ScriptedModel([calls(call('a'), call('b')), calls(call('c'))]);
    const read = [...(await answer(model)), ...(await answer(model))];
    expect(read.flatMap((event) => (event.type === 'tool-call' ? [event.toolCallId] : []))).toEqual(
      ['call_1', 'call_2', 'call_3'],
    );
  });

  it.each(['{"name":', ''])('sends the arguments %j as they stand', async (malformed) => {
    const read = await answer(new ScriptedModel([calls(call('crm__find', malformed))]));
    expect(read).toContainEqual({
      type: 'tool-call',
      toolCallId: 'call_1',
      name: 'crm__find',
      arguments: malformed,
    });
    expect(read[0]).toMatchObject({ type: 'tool-call-delta' });
  });

  it('sends exactly the events it was given', async () => {
    const exact: ModelEvent[] = [
      { type: 'finish', finishReason: 'stop' },
      { type: 'finish', finishReason: 'stop' },
    ];
    expect(await answer(new ScriptedModel([events(exact)]))).toEqual(exact);
  });

  it('fails after the words before the failure', async () => {
    const read: ModelEvent[] = [];
    const reading = async (): Promise<void> => {
      for await (const event of new ScriptedModel([
        fails(new ModelError('overloaded', { status: 529 }), 'So'),
      ]).stream(hello, never))
        read.push(event);
    };
    await expect(reading()).rejects.toMatchObject({ name: 'ModelError', status: 529 });
    expect(textOf(read)).toBe('So');
  });

  it('ends without a finish when it is cut', async () => {
    expect(await answer(new ScriptedModel([cut('So')]))).toEqual([
      { type: 'text-delta', text: 'S' },
      { type: 'text-delta', text: 'o' },
    ]);
  });

  it('asks a function of the script what to answer, with the request', async () => {
    const model = new ScriptedModel([
      ({ messages }) => text(`${messages.length} messages`),
      () => Promise.resolve(text('later')),
    ]);
    expect(textOf(await answer(model))).toBe('1 messages');
    expect(textOf(await answer(model))).toBe('later');
    model.assertComplete();
  });
});

describe('an aborted ScriptedModel', () => {
  it.each([
    ['a silent provider', hangs('So')],
    ['a function that never answers', () => new Promise<never>(() => undefined)],
  ])('ends %s', async (_, turn) => {
    const stop = new AbortController();
    const model = new ScriptedModel([turn]);
    setTimeout(() => stop.abort(), 5);
    await answer(model, hello, stop.signal);
    expect(stop.signal.aborted).toBe(true);
    expect(model.openStreams).toBe(0);
  });

  it('ends in the middle of an answer', async () => {
    const stop = new AbortController();
    const read: ModelEvent[] = [];
    for await (const event of new ScriptedModel([fails(new ModelError('late'), 'abc')]).stream(
      hello,
      stop.signal,
    )) {
      read.push(event);
      stop.abort();
    }
    expect(read).toEqual([{ type: 'text-delta', text: 'a' }]);
  });

  it('does not begin when it is aborted already', async () => {
    const aborted = AbortSignal.abort();
    expect(await answer(new ScriptedModel([text('abc')]), hello, aborted)).toEqual([]);
    expect(
      await answer(new ScriptedModel([() => new Promise<never>(() => undefined)]), hello, aborted),
    ).toEqual([]);
  });

  it('counts an answer as closed when the reader leaves', async () => {
    const model = new ScriptedModel([text('abc')]);
    const seen: number[] = [];
    for await (const _ of model.stream(hello, never)) {
      seen.push(model.openStreams);
      break;
    }
    expect(seen).toEqual([1]);
    expect(model.openStreams).toBe(0);
  });
});

describe('what a ScriptedModel records', () => {
  it('keeps the request as it stood, and the objects it was', async () => {
    const tool: ToolSpec = {
      id: 'crm__find',
      declaredId: 'crm__find',
      description: '',
      inputSchema: {},
      effect: 'read_only',
      labels: { returns: 'trusted', reads: 'public', egress: false },
      redaction: { kind: 'reveal', fields: 'all' },
      schemaHash: '',
    };
    const toolCall = { toolCallId: 'c1', name: 'crm__find', arguments: '{}' };
    const assistant = { role: 'assistant' as const, content: 'one', toolCalls: [toolCall] };
    const result: Message = {
      role: 'tool',
      toolCallId: 'c1',
      toolName: 'crm__find',
      content: [{ type: 'text', text: 'found' }],
    };
    const messages: Message[] = [
      { role: 'system', content: 's' },
      assistant,
      result,
      { role: 'assistant', content: '' },
    ];
    const tools = [tool];
    const model = new ScriptedModel([text('')]);
    await answer(model, { instructions: 'Be short.', messages, tools, toolChoice: 'none' });

    const before = structuredClone(messages);
    messages.push({ role: 'user', content: 'later' });
    assistant.content = 'changed';
    toolCall.arguments = 'changed';
    tools.pop();

    const [asked] = model.requests;
    expect(JSON.stringify(asked?.messages)).toBe(JSON.stringify(before));
    expect(asked).toMatchObject({
      instructions: 'Be short.',
      toolChoice: 'none',
      toolIds: ['crm__find'],
    });
    expect(asked?.originalMessages[1]).toBe(assistant);
    expect(asked?.originalMessages).toHaveLength(4);
    expect(asked?.tools).toBe(tools);
    expect(asked?.signal).toBe(never);
  });
});

describe('assertComplete', () => {
  it('says nothing about a script that was played to its end', async () => {
    const model = new ScriptedModel([text('one')]);
    await answer(model);
    expect(() => model.assertComplete()).not.toThrow();
  });

  it('names the answers that are left over', async () => {
    const model = new ScriptedModel([
      text('one'),
      calls(call('a'), call('b')),
      () => text('three'),
    ]);
    await answer(model);
    expect(() => model.assertComplete()).toThrow(
      'Left over: calls(a, b); a function of the request',
    );
  });

  it('throws the unexpected call again, with the last message of its request', async () => {
    const model = new ScriptedModel([text('one')]);
    await answer(model);
    await expect(answer(model)).rejects.toThrow(UnexpectedModelCallError);
    expect(() => model.assertComplete()).toThrow(
      /1 answer and the model was called once more.*"content":"Hello"/,
    );
    expect(model.requests).toHaveLength(2);
  });

  it('throws again what a function of the script threw', async () => {
    const failure = new Error('The transcript is wrong.');
    const model = new ScriptedModel([() => Promise.reject(failure)]);
    await expect(answer(model)).rejects.toBe(failure);
    expect(() => model.assertComplete()).toThrow(failure);
  });
});
