import { afterEach, describe, expect, it } from '@jest/globals';
import { LanguageModel, type LoopEvent } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { call, calls, hangs, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import {
  ask,
  close,
  closeDesks,
  eventsIn,
  headersOf,
  ofType,
  serve,
  type ServedDesk,
} from './served-desk.js';

afterEach(closeDesks);

/** Shows that it thinks, and answers once it is let. */
class SlowModel extends LanguageModel {
  override readonly provider = 'test';
  override readonly modelId = 'slow';
  answer!: () => void;
  private readonly isLet = new Promise<void>((resolve) => {
    this.answer = resolve;
  });
  private readonly script: ScriptedModel;

  constructor(...turns: readonly ScriptedTurn[]) {
    super();
    this.script = new ScriptedModel(turns);
  }

  override async *stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent> {
    yield { type: 'reasoning-delta', text: 'Let me think.' };
    await this.isLet;
    yield* this.script.stream(request, signal);
  }
}

/**
 * A stream of which the first words of the model have come, and all of it; that rejects where the
 * connection is cut.
 */
async function begun(
  desk: ServedDesk,
  body: object,
): Promise<{ readonly stream: Promise<readonly LoopEvent[]> }> {
  const response = await ask(desk, 'alice', { message: 'Hello.', ...body });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) throw new Error('There is no stream.');
  let said = '';
  while (!/"type":"(?:text|reasoning)-delta"/.test(said)) said += (await reader.read()).value ?? '';
  const rest = async (): Promise<readonly LoopEvent[]> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return eventsIn(said);
      said += value;
    }
  };
  return { stream: rest() };
}

describe('a desk that is closed', () => {
  it('tells the reader of a run that ends with it of the end, and then ends the stream', async () => {
    const desk = await serve({ model: new ScriptedModel([hangs('I am thinking')]) });
    const { stream } = await begun(desk, {});
    await close(desk);
    const events = await stream;
    expect(ofType(events, 'run-end')).toMatchObject([
      { finishReason: 'aborted', text: 'I am thinking' },
    ]);
    expect(events.at(-1)?.type).toBe('run-end');
  });

  it('answers a client that waits for the result of such a run', async () => {
    const model = new ScriptedModel([hangs('I am thinking')]);
    const desk = await serve({ model });
    const answer = ask(desk, 'alice', { message: 'Hello.' }, '/chat/answer');
    while (model.openStreams === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await close(desk);
    const { status, body } = await answer.then(async (response) => ({
      status: response.status,
      body: await response.text(),
    }));
    expect(status).toBeGreaterThanOrEqual(500);
    expect(body).toContain('aborted');
  });

  it('tells the reader of a durable run all of the step that it still does, and then ends the stream', async () => {
    const model = new SlowModel(calls(call('time__now', {})), text('Never.'));
    const desk = await serve({ model });
    const { stream } = await begun(desk, { durable: true });
    const closing = close(desk);
    await new Promise((resolve) => setTimeout(resolve, 300));
    model.answer();
    await closing;
    const events = await stream;
    expect(ofType(events, 'tool-result')).toHaveLength(1);
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'step-end', step: 1 });
  });

  it('refuses a run with 503 that is begun while it waits for others', async () => {
    const model = new SlowModel(calls(call('time__now', {})), text('Never.'));
    const desk = await serve({ model });
    const { stream } = await begun(desk, { durable: true });
    const closing = close(desk);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const late = await fetch(`${desk.url}/chat`, {
      method: 'POST',
      headers: headersOf('alice'),
      body: JSON.stringify({ message: 'Hi.' }),
    });
    expect(late.status).toBe(503);
    expect(await late.json()).toMatchObject({ code: 'shutting_down' });
    model.answer();
    await Promise.all([closing, stream]);
  });
});
