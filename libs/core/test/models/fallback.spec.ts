import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, LanguageModel, ModelError } from '@toolloop/core';
import { fallback } from '@toolloop/core/models';
import type { ModelCapabilities, ModelEvent } from '@toolloop/protocol';
import {
  calls,
  call,
  cut,
  events,
  fails,
  hangs,
  ScriptedModel,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';
import { hear, QUESTION } from './reading.js';

const busy = new ModelError('Busy.', { status: 503, retryable: true });

function scripted(modelId: string, ...script: readonly ScriptedTurn[]): ScriptedModel {
  return new ScriptedModel(script, { modelId });
}

/** A scripted model that cannot do everything. */
class Limited extends LanguageModel {
  readonly provider = 'scripted';
  readonly modelId: string;
  constructor(
    readonly inner: ScriptedModel,
    override readonly capabilities: ModelCapabilities,
  ) {
    super();
    this.modelId = inner.modelId;
  }
  stream(...args: Parameters<LanguageModel['stream']>): AsyncIterable<ModelEvent> {
    return this.inner.stream(...args);
  }
}

describe('fallback', () => {
  it('asks the first alone where it answers, and says who did', async () => {
    const [first, second] = [scripted('first', text('Hello.')), scripted('second')];
    const { events: seen, text: said } = await hear(fallback([first, second]));
    expect(said).toBe('Hello.');
    expect(seen[0]).toEqual({ type: 'model', provider: 'scripted', modelId: 'first' });
    expect(second.requests).toEqual([]);
  });

  it.each([
    ['is overloaded', fails(busy)],
    ['is not reached', fails(new ModelError('connect ECONNREFUSED', { retryable: true }))],
    ['has no such model', fails(new ModelError('No such model.', { status: 404 }))],
    ['refuses the key', fails(new ModelError('No.', { status: 401 }))],
    ['breaks off before its first word', cut()],
    [
      'ends incomplete before its first word',
      events([{ type: 'finish', finishReason: 'incomplete' }]),
    ],
  ])('asks the next where one %s', async (_why, turn) => {
    const [first, second] = [scripted('first', turn), scripted('second', text('Hello.'))];
    const heard = await hear(fallback([first, second]));
    expect(heard.error).toBeUndefined();
    expect(heard.text).toBe('Hello.');
    expect(heard.events.filter(({ type }) => type === 'model' || type === 'usage')).toEqual([
      { type: 'model', provider: 'scripted', modelId: 'second' },
      { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } },
    ]);
    second.assertComplete();
  });

  it.each([
    ['a word', fails(busy, 'Hel')],
    [
      'a thought',
      { ...events([{ type: 'reasoning-delta', text: 'Hm' }]), ending: fails(busy).ending },
    ],
    ['part of a call', { ...calls(call('probe__read')), ending: fails(busy).ending }],
  ])('asks no other model once %s has reached the caller', async (_what, turn) => {
    const [first, second] = [scripted('first', turn), scripted('second')];
    const { error } = await hear(fallback([first, second]));
    expect(error).toBe(busy);
    expect(second.requests).toEqual([]);
  });

  it.each([400, 413, 422])(
    'asks no other model for a request that was refused with %i, unless it is told to',
    async (status) => {
      const refusal = new ModelError('Wrong.', { status });
      const second = scripted('second', text('Hello.'));
      expect((await hear(fallback([scripted('first', fails(refusal)), second]))).error).toBe(
        refusal,
      );
      expect(
        (await hear(fallback([scripted('first', fails(refusal)), second], { when: () => true })))
          .text,
      ).toBe('Hello.');
    },
  );

  it('asks the next model where the request is too long for this one, since that may have more room', async () => {
    const tooLong = new ModelError('Too long.', { status: 400, code: 'context_length' });
    expect(
      (
        await hear(
          fallback([scripted('first', fails(tooLong)), scripted('second', text('Hello.'))]),
        )
      ).text,
    ).toBe('Hello.');
  });

  it('fails as the last one does', async () => {
    const last = new ModelError('Gone.', { status: 500, retryable: true });
    expect(
      (await hear(fallback([scripted('first', fails(busy)), scripted('second', fails(last))])))
        .error,
    ).toBe(last);
  });

  it('ends with an abort, and asks no other model', async () => {
    const controller = new AbortController();
    const [first, second] = [scripted('first', hangs()), scripted('second')];
    const hearing = hear(fallback([first, second]), QUESTION, controller.signal);
    controller.abort();
    expect((await hearing).events).toEqual([]);
    expect([first.openStreams, second.requests.length]).toEqual([0, 0]);
  });

  it('leaves the model when its reader does', async () => {
    const first = scripted('first', hangs('Hello.'));
    for await (const event of fallback([first]).stream(QUESTION, new AbortController().signal))
      if (event.type === 'text-delta') break;
    expect(first.openStreams).toBe(0);
  });

  it('shows images to models alone that take them', async () => {
    const image = { type: 'image', url: 'data:image/png;base64,AQIDBA==' } as const;
    const request = { messages: [{ role: 'user' as const, content: [image] }], tools: [] };
    const [blind, seeing] = [
      new Limited(scripted('blind'), { images: false }),
      scripted('seeing', text('A cat.')),
    ];
    const model = fallback([blind, seeing]);
    expect(model.capabilities.images).toBe(true);
    expect((await hear(model, request)).text).toBe('A cat.');
    expect(blind.inner.requests).toEqual([]);
  });

  it('tells a run who answered each step', async () => {
    const model = fallback([scripted('first', fails(busy)), scripted('second', text('Done.'))]);
    const { events: seen } = await play(await openShop(model), ask());
    expect(seen.find(({ type }) => type === 'step-end')).toMatchObject({
      model: 'scripted/second',
    });
    expect(seen[0]).toMatchObject({ type: 'run-start', model: 'first' });
  });

  it('needs a model', () => {
    expect(() => fallback([])).toThrow(ConfigurationError);
  });
});
