import { describe, expect, it } from '@jest/globals';
import { InvalidRequestError, type LoopEvent, type RunHandle } from '@toolloop/core';
import { ConversationStore, MemoryConversationStore } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, collect, eventsOf, text } from '@toolloop/testing';
import { IsInt } from 'class-validator';
import { expectSound, resultOf } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const user = (content: string) => ({ role: 'user', content });
const read = calls(call('probe__read', { key: 'a' }));

describe('an input that is added', () => {
  it('is read with the prompt when it comes before the start', async () => {
    const model = new ScriptedModel([text('Done.')]);
    const handle = (await openShop(model)).open(ask());
    handle.addInput('And hurry.');
    await handle.result;
    expect(model.requests[0]?.messages).toEqual([user('Go on.'), user('And hurry.')]);
  });

  it('is read in the next step, behind the result, when it comes while a tool runs', async () => {
    const model = new ScriptedModel([read, text('Done.')]);
    const handle = (await openShop(model)).open(
      ask({ context: { act: () => handle.addInput('And hurry.') } }),
    );
    expectSound({ events: await collect(handle.events$), result: await handle.result });
    expect(model.requests[1]?.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'user',
    ]);
  });

  it('overtakes the final answer when it comes meanwhile, and both stay in the transcript', async () => {
    const model = new ScriptedModel([text('The blue one.'), text('The red one.')]);
    const handle = (await openShop(model)).open(ask());
    const events: LoopEvent[] = [];
    for await (const event of handle) {
      events.push(event);
      if (event.type === 'text-delta' && event.text.startsWith('The b'))
        handle.addInput('No, the red one!');
    }
    const result = await handle.result;
    expectSound({ events, result });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'The red one.', steps: 2 });
    expect(result.messages.map(({ content }) => content)).toEqual([
      'Go on.',
      'The blue one.',
      'No, the red one!',
      'The red one.',
    ]);
  });

  it.each(['text-delta', 'usage', 'step-end'])('is kept at the last %s', async (type) => {
    const model = new ScriptedModel([text('A'), text('B')]);
    const handle = (await openShop(model)).open(ask());
    let isAdded = false;
    handle.events$.subscribe((event) => {
      if (event.type === type && !isAdded) handle.addInput('More?');
      isAdded ||= event.type === type;
    });
    expect(await handle.result).toMatchObject({ text: 'B', steps: 2 });
    model.assertComplete();
  });

  it('is kept in a hook behind the last step', async () => {
    const model = new ScriptedModel([text('A'), text('B')]);
    const handle = (await openShop(model)).open(
      ask({
        hooks: {
          onIteration: ({ step }) => {
            if (step === 1) handle.addInput('More?');
          },
        },
      }),
    );
    expect(await handle.result).toMatchObject({ text: 'B', steps: 2 });
  });

  it('takes the place of an answer of a class while it is checked', async () => {
    class Count {
      @IsInt() count!: number;
    }
    const model = new ScriptedModel([text('{"count":1}'), text('{"count":2}')]);
    const handle = (await openShop(model)).open(
      ask({
        output: Count,
        hooks: { onIteration: ({ step }) => void (step === 1 && handle.addInput('Again.')) },
      }),
    );
    const result = await handle.result;
    expect(result.output).toEqual({ count: 2 });
  });

  it('stays in the transcript when the last step is used up, though no answer follows', async () => {
    const handle = (await openShop(new ScriptedModel([read]))).open(
      ask({ limits: { steps: 1 }, context: { act: () => handle.addInput('And hurry.') } }),
    );
    const result = await handle.result;
    expect(result.finishReason).toBe('max_steps');
    expect(result.messages.at(-1)).toEqual(user('And hurry.'));
  });

  it('counts as a step, so that inputs without end come to one', async () => {
    const model = new ScriptedModel(Array.from({ length: 5 }, () => text('Yes?')));
    const handle: RunHandle = (await openShop(model)).open(
      ask({ limits: { steps: 5 }, hooks: { onIteration: () => handle.addInput('Hello?') } }),
    );
    expect(await handle.result).toMatchObject({ finishReason: 'max_steps', steps: 5 });
  });

  it('is kept with the conversation', async () => {
    const store = new MemoryConversationStore();
    const loop = await openShop(new ScriptedModel([read, text('Done.')]), {
      providers: [{ provide: ConversationStore, useValue: store }],
    });
    const handle = loop.open(
      ask({ conversationId: 'c1', context: { act: () => handle.addInput('And hurry.') } }),
    );
    await handle.result;
    const kept = await store.load({ tenant: 'acme', actorId: 'alice', conversationId: 'c1' });
    expect(kept.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'user',
      'assistant',
    ]);
  });

  it.each(['', '  \n'])('is refused when it is %j', async (message) => {
    const handle = (await openShop(new ScriptedModel([]))).open(ask());
    expect(() => handle.addInput(message)).toThrow(InvalidRequestError);
  });

  it('is refused after the end', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    await handle.result;
    expect(() => handle.addInput('More?')).toThrow(
      `The run ${handle.runId} has ended; start another.`,
    );
  });

  it('is refused at the `run-end`, since no answer would follow', async () => {
    const handle = (await openShop(new ScriptedModel([text('Done.')]))).open(ask());
    const refused = new Promise<unknown>((resolve) => {
      handle.events$.subscribe((event) => {
        if (event.type !== 'run-end') return;
        try {
          handle.addInput('More?');
          resolve(undefined);
        } catch (error) {
          resolve(error);
        }
      });
    });
    expect(await refused).toBeInstanceOf(InvalidRequestError);
  });

  it('is refused after a failure to load the conversation', async () => {
    const store = {
      load: () => Promise.reject(new Error('down')),
      append: () => Promise.resolve(),
    };
    const loop = await openShop(new ScriptedModel([]), {
      providers: [{ provide: ConversationStore, useValue: store }],
    });
    const handle = loop.open(ask({ conversationId: 'c1' }));
    await resultOf(handle);
    expect(() => handle.addInput('More?')).toThrow(InvalidRequestError);
  });

  it('takes nothing from the events of its run', async () => {
    const model = new ScriptedModel([text('A'), text('B')]);
    const handle = (await openShop(model)).open(
      ask({ hooks: { onIteration: ({ step }) => void (step === 1 && handle.addInput('More?')) } }),
    );
    const events = await collect(handle.events$);
    expect(eventsOf(events, 'step-end').map(({ step }) => step)).toEqual([1, 2]);
    expect(eventsOf(events, 'run-end')).toHaveLength(1);
  });
});
