import { beforeAll, describe, expect, it } from '@jest/globals';
import { ConfigurationError, type Message, type ToolLoopService } from '@toolloop/core';
import { slidingWindow, summarised, tokenBudget } from '@toolloop/core/history';
import { ScriptedModel, text } from '@toolloop/testing';
import { keepEverything } from '../../../src/plugins/history/bounded.js';
import { resultsIn } from '../../fixtures/played-run.js';
import { openShop } from '../../fixtures/shop.module.js';
import { CharacterCounter, textsOf, longLoop, playWith, sharedPrefixes } from './conversation.js';

let loop: ToolLoopService;
beforeAll(async () => {
  loop = await openShop(new ScriptedModel([]));
});

describe('a sliding window over a long loop of one run', () => {
  it('sends no more than its messages, the prompt and the newest step always', async () => {
    const { requests, result } = await playWith(loop, longLoop(40), {
      history: slidingWindow({ messages: 12 }),
    });
    expect(Math.max(...requests.map(({ messages }) => messages.length))).toBeLessThanOrEqual(12);
    requests.forEach(({ messages }, step) => {
      expect(messages[0]).toEqual({ role: 'user', content: 'Go on.' });
      expect(resultsIn(messages).at(-1)).toBe(step === 0 ? undefined : `k${step - 1}`);
    });
    expect(result.messages).toHaveLength(82);
  });

  it('moves seldom, and sends the very same messages in between', async () => {
    const { requests } = await playWith(loop, longLoop(40), {
      history: slidingWindow({ messages: 20, keep: 8 }),
    });
    const lengths = requests.map(({ messages }) => messages.length);
    const prefixes = sharedPrefixes(requests);
    const moves = prefixes.filter((shared, index) => shared < (lengths[index] ?? 0));
    expect(moves).toHaveLength(5);
    expect(moves.every((shared) => shared === 1)).toBe(true);
  });

  it('sends the very transcript while it is short enough', async () => {
    const { requests, result } = await playWith(loop, longLoop(3), {
      history: slidingWindow({ messages: 7 }),
    });
    expect(requests.at(-1)?.originalMessages).toHaveLength(7);
    requests
      .at(-1)
      ?.originalMessages.forEach((message, index) => expect(result.messages[index]).toBe(message));
  });

  it('sends a step whole when it is smaller than the step', async () => {
    const { requests } = await playWith(loop, longLoop(3), {
      history: slidingWindow({ messages: 1 }),
    });
    expect(requests.map(({ messages }) => messages.map(({ role }) => role).join(' '))).toEqual([
      'user',
      'user assistant tool',
      'user assistant tool',
      'user assistant tool',
    ]);
  });
});

describe('a sliding window over the runs of a conversation', () => {
  const history = slidingWindow({ messages: 10, keep: 4 });
  const talk = async (shop: ToolLoopService, count: number) => {
    const sent = [];
    for (let turn = 0; turn < count; turn += 1) {
      const { requests } = await playWith(shop, [text(`A${turn}`)], {
        history,
        conversationId: 'c',
        prompt: `Q${turn}`,
      });
      sent.push(...requests);
    }
    return sent;
  };

  it('ends with the newest question, and begins with one', async () => {
    const requests = await talk(await openShop(new ScriptedModel([])), 20);
    requests.forEach(({ messages }, turn) => {
      expect(messages.at(-1)?.content).toBe(`Q${turn}`);
      expect(messages.length).toBeLessThanOrEqual(10);
    });
  });

  it('stays where the last run left it, so that the prompt cache lives on', async () => {
    const requests = await talk(await openShop(new ScriptedModel([])), 20);
    const moves = sharedPrefixes(requests).filter(
      (shared, index) => shared < (requests[index]?.messages.length ?? 0),
    );
    expect(moves.length).toBeLessThan(7);
  });

  it('does the same for messages that the client keeps', async () => {
    const past = Array.from({ length: 30 }, (_, index): Message[] => [
      { role: 'user', content: `Q${index}` },
      { role: 'assistant', content: `A${index}` },
    ]).flat();
    const { requests, result } = await playWith(loop, [text('Done.')], {
      prompt: undefined,
      history,
      messages: [...past, { role: 'user', content: 'And?' }],
    });
    expect(requests[0]?.messages.length).toBeLessThanOrEqual(10);
    expect(result.messages).toHaveLength(62);
  });

  it('keeps the whole conversation in its store', async () => {
    const shop = await openShop(new ScriptedModel([]));
    await talk(shop, 12);
    const { requests } = await playWith(shop, [text('All.')], {
      history: keepEverything(),
      conversationId: 'c',
      prompt: 'All?',
    });
    expect(requests[0]?.messages).toHaveLength(25);
  });
});

describe('the history of the application', () => {
  it('holds for its runs, unless a run has its own', async () => {
    const shop = await openShop(new ScriptedModel([]), { history: slidingWindow({ messages: 3 }) });
    const { requests } = await playWith(shop, longLoop(5));
    const own = await playWith(shop, longLoop(5), { history: keepEverything() });
    expect([requests.at(-1)?.messages.length, own.requests.at(-1)?.messages.length]).toEqual([
      3, 11,
    ]);
  });
});

describe('a token budget', () => {
  it('sends no more than its tokens', async () => {
    const counter = new CharacterCounter();
    const { requests } = await playWith(loop, longLoop(40), {
      history: tokenBudget({ tokens: 400, counter }),
    });
    const sizes = requests.map(
      ({ messages }) => messages.length * 4 + JSON.stringify(textsOf(messages).join('')).length,
    );
    expect(Math.max(...sizes)).toBeLessThanOrEqual(400);
    expect(requests.at(-1)?.messages.length).toBeLessThan(20);
  });

  it('counts each message once, however many steps there are', async () => {
    const counter = new CharacterCounter();
    await playWith(loop, longLoop(20), { history: tokenBudget({ tokens: 300, counter }) });
    expect(counter.counted.filter((words) => words === 'Go on.')).toHaveLength(1);
    expect(counter.counted.filter((words) => words === 'k3')).toHaveLength(1);
  });

  it('counts an image as 1,000 tokens, whatever its URL', async () => {
    const counter = new CharacterCounter();
    const image: Message = {
      role: 'user',
      content: [{ type: 'image', url: `data:image/png;base64,${'A'.repeat(50_000)}` }],
    };
    const messages: Message[] = [
      image,
      { role: 'assistant', content: 'Nice.' },
      { role: 'user', content: 'And?' },
    ];
    const lengthWith = async (tokens: number) => {
      const { requests } = await playWith(loop, [text('Done.')], {
        prompt: undefined,
        messages,
        history: tokenBudget({ tokens, keep: 50, counter }),
      });
      return requests[0]?.messages.length;
    };
    expect([await lengthWith(1_000), await lengthWith(1_100)]).toEqual([1, 3]);
    expect(counter.counted.some((words) => words.includes('AAAA'))).toBe(false);
  });
});

describe('an extent that makes no sense', () => {
  const counter = new CharacterCounter();

  it.each<[string, () => unknown]>([
    ['none', () => slidingWindow({ messages: 0 })],
    ['no number', () => slidingWindow({ messages: Number.NaN })],
    ['less than it keeps', () => slidingWindow({ messages: 10, keep: 11 })],
    ['nothing to keep', () => slidingWindow({ messages: 10, keep: 0 })],
    ['a negative number', () => tokenBudget({ tokens: -1, counter })],
    ['none of a summary', () => summarised({ messages: 0 })],
    ['no extent', () => slidingWindow(undefined as never)],
    ['a misspelt option', () => slidingWindow({ messages: 10, kept: 5 } as never)],
    ['no counter', () => tokenBudget({ tokens: 10 } as never)],
    ['a misspelt option of a summary', () => summarised({ messages: 10, modle: 'small' } as never)],
    [
      'a summary by what is no model',
      () => summarised({ tokens: 10, counter, model: 'small' } as never),
    ],
  ])('is refused when it is made: %s', (_, make) => {
    expect(make).toThrow(ConfigurationError);
  });
});
