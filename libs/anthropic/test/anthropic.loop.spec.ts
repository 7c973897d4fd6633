import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  type LanguageModel,
  type LoopRequest,
  RunError,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import type { AnswerFormat } from '@toolloop/protocol';
import { collect } from '@toolloop/testing';
import { setTimeout as sleep } from 'node:timers/promises';
import { sse, START, text } from './decode.js';
import { model, provider, stopProvider } from './played-model.js';
import { calling, repeating, strictProvider } from './strict-provider.js';

let app: TestingModule | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  await stopProvider();
});

const ORDER: AnswerFormat['schema'] = {
  type: 'object',
  properties: { id: { type: 'integer' } },
  required: ['id'],
  additionalProperties: false,
};

const getOrder = tool({
  id: 'desk__get_order',
  description: 'One order.',
  input: ORDER,
  effect: 'read_only',
  reveal: 'all',
  execute: async ({ id }: { id: number }, context) => {
    await sleep(id);
    return `order ${id} of ${context.tenant}`;
  },
});

async function loopOf(played: LanguageModel): Promise<ToolLoopService> {
  const loop = ToolLoopModule.forRoot({
    model: played,
    instructions: 'Help.',
    policy: { allow: ['desk__*'] },
    tools: [getOrder],
  });
  app = await Test.createTestingModule({ imports: [loop] }).compile();
  await app.init();
  return app.get(ToolLoopService);
}

function asked(tenant: string): LoopRequest {
  return { prompt: `Orders of ${tenant}?`, actor: { id: 'ann' }, tenant };
}

describe('a loop', () => {
  it('gives every thought back with all before it unchanged, and the results of parallel calls in one turn', async () => {
    const steps = [
      calling(
        ['toolu_a', 'desk__get_order', '{"id": 9}'],
        ['toolu_b', 'desk__get_order', '{"id":2}'],
      ),
      calling(['toolu_c', 'desk__get_order', '{"id":3}']),
      repeating,
    ];
    const loop = await loopOf(await model(strictProvider(...steps)));
    const result = await loop.run(asked('acme'));
    expect(result.text).toBe('order 3 of acme');
    expect(result.toolCalls.map(({ toolCallId }) => toolCallId)).toEqual([
      'toolu_a',
      'toolu_b',
      'toolu_c',
    ]);
    expect(result).toMatchObject({
      finishReason: 'stop',
      steps: 3,
      usage: { inputTokens: 9, outputTokens: 12 },
    });
  });

  it('shows neither of two tenants on one model anything of the other', async () => {
    const loop = await loopOf(
      await model(strictProvider(calling(['toolu_a', 'desk__get_order', '{"id":5}']), repeating)),
    );
    const results = await Promise.all(
      ['acme', 'globex', 'acme', 'globex'].map((tenant) => loop.run(asked(tenant))),
    );
    expect(results.map((result) => result.text)).toEqual(
      ['acme', 'globex', 'acme', 'globex'].map((tenant) => `order 5 of ${tenant}`),
    );
    const [acme = [], globex = []] = ['acme', 'globex'].map((tenant) =>
      provider().requests.filter(({ body }) => body.includes(tenant)),
    );
    expect([acme.length, globex.length]).toEqual([4, 4]);
    expect(acme.filter((request) => globex.includes(request))).toEqual([]);
  });

  it('keeps to the rules of the API with a hostile model: repeated ids, broken arguments, unknown tools', async () => {
    const steps = [
      calling(
        ['toolu_a', 'desk__get_order', '{"id":'],
        ['toolu_a', 'desk__get_order', '[1]'],
        ['', 'no such tool!', 'null'],
      ),
      calling(
        ['toolu_a', 'desk__get_order', '{"id":1,"tenant":"globex"}'],
        ['toolu.a', 'desk__get_order', '{"id":1}'],
      ),
      () => text(1, 'I give up.'),
    ];
    const loop = await loopOf(await model(strictProvider(...steps)));
    const result = await loop.run(asked('acme'));
    expect(result).toMatchObject({ finishReason: 'stop', text: 'I give up.' });
    expect(result.toolCalls.map(({ error, result: value }) => error?.code ?? value)).toEqual([
      'invalid_json',
      'invalid_args',
      'unknown_tool',
      'tenant_override',
      'order 1 of acme',
    ]);
  });

  it('closes the socket when it is cancelled in the middle of an answer', async () => {
    const loop = await loopOf(
      await model((response) =>
        response.writeHead(200).write(sse(START, ...text(0, 'Hel').slice(0, 2))),
      ),
    );
    const handle = loop.open(asked('acme'));
    const ended = collect(handle.events$);
    while (provider().requests.length === 0) await sleep(1);
    await sleep(20);
    handle.cancel();
    expect((await ended).at(-1)).toMatchObject({ type: 'run-end', finishReason: 'aborted' });
    await expect(handle.result).rejects.toBeInstanceOf(RunError);
    await provider().untilClosed();
  });

  it('ends with a timeout when the provider only pings', async () => {
    const ping = 'event: ping\ndata: {"type":"ping"}\n\n';
    const played = await model((response) => {
      response.writeHead(200).write(sse(START));
      const timer = setInterval(() => response.write(ping), 5);
      response.on('close', () => clearInterval(timer));
    });
    const loop = await loopOf(played);
    const result = await loop.run({ ...asked('acme'), limits: { modelFirstContentMs: 100 } });
    expect(result.finishReason).toBe('timeout');
    await provider().untilClosed();
  });
});
