import { getEventListeners } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { ModelError } from '@toolloop/core';
import type { ModelEvent, ModelFinishReason } from '@toolloop/protocol';
import {
  type AnswerSource,
  readAnswer,
  readBytes,
  ResponseBody,
  WireAnswer,
  type WireObject,
} from '@toolloop/wire';
import { fencesOf, importFence } from '../../../test/docs/fences.js';

describe('the README', () => {
  it('shows a wire that works', async () => {
    const { events } = await importFence(fencesOf('libs/wire/README.md', 'ts')[0] ?? '');
    const seen: ModelEvent[] = [];
    for await (const event of events as AsyncIterable<ModelEvent>) seen.push(event);
    expect(seen).toEqual([
      { type: 'text-delta', text: 'Hi' },
      { type: 'finish', finishReason: 'stop', text: 'Hi', reasoning: '', toolCalls: [] },
    ]);
  });
});

describe('the last event of an answer that another reader asked for', () => {
  const SAID = { calls: ['get_order', '{"id":7}'], reason: 'tool_calls' } as const;

  it('says once more what was in it, with the provider’s own word for how it ended', async () => {
    const events = await eventsIn(new SaidAnswer(SAID), ['think', 'Hi', ' there']);
    expect(events.at(-1)).toEqual({
      type: 'finish',
      finishReason: 'tool_calls',
      providerReason: 'tool_use',
      text: 'Hi there',
      reasoning: 'think',
      toolCalls: [{ toolCallId: 'c1', name: 'get_order', arguments: '{"id":7}' }],
      usage: { inputTokens: 3, outputTokens: 4 },
    });
    expect(events.filter(({ type }) => type === 'finish')).toHaveLength(1);
  });

  it('leaves out words without end, which are in the deltas alone', async () => {
    const events = await eventsIn(new SaidAnswer(SAID), ['think', 'x'.repeat(4_000_001)]);
    expect(events.at(-1)).not.toHaveProperty('text');
    expect(events.at(-1)).not.toHaveProperty('reasoning');
    expect(events.at(-1)).toMatchObject({ toolCalls: [{ toolCallId: 'c1' }] });
  });
});

describe('answers that are complete in one turn of the event loop', () => {
  it('are all read before the first reader continues, and then 16 readers continue in a turn', async () => {
    const read: number[] = [];
    const continued: number[] = [];
    const readers = Array.from({ length: 40 }, async (_, number) => {
      const answer = new SaidAnswer({ calls: ['get_order', '{}'], reason: 'tool_calls' });
      for await (const event of readBytes(
        answer,
        bytesThen(() => void read.push(number)),
      ))
        if (event.type === 'finish') continue;
      continued.push(read.length);
    });
    const counts = new Set<number>();
    for (let turns = 0; turns < 10; turns += 1) {
      await turn();
      counts.add(continued.length);
    }
    await Promise.all(readers);
    expect(new Set(continued)).toEqual(new Set([40]));
    expect([...counts].filter((count) => count > 0)).toEqual([16, 32, 40]);
  });
});

describe('an answer whose reading is aborted', () => {
  const ended = { done: true, value: undefined };

  it('ends though its request never answers, and leaves the listeners of the signal to the request', async () => {
    let asked: AbortSignal | undefined;
    const { next, abort } = reading((signal) => {
      asked = signal;
      return new Promise(() => undefined);
    });
    await turn();
    expect(asked && getEventListeners(asked, 'abort')).toEqual([]);
    abort();
    expect(asked?.aborted).toBe(true);
    expect(await next).toEqual(ended);
  });

  it('closes the body that it reads', async () => {
    const source = new SilentSource();
    const { next, abort } = reading((signal) => Promise.resolve(new ResponseBody(source, signal)));
    await turn();
    abort();
    expect(await next).toEqual(ended);
    expect(source.isClosed).toBe(true);
  });

  it('closes a body that comes at the moment of the abortion, and one that comes later', async () => {
    for (const isLater of [false, true]) {
      const source = new SilentSource();
      let answer: (() => void) | undefined;
      const { next, abort } = reading(
        (signal) =>
          new Promise((resolve) => (answer = () => resolve(new ResponseBody(source, signal)))),
      );
      await turn();
      if (isLater) abort();
      answer?.();
      abort();
      expect(await next).toEqual(ended);
      await turn();
      expect(source.isClosed).toBe(true);
    }
  });
});

/** Begins to read an answer from what `open` returns. */
function reading(open: AnswerSource['open']) {
  const abortion = new AbortController();
  const answer = new SaidAnswer({ calls: ['get_order', '{}'], reason: 'tool_calls' });
  const events = readAnswer(answer, {
    open,
    veil: (error) => error,
    signal: abortion.signal,
  });
  return { next: events[Symbol.asyncIterator]().next(), abort: () => abortion.abort() };
}

/** Bytes that never come; the wait for them ends when they are closed. */
class SilentSource {
  isClosed = false;
  private end: (() => void) | undefined;

  read(): Promise<undefined> {
    return new Promise((resolve) => {
      this.end = () => resolve(undefined);
      if (this.isClosed) this.end();
    });
  }

  close(): void {
    this.isClosed = true;
    this.end?.();
  }
}

/** The bytes of an answer of one word, and a callback once they were read. */
async function* bytesThen(onRead: () => void): AsyncGenerator<Uint8Array> {
  yield Buffer.from('data: {"word":"Hi"}\n\ndata: [DONE]\n\n');
  onRead();
  await Promise.resolve();
}

/** Each payload is a word; the first is thought, the others are said. */
class SaidAnswer extends WireAnswer {
  override readonly kind = 'list of words';
  override readonly whereToLook = 'Nowhere.';
  override readonly hasEnded = false;
  private count = 0;

  constructor(
    private readonly end: {
      readonly calls: readonly [string, string];
      readonly reason: ModelFinishReason;
    },
  ) {
    super();
  }

  override get providerReason(): string {
    return 'tool_use';
  }

  override toFailure(payload: string): ModelError {
    return new ModelError(payload, { retryable: false });
  }

  override takeChunk({ word }: WireObject): void {
    this.batch.append(this.count === 0 ? 'reasoning-delta' : 'text-delta', String(word));
    this.count += 1;
  }

  override recognises(): boolean {
    return false;
  }

  override takeWhole(): void {}

  override finish(): void {
    const [name, text] = this.end.calls;
    this.batch.push({ type: 'tool-call', toolCallId: 'c1', name, arguments: text });
    this.batch.push({ type: 'usage', usage: { inputTokens: 3, outputTokens: 4 } });
    this.batch.push({ type: 'finish', finishReason: this.end.reason });
  }
}

async function eventsIn(answer: WireAnswer, words: readonly string[]): Promise<ModelEvent[]> {
  const events: ModelEvent[] = [];
  const body = new Response(words.map((word) => `data: ${JSON.stringify({ word })}\n\n`).join(''))
    .body;
  for await (const event of readBytes(answer, body ?? new ReadableStream())) events.push(event);
  return events;
}
