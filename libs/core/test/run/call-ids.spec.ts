import { describe, expect, it } from '@jest/globals';
import type { LoopRequest, Message } from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import {
  ScriptedModel,
  call,
  calls,
  events,
  eventsOf,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { callIdsIn, play, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

async function playScript(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<PlayedRun> {
  return play(await openShop(new ScriptedModel([...script, text('Done.')])), ask(request));
}

let keys = 0;
/** No two are the same call, so that no limit is reached. */
const read = (id: string) => call('probe__read', { key: `${(keys += 1)}` }, { id });

const callsIn = ({ result }: PlayedRun) =>
  result.messages.flatMap((message) =>
    message.role === 'assistant' ? (message.toolCalls ?? []) : [],
  );

async function* streaming(): AsyncGenerator<number> {
  yield await Promise.resolve(1);
  yield 2;
}

describe('invariant 6: the id of a call', () => {
  it('is the same in its deltas, its start, its progress, its result and the transcript', async () => {
    const { events: seen, result } = await playScript([calls(read('toolu_01'))], {
      context: { act: streaming },
    });
    const life = seen.flatMap((event) =>
      'toolCallId' in event ? [[event.type, event.toolCallId]] : [],
    );
    expect(new Set(life.map(([type]) => type))).toEqual(
      new Set(['tool-call-delta', 'tool-call', 'tool-start', 'tool-progress']),
    );
    expect(new Set(life.map(([, id]) => id))).toEqual(new Set(['toolu_01']));
    expect(result.toolCalls).toMatchObject([{ toolCallId: 'toolu_01' }]);
    expect(result.messages.slice(1, 3)).toMatchObject([
      { toolCalls: [{ toolCallId: 'toolu_01' }] },
      { role: 'tool', toolCallId: 'toolu_01' },
    ]);
  });

  it("is kept when it is valid, and no provider's id stands beside it", async () => {
    const played = await playScript([calls(read('a:1/ä-b c'))]);
    expect(callsIn(played)).toEqual([
      expect.not.objectContaining({ providerCallId: expect.anything() }),
    ]);
    expect(played.result.toolCalls[0]?.toolCallId).toBe('a:1/ä-b c');
  });

  it.each([
    ['empty', ''],
    ['200 characters long', 'x'.repeat(200)],
    ['129 characters long', 'x'.repeat(129)],
  ])("is replaced when it is %s, and the provider's is kept", async (_, id) => {
    const played = await playScript([calls(read('ok'), read(id))]);
    expect(callsIn(played)[1]).toMatchObject({ toolCallId: 'call_1_1', providerCallId: id });
    expect(
      eventsOf(played.events, 'tool-call-delta').map(({ toolCallId }) => toolCallId),
    ).toContain('call_1_1');
  });

  it('is kept with 128 characters', async () => {
    const { result } = await playScript([calls(read('x'.repeat(128)))]);
    expect(result.toolCalls[0]?.toolCallId).toHaveLength(128);
  });

  it('is replaced the second time when it comes twice in one answer', async () => {
    const played = await playScript([calls(read('same'), read('same'), read('same'))]);
    expect(callIdsIn(played.result.messages)).toEqual(['same', 'call_1_1', 'call_1_2']);
    expect(callsIn(played).map(({ providerCallId }) => providerCallId)).toEqual([
      undefined,
      'same',
      'same',
    ]);
  });

  it('is replaced in a later step when it comes again there', async () => {
    const { result } = await playScript([
      calls(read('call_0')),
      calls(read('call_0')),
      calls(read('call_0')),
    ]);
    expect(callIdsIn(result.messages)).toEqual(['call_0', 'call_2_0', 'call_3_0']);
  });

  it('is replaced when it was used in the messages before', async () => {
    const messages: Message[] = [
      { role: 'user', content: 'Hello' },
      {
        role: 'assistant',
        content: '',
        toolCalls: [{ toolCallId: 'call_1', name: 'probe__read', arguments: '{"key":"old"}' }],
      },
      { role: 'tool', toolCallId: 'call_1', toolName: 'probe__read', content: 'old' },
      { role: 'user', content: 'Again' },
    ];
    const played = await play(
      await openShop(new ScriptedModel([calls(read('call_1')), text('Done.')])),
      ask({ messages }),
    );
    expect(callIdsIn(played.result.messages)).toEqual(['call_1', 'call_1_0']);
  });

  it('is replaced when it was used in an earlier run of the conversation', async () => {
    const loop = await openShop(
      new ScriptedModel([calls(read('call_1')), text('A'), calls(read('call_1')), text('B')]),
    );
    await play(loop, ask({ conversationId: 'c' }));
    const { result } = await play(loop, ask({ conversationId: 'c' }));
    expect(callIdsIn(result.messages)).toEqual(['call_1', 'call_1_0']);
  });

  it('is unique even when the provider uses one of ours', async () => {
    const { result } = await playScript([
      calls(read(''), read('call_1_0'), read('call_1_1'), read('call_1_1_2')),
    ]);
    const ids = callIdsIn(result.messages);
    expect(new Set(ids).size).toBe(4);
    expect(ids[0]).toBe('call_1_0');
  });

  it('is unique and usable whatever ids the provider makes up (property)', async () => {
    const id = fc.oneof(
      fc.constantFrom(
        '',
        'a',
        'b',
        'call_1_0',
        'call_1_1',
        'call_2_0',
        'call_1_0_2',
        'x'.repeat(200),
      ),
      fc.string(),
    );
    const answer = fc.array(id, { minLength: 1, maxLength: 6 });
    const loop = await openShop(new ScriptedModel([]));
    await fc.assert(
      fc.asyncProperty(fc.array(answer, { minLength: 1, maxLength: 3 }), async (answers) => {
        const model = new ScriptedModel([
          ...answers.map((ids) => calls(...ids.map(read))),
          text('Done.'),
        ]);
        const { result } = await play(loop, ask({ model }));
        const ids = callIdsIn(result.messages);
        expect(ids).toHaveLength(answers.flat().length);
        expect(new Set(ids).size).toBe(ids.length);
        for (const one of ids) expect(one.length >= 1 && one.length <= 128).toBe(true);
      }),
      { numRuns: cases(100) },
    );
  });
});

const finish: ModelEvent = { type: 'finish', finishReason: 'tool_calls' };
const delta = (toolCallId: string, argumentsDelta: string): ModelEvent => ({
  type: 'tool-call-delta',
  toolCallId,
  name: 'probe__read',
  argumentsDelta,
});
const whole = (toolCallId: string, args: string): ModelEvent => ({
  type: 'tool-call',
  toolCallId,
  name: 'probe__read',
  arguments: args,
});

describe('invariant 6: what is executed', () => {
  it('is the assembled call, whatever its deltas said', async () => {
    const script = [
      events([
        delta('c1', '{"key":'),
        delta('c1', '"wrong"}'),
        whole('c1', '{"key":"right"}'),
        finish,
      ]),
    ];
    const { result } = await playScript(script);
    expect(result.toolCalls).toMatchObject([{ args: { key: 'right' }, result: 'right' }]);
  });

  it('is nothing that only came in deltas', async () => {
    const script = [events([delta('c1', '{"key":"a"}'), whole('c2', '{"key":"b"}'), finish])];
    const { result, events: seen } = await playScript(script);
    expect(result.toolCalls.map(({ toolCallId }) => toolCallId)).toEqual(['c2']);
    expect(eventsOf(seen, 'tool-call').map(({ toolCallId }) => toolCallId)).toEqual(['c2']);
  });

  it('is every call of deltas that came interleaved, each under its own id', async () => {
    const script = [
      events([
        delta('c1', '{"key":'),
        delta('c2', '{"key":'),
        delta('c1', '"a"}'),
        delta('c2', '"b"}'),
        whole('c1', '{"key":"a"}'),
        whole('c2', '{"key":"b"}'),
        finish,
      ]),
    ];
    const { result, events: seen } = await playScript(script);
    expect(result.toolCalls).toMatchObject([
      { toolCallId: 'c1', args: { key: 'a' } },
      { toolCallId: 'c2', args: { key: 'b' } },
    ]);
    expect(eventsOf(seen, 'tool-call-delta').map(({ toolCallId }) => toolCallId)).toEqual([
      'c1',
      'c2',
      'c1',
      'c2',
    ]);
  });

  it('needs no deltas at all', async () => {
    const { result } = await playScript([events([whole('c1', '{"key":"a"}'), finish])]);
    expect(result.toolCalls).toMatchObject([{ toolCallId: 'c1', status: 'succeeded' }]);
  });

  it('is in the transcript as the model wrote it, letter by letter', async () => {
    const args = '{ "key" : "\\u0061" }';
    const { result } = await playScript([events([whole('c1', args), finish])]);
    expect(result.messages[1]).toMatchObject({
      toolCalls: [{ arguments: args, name: 'probe__read' }],
    });
  });
});
