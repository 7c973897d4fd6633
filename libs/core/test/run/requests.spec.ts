import { describe, expect, it } from '@jest/globals';
import {
  ConfigurationError,
  InvalidRequestError,
  LanguageModel,
  type LoopRequest,
  type Message,
  type RunContext,
} from '@toolloop/core';
import { unlock } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { play, resultOf, resultsIn } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const userSays = (content: string): Message[] => [{ role: 'user', content }];

describe('a request that cannot be run', () => {
  it.each<[string, Partial<Record<keyof LoopRequest, unknown>>, string]>([
    ['an empty prompt', { prompt: '' }, 'The prompt is empty'],
    ['a blank prompt', { prompt: ' \n\t' }, 'The prompt is empty'],
    ['a prompt that is no text', { prompt: 7 }, 'The prompt is empty'],
    ['a prompt that is null', { prompt: null }, 'The prompt is empty'],
    [
      'prompt and messages',
      { prompt: 'a', messages: userSays('b') },
      'Pass `prompt` or `messages`, not both',
    ],
    ['neither', { prompt: undefined }, 'There is no user message'],
    [
      'messages without one of the user',
      { prompt: undefined, messages: [{ role: 'assistant', content: 'a' }] },
      'There is no user message',
    ],
    ['no messages', { prompt: undefined, messages: [] }, 'There is no user message'],
    ['no tenant', { tenant: undefined }, 'A run needs a tenant'],
    ['an empty tenant', { tenant: '' }, 'A run needs a tenant'],
    ['a tenant that is no text', { tenant: { $ne: '' } }, 'A run needs a tenant'],
    ['no actor', { actor: undefined }, 'A run needs an actor'],
    ['null for an actor', { actor: null }, 'A run needs an actor'],
    ['the name of no model', { model: 'gpt-7' }, 'No model is named "gpt-7". Known: small.'],
    ['a name every object has', { model: 'constructor' }, 'No model is named "constructor"'],
    ['an empty name of a model', { model: '' }, 'No model is named ""'],
    [
      'the name of no tool',
      { tools: ['crm__serachCustomers'] },
      'Did you mean "crm__searchCustomers"',
    ],
    [
      'a short name that several tools have',
      { tools: ['read'], exclude: ['nothing at all'] },
      'No tool is named "nothing at all"',
    ],
  ])('is refused at once for %s', async (_, wrong, message) => {
    const loop = await openShop(new ScriptedModel([]), {
      models: { small: new ScriptedModel([]) },
    });
    const request = { ...ask(), ...wrong } as LoopRequest;
    expect(() => loop.open(request)).toThrow(InvalidRequestError);
    expect(() => loop.stream(request)).toThrow(message);
    await expect(loop.run(request)).rejects.toThrow(message);
  });

  it("is the application's mistake when its own policy names no tool", async () => {
    const loop = await openShop(new ScriptedModel([]));
    expect(() => loop.open(ask({ policy: { allow: ['crm__serach*'] } }))).toThrow(
      ConfigurationError,
    );
    expect(() => loop.open(ask({ policy: { allowed: [] } as never }))).toThrow(ConfigurationError);
  });

  it.each(['unknown_model', 'unknown_tool', 'invalid_request', 'invalid_messages'] as const)(
    'says %s in its code',
    async (code) => {
      const wrong = {
        unknown_model: { model: 'x' },
        unknown_tool: { tools: ['x'] },
        invalid_request: { prompt: '' },
        invalid_messages: { prompt: undefined, messages: 'x' as never },
      }[code];
      const error: unknown = await (
        await openShop(new ScriptedModel([]))
      )
        .run({ ...ask(), ...wrong })
        .catch((reason: unknown) => reason);
      expect(error).toMatchObject({ name: 'InvalidRequestError', code });
    },
  );
});

const named = (modelId: string) => new ScriptedModel([text(`I am ${modelId}.`)], { modelId });

describe('the model of a run', () => {
  it.each<[string, LoopRequest['model'], string]>([
    ["the module's", undefined, 'large'],
    ['one of its models, by name', 'small', 'small'],
    ['one that the request brings', named('own'), 'own'],
  ])('is %s', async (_, model, expected) => {
    const loop = await openShop(named('large'), { models: { small: named('small') } });
    const { events, result } = await play(loop, ask({ model }));
    expect(result.text).toBe(`I am ${expected}.`);
    expect(events[0]).toMatchObject({ type: 'run-start', model: expected });
  });
});

async function instructionsOf(
  own: LoopRequest['instructions'],
  module?: LoopRequest['instructions'],
): Promise<unknown> {
  const model = new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]);
  await play(
    await openShop(model, module === undefined ? {} : { instructions: module }),
    ask({ instructions: own }),
  );
  const [first, second] = model.requests.map(({ instructions }) => instructions);
  expect(second).toBe(first);
  return first;
}

describe('the instructions of a run', () => {
  it("are the module's", async () =>
    expect(await instructionsOf(undefined, 'Be kind.')).toBe('Be kind.'));
  it("are the request's before the module's", async () =>
    expect(await instructionsOf('Be brief.', 'Be kind.')).toBe('Be brief.'));
  it('may be none', async () => expect(await instructionsOf(undefined)).toBeUndefined());
  it('may depend on the run', async () =>
    expect(
      await instructionsOf(
        ({ tenant, actor }) => `You help ${(actor as { id: string }).id} of ${tenant}.`,
      ),
    ).toBe('You help alice of acme.'));
  it('may take their time', async () =>
    expect(await instructionsOf(async () => Promise.resolve('Be slow.'))).toBe('Be slow.'));

  it('are asked for once in a run', async () => {
    const asked: RunContext[] = [];
    const model = new ScriptedModel([calls(call('probe__read', { key: 'a' })), text('Done.')]);
    const instructions = (run: RunContext) => {
      asked.push(run);
      return 'Be kind.';
    };
    const { result } = await play(
      await openShop(model),
      ask({ instructions, context: { plan: 'gold' } }),
    );
    expect(asked).toMatchObject([
      { runId: result.runId, tenant: 'acme', context: { plan: 'gold' } },
    ]);
  });

  it.each<[string, () => string | Promise<string>]>([
    [
      'throw',
      () => {
        throw new Error('secret');
      },
    ],
    ['reject', () => Promise.reject(new Error('secret'))],
  ])('end the run when they %s, and no model is asked', async (_, instructions) => {
    const model = new ScriptedModel([]);
    const { events, result } = await play(await openShop(model), ask({ instructions }));
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(result).toMatchObject({ finishReason: 'error', error: { code: 'internal' } });
    expect(JSON.stringify([events, result])).not.toContain('secret');
  });
});

const script = () => [calls(call('probe__read', { key: 'a' })), text('Done.')];

describe('what a request asks of the model', () => {
  it('keeps `toolChoice` where it is told to, for as long as the tool is there', async () => {
    const model = new ScriptedModel([
      calls(call('probe__read', { key: 'a' })),
      calls(call('probe__read', { key: 'b' })),
      text('Done.'),
    ]);
    const injection = [
      unlock({
        after: 'probe__read',
        when: ({ args }) => args?.['key'] === 'b',
        remove: ['probe__read'],
      }),
    ];
    await play(
      await openShop(model),
      ask({ toolChoice: { tool: 'probe__read' }, keepToolChoice: true, injection }),
    );
    expect(model.requests.map(({ toolChoice }) => toolChoice)).toEqual([
      { tool: 'probe__read' },
      { tool: 'probe__read' },
      undefined,
    ]);
  });

  it('holds `toolChoice` for the first step only, so that a forced tool cannot loop', async () => {
    const model = new ScriptedModel(script());
    await play(await openShop(model), ask({ toolChoice: { tool: 'probe__read' } }));
    expect(model.requests.map(({ toolChoice }) => toolChoice)).toEqual([
      { tool: 'probe__read' },
      undefined,
    ]);
  });

  it('holds `modelOptions` for all of them, and hands the very same object on', async () => {
    const model = new ScriptedModel(script());
    const modelOptions = { temperature: 0, seed: 7, provider: { reasoning: 'low' } };
    await play(await openShop(model), ask({ modelOptions }));
    for (const { options } of model.requests) expect(options).toBe(modelOptions);
  });

  it('is nothing where nothing was said', async () => {
    const model = new ScriptedModel([text('Done.')]);
    await play(await openShop(model), ask());
    expect(
      Object.keys(model.requests[0] ?? {}).filter((key) =>
        ['toolChoice', 'options', 'answerFormat', 'instructions'].includes(key),
      ),
    ).toEqual([]);
  });

  it('shows the model nothing of tenant, actor and context', async () => {
    const model = new ScriptedModel(script());
    await play(
      await openShop(model),
      ask({
        actor: { id: 'SECRET-actor' },
        tenant: 'SECRET-tenant',
        context: { note: 'SECRET-note' },
        requestId: 'SECRET-request',
      }),
    );
    const { signal: _, ...shown } = model.requests[0] ?? {};
    expect(JSON.stringify(shown)).not.toContain('SECRET');
  });
});

const writing = () => [calls(call('probe__write', { key: 'a' })), text('Done.')];

describe('a request id', () => {
  it("is the run's id where none is given", async () => {
    const { events, result } = await play(
      await openShop(new ScriptedModel([text('Done.')])),
      ask(),
    );
    expect(events[0]).toMatchObject({ requestId: result.runId });
  });

  it('keeps a repeated request from acting twice, and answers it like the first', async () => {
    let count = 0;
    const loop = await openShop(new ScriptedModel([...writing(), ...writing()]));
    const request = ask({ requestId: 'r1', context: { act: () => (count += 1) } });
    const [first, second] = [await play(loop, request), await play(loop, request)];
    expect(count).toBe(1);
    expect(second.result.toolCalls).toMatchObject([{ status: 'succeeded', result: 1 }]);
    expect(resultsIn(second.result.messages)).toEqual(resultsIn(first.result.messages));
  });

  it('is another request when another actor uses it', async () => {
    let count = 0;
    const loop = await openShop(new ScriptedModel([...writing(), ...writing()]));
    const request = ask({ requestId: 'r1', context: { act: () => (count += 1) } });
    await play(loop, request);
    await play(loop, { ...request, actor: { id: 'bob' } });
    expect(count).toBe(2);
  });
});

it('a model that is no ScriptedModel is just as good', async () => {
  class Echo extends LanguageModel {
    readonly provider = 'echo';
    readonly modelId = 'echo';
    async *stream() {
      yield await Promise.resolve({ type: 'text-delta' as const, text: 'echo' });
      yield { type: 'finish' as const, finishReason: 'stop' as const };
    }
  }
  expect(await resultOf((await openShop(new Echo())).open(ask()))).toMatchObject({
    text: 'echo',
    finishReason: 'stop',
  });
});
