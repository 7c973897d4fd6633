import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { fakeProvider, type FakeProvider } from './fake-provider.js';
import { closeDesks, eventsOf, ofType, serve } from './served-desk.js';

interface ProviderRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | null;
    readonly tool_call_id?: string;
    readonly tool_calls?: readonly {
      readonly id: string;
      readonly function: { readonly name: string; readonly arguments: string };
    }[];
  }[];
  readonly tools: readonly {
    readonly type: string;
    readonly function: { readonly name: string; readonly parameters: object };
  }[];
}

afterAll(closeDesks);

describe('the order desk with a provider behind OPENAI_BASE_URL', () => {
  let provider: FakeProvider;
  let requests: ProviderRequest[];
  let events: LoopEvent[];

  beforeAll(async () => {
    provider = await fakeProvider([
      { name: 'crm__searchCustomers', arguments: '{"name":"John Smith"}' },
      { name: 'customer_c-123_getAverageSpend', arguments: '{}' },
      'John Smith spends 472.19 EUR a month.',
    ]);
    const desk = await serve({
      settings: { openai: { model: 'fake-1', baseURL: provider.baseURL } },
    });
    events = await eventsOf(desk, 'alice', "What is John Smith's average spend?");
    requests = provider.bodies.map((body) => JSON.parse(body) as ProviderRequest);
  });
  afterAll(() => provider.close());

  it('runs to the answer', () => {
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: 'John Smith spends 472.19 EUR a month.',
      steps: 3,
    });
    expect(ofType(events, 'tool-result').map(({ record }) => record.status)).toEqual([
      'succeeded',
      'succeeded',
    ]);
  });

  it('asks the model by name, in three streams', () => {
    expect(requests.map(({ model, stream }) => [model, stream])).toEqual(
      requests.map(() => ['fake-1', true]),
    );
    expect(requests).toHaveLength(3);
  });

  it("offers the customer's tools after the search and not before", () => {
    const [before = [], after = []] = requests.map(({ tools }) =>
      tools.map((tool) => tool.function.name),
    );
    expect(before.filter((name) => name.startsWith('customer_'))).toEqual([]);
    expect(after).toEqual([...before, ...after.slice(before.length)]);
    expect(after.slice(before.length).toSorted()).toEqual([
      'customer_c-123_getAverageSpend',
      'customer_c-123_getRecentOrders',
      'customer_c-123_openCart',
    ]);
  });

  it("leaves the earlier tools' bytes as they were", () => {
    const [first = '', second = '', third = ''] = provider.bodies;
    const [before, after] = requests.map(({ tools }) => `"tools":${JSON.stringify(tools)}`);
    expect(first).toContain(before);
    expect(second).toContain(`${before?.slice(0, -1)},`);
    expect(third).toContain(after);
  });

  it('sends every call back with its one result', () => {
    const last = requests.at(-1)?.messages ?? [];
    expect(last.map(({ role }) => role)).toEqual([
      'system',
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
    ]);
    const called = last.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id));
    expect(called).toEqual(['call_abc1', 'call_abc2']);
    expect(last.flatMap(({ tool_call_id }) => tool_call_id ?? [])).toEqual(called);
    expect(last.at(-1)?.content).toContain('472.19');
  });

  it("lets the model see the customer's address", () => {
    expect(requests[1]?.messages.at(-1)?.content).toContain('john.smith@example.com');
  });

  it('offers tools as strict objects', () => {
    for (const tool of requests[0]?.tools ?? []) {
      expect(tool).toMatchObject({
        type: 'function',
        function: { parameters: { type: 'object', additionalProperties: false } },
      });
    }
  });
});

describe('a provider that fails', () => {
  it('ends the run with an error that tells nothing of it', async () => {
    const provider = await fakeProvider([]);
    const desk = await serve({
      settings: { openai: { model: 'fake-1', baseURL: provider.baseURL } },
    });
    const events = await eventsOf(desk, 'alice', 'Hello');
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'error',
      error: { code: 'model_error' },
    });
    expect(JSON.stringify(events)).not.toContain(provider.baseURL);
    await provider.close();
  });
});
