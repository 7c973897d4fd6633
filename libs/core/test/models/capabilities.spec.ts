import { describe, expect, it } from '@jest/globals';
import { InvalidRequestError, LanguageModel, type Message } from '@toolloop/core';
import type { ModelCapabilities, ModelEvent } from '@toolloop/protocol';
import { ScriptedModel, text } from '@toolloop/testing';
import { IsString } from 'class-validator';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

class Answer {
  @IsString()
  city!: string;
}

/** A model that cannot do everything. */
class Limited extends LanguageModel {
  readonly provider = 'scripted';
  readonly modelId = 'limited';
  constructor(
    readonly inner: ScriptedModel,
    override readonly capabilities: ModelCapabilities,
  ) {
    super();
  }
  stream(...args: Parameters<LanguageModel['stream']>): AsyncIterable<ModelEvent> {
    return this.inner.stream(...args);
  }
}

const image = {
  type: 'image',
  url: 'data:image/png;base64,AQIDBA==',
  mediaType: 'image/png',
} as const;
const file = {
  type: 'file',
  url: 'https://acme.test/a.pdf',
  mediaType: 'application/pdf',
} as const;
const shownByUser: Message[] = [
  { role: 'user', content: [{ type: 'text', text: 'What is this?' }, image, file] },
];
const shownByTool: Message[] = [
  { role: 'user', content: 'Go.' },
  {
    role: 'assistant',
    content: '',
    toolCalls: [{ toolCallId: 'c1', name: 'probe__read', arguments: '{}' }],
  },
  {
    role: 'tool',
    toolCallId: 'c1',
    toolName: 'probe__read',
    content: [{ type: 'text', text: 'a chart' }, image, file],
  },
  { role: 'user', content: 'And?' },
];

describe('a model', () => {
  it.each([{ images: false }, { files: false }])(
    'refuses the request when a user shows it an image or file that it does not accept: %p',
    async (capabilities) => {
      const loop = await openShop(new Limited(new ScriptedModel([]), capabilities));
      expect(() => loop.open(ask({ messages: shownByUser }))).toThrow(InvalidRequestError);
      expect(() => loop.open(ask({ messages: shownByUser }))).toThrow(
        'Message 0 has an image or a file that scripted/limited does not accept. Leave it out, or choose another model.',
      );
    },
  );

  it('reads that there was something when a tool shows it an image or file that it does not accept', async () => {
    const model = new Limited(new ScriptedModel([text('Done.')]), { images: false });
    await play(await openShop(model), ask({ messages: shownByTool }));
    expect(model.inner.requests[0]?.messages[2]?.content).toEqual([
      { type: 'text', text: 'a chart' },
      { type: 'text', text: '[An image, which you cannot be shown.]' },
      file,
    ]);
  });

  it('hears a recording only if it says that it takes some, and reads otherwise that there was one', async () => {
    const recording = {
      type: 'file',
      url: 'data:audio/wav;base64,AQIDBA==',
      mediaType: 'audio/wav',
    } as const;
    const heard: Message[] = [
      ...shownByTool.slice(0, 2),
      { role: 'tool', toolCallId: 'c1', toolName: 'probe__read', content: [recording] },
    ];
    const deaf = new ScriptedModel([text('Done.')]);
    await play(await openShop(deaf), ask({ messages: heard }));
    const hearing = new Limited(new ScriptedModel([text('Done.')]), { audio: true });
    await play(await openShop(hearing), ask({ messages: heard }));
    expect([deaf, hearing.inner].map(({ requests }) => requests[0]?.messages[2]?.content)).toEqual([
      [{ type: 'text', text: '[A recording, which you cannot be shown.]' }],
      [recording],
    ]);
  });

  it('is shown everything without declared capabilities', async () => {
    const model = new ScriptedModel([text('Done.')]);
    await play(await openShop(model), ask({ messages: shownByUser }));
    expect(model.requests[0]?.messages[0]?.content).toEqual(shownByUser[0]?.content);
  });

  it('reads the form of its answer in words when it accepts no schema', async () => {
    const model = new Limited(new ScriptedModel([text('{"city":"Dublin"}')]), {
      structuredOutput: false,
    });
    const { result } = await play(
      await openShop(model, { instructions: 'Help.' }),
      ask({ output: Answer }),
    );
    expect(result.output).toEqual({ city: 'Dublin' });
    expect(model.inner.requests[0]).not.toHaveProperty('answerFormat');
    expect(model.inner.requests[0]?.instructions).toMatch(
      /^Help\.\n\nGive your final answer as one JSON object.*"city"/s,
    );
  });
});
