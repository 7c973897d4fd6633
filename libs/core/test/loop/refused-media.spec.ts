import { describe, expect, it } from '@jest/globals';
import {
  attach,
  LanguageModel,
  type LoopEvent,
  type LoopRequest,
  type Message,
  tool,
} from '@toolloop/core';
import {
  type ContentPart,
  ModelError,
  type ModelEvent,
  type ModelRequest,
} from '@toolloop/protocol';
import { play, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const GOOD = 'data:image/png;base64,iVBORw0KGgpHT09E';
const BAD = 'data:image/png;base64,iVBORw0KGgpCQUQ=';
const GONE = 'https://acme.test/gone.png';

/** A provider that refuses a request which carries some picture. */
class PickyModel extends LanguageModel {
  readonly provider = 'picky';
  readonly modelId = 'picky-1';
  readonly requests: ModelRequest[] = [];

  constructor(
    private readonly refused: readonly string[],
    private readonly refusal: (url: string) => unknown = () =>
      new ModelError('Could not process image.', { status: 400 }),
  ) {
    super();
  }

  async *stream(request: ModelRequest): AsyncGenerator<ModelEvent, void, undefined> {
    await Promise.resolve();
    this.requests.push(request);
    const bad = picturesIn(request.messages).find((url) => this.refused.includes(url));
    if (bad !== undefined) throw this.refusal(bad);
    const last = request.messages.at(-1);
    const wantsCall =
      last?.role === 'user' && JSON.stringify(last.content).includes('Take a photo');
    if (wantsCall)
      yield { type: 'tool-call', toolCallId: 'c1', name: 'camera__take', arguments: '{}' };
    else yield { type: 'text-delta', text: `I see ${picturesIn(request.messages).length}.` };
    yield { type: 'finish', finishReason: wantsCall ? 'tool_calls' : 'stop' };
  }
}

function picturesIn(messages: readonly Message[]): readonly string[] {
  const parts = messages.flatMap(({ content }): readonly ContentPart[] =>
    typeof content === 'string' ? [] : content,
  );
  return parts.flatMap((part) => (part.type === 'image' ? [part.url] : []));
}

/** The number of pictures in each request. */
function sent({ requests }: PickyModel): readonly number[] {
  return requests.map(({ messages }) => picturesIn(messages).length);
}

function question(text: string, ...urls: readonly string[]): Message {
  return {
    role: 'user',
    content: [{ type: 'text', text }, ...urls.map((url) => ({ type: 'image', url }) as const)],
  };
}

const camera = tool({
  id: 'camera__take',
  description: 'Takes a photo.',
  input: { type: 'object', properties: {}, additionalProperties: false },
  effect: 'read_only',
  reveal: 'all',
  execute: () => attach('taken', { type: 'image', url: BAD, mediaType: 'image/png' }),
});

/** Asks question after question in one conversation. */
async function conversation(
  model: PickyModel,
  questions: readonly Message[],
  rest: Partial<LoopRequest> = {},
): Promise<PlayedRun[]> {
  const loop = await openShop(model, { tools: [camera], policy: { allow: ['camera__*'] } });
  const conversationId = `c${Math.random()}`;
  const played: PlayedRun[] = [];
  for (const one of questions)
    played.push(await play(loop, ask({ model, messages: [one], conversationId, ...rest })));
  return played;
}

function textsOf(played: readonly PlayedRun[]): readonly string[] {
  return played.map(({ result }) => result.text);
}

function warningsIn(events: readonly LoopEvent[]): readonly string[] {
  return events.flatMap((event) => (event.type === 'warning' ? [event.code] : []));
}

const NOTE = '[An image, which the provider refused.]';

describe('a picture that the provider refuses', () => {
  it('is left out with a note, and the run and the conversation continue without it', async () => {
    const model = new PickyModel([BAD]);
    const played = await conversation(model, [
      question('What is this?', BAD),
      question('And now?'),
    ]);
    expect(textsOf(played)).toEqual(['I see 0.', 'I see 0.']);
    expect(played.map(({ events }) => warningsIn(events))).toEqual([['media_refused'], []]);
    expect(model.requests).toHaveLength(3);
    expect(JSON.stringify(model.requests[2]?.messages)).toContain(NOTE);
  });

  it('is left out alone: those that the provider has answered to stay', async () => {
    const model = new PickyModel([BAD]);
    const played = await conversation(model, [
      question('One?', GOOD),
      question('Two?', BAD),
      question('Three?'),
    ]);
    expect(textsOf(played)).toEqual(['I see 1.', 'I see 1.', 'I see 1.']);
    expect(model.requests).toHaveLength(4);
  });

  it('is remembered by its content: shown again, it costs no refused request', async () => {
    const model = new PickyModel([BAD]);
    await conversation(model, [question('What is this?', BAD), question('And this?', BAD)]);
    expect(model.requests).toHaveLength(3);
  });

  it('may be one that a tool attached to its result', async () => {
    const model = new PickyModel([BAD]);
    const played = await conversation(model, [question('Take a photo.'), question('And now?')]);
    expect(textsOf(played)).toEqual(['I see 0.', 'I see 0.']);
    expect(model.requests).toHaveLength(4);
  });

  it('may be an old one, which has gone from its address since', async () => {
    const gone: string[] = [];
    const model = new PickyModel(
      gone,
      (url) => new ModelError(`Error while downloading ${url}.`, { status: 400 }),
    );
    const loop = await openShop(model);
    const asking = (message: Message) =>
      play(loop, ask({ model, messages: [message], conversationId: 'gone' }));
    const played = [await asking(question('One?', GONE, GOOD))];
    gone.push(GONE);
    played.push(await asking(question('Two?', GOOD)), await asking(question('Three?')));
    expect(textsOf(played)).toEqual(['I see 2.', 'I see 2.', 'I see 2.']);
    expect(model.requests).toHaveLength(4);
  });

  it('may be an old one that the words do not name: then all are left out, and the conversation lives', async () => {
    const model = new PickyModel([GONE]);
    const loop = await openShop(model);
    const messages: Message[] = [
      question('One?', GONE),
      { role: 'assistant', content: 'Yes.' },
      question('Two?', GOOD),
    ];
    const { result } = await play(loop, ask({ model, messages }));
    expect(result.text).toBe('I see 0.');
    expect(model.requests).toHaveLength(3);
  });

  it.each([400, 413, 415, 422])(
    'is found out by another request after status %i',
    async (status) => {
      const model = new PickyModel([BAD], () => new ModelError('No.', { status }));
      expect(textsOf(await conversation(model, [question('What?', BAD)]))).toEqual(['I see 0.']);
    },
  );

  it.each<[string, unknown]>([
    ['the key', new ModelError('No.', { status: 401 })],
    [
      'the length of the conversation',
      new ModelError('Too long.', { status: 400, code: 'context_length' }),
    ],
    ['the quota', new ModelError('Pay.', { status: 400, code: 'quota_exceeded' })],
    ['the model, which is gone', new ModelError('No.', { status: 404 })],
    ['something that is no error of a provider', new Error('No.')],
  ])('is not suspected of a failure of %s', async (_what, error) => {
    const model = new PickyModel([BAD], () => error);
    const [played] = await conversation(model, [question('What?', BAD)]);
    expect(played?.result.finishReason).toBe('error');
    expect(model.requests).toHaveLength(1);
  });

  it('is not blamed for a request that fails without it, too: the first failure stands', async () => {
    const model = new PickyModel([BAD]);
    model.stream = async function* stream(request: ModelRequest) {
      await Promise.resolve();
      model.requests.push(request);
      yield* [];
      throw new ModelError(`Failure ${model.requests.length}.`, { status: 400 });
    };
    const [played] = await conversation(model, [question('What?', BAD)]);
    expect(played?.result.finishReason).toBe('error');
    expect(JSON.stringify(played?.result.messages)).not.toContain('refusedMedia');
    expect(model.requests).toHaveLength(2);
  });
});

describe('old pictures', () => {
  const pictures = Array.from(
    { length: 12 },
    (_, index) => `data:image/png;base64,${'ABCDEFGHIJKL'.charAt(index)}AAA`,
  );

  it('are sent up to `limits.sentMedia`, and then the newer half of them, with notes for the others', async () => {
    const model = new PickyModel([]);
    await conversation(
      model,
      pictures.map((url) => question('What is this?', url)),
    );
    expect(sent(model)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 5, 6]);
    expect(picturesIn(model.requests.at(-1)?.messages ?? [])).toEqual(pictures.slice(6));
    expect(JSON.stringify(model.requests.at(-1)?.messages[0])).toContain(
      '[An image, which is no longer shown, since there are newer ones.]',
    );
  });

  it('keep a prefix of equal messages between two cuts, for the cache of the provider', async () => {
    const model = new PickyModel([]);
    await conversation(
      model,
      pictures.slice(0, 7).map((url) => question('What is this?', url)),
      { limits: { sentMedia: 3 } },
    );
    const [fourth, fifth] = [3, 4].map((index) => model.requests[index]?.messages ?? []);
    expect(fifth?.slice(0, fourth?.length)).toEqual(fourth);
  });

  it('do not drive out those of the newest question, however many they are', async () => {
    const model = new PickyModel([]);
    await conversation(model, [question('All of them?', ...pictures), question('And?')]);
    expect(sent(model)).toEqual([12, 12]);
  });

  it.each<[number, readonly number[]]>([
    [Infinity, [1, 2, 3, 4]],
    [2, [1, 2, 1, 2]],
    [0, [1, 1, 1, 1]],
  ])('are bounded by %d', async (sentMedia, counts) => {
    const model = new PickyModel([]);
    const questions = pictures.slice(0, 4).map((url) => question('What is this?', url));
    await conversation(model, questions, { limits: { sentMedia } });
    expect(sent(model)).toEqual(counts);
  });
});
