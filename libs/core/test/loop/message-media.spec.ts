import { describe, expect, it } from '@jest/globals';
import { InvalidRequestError, type Limits, type Message } from '@toolloop/core';
import { ScriptedModel, text } from '@toolloop/testing';
import { play } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const saying = (...content: unknown[]) => ({ role: 'user', content });
const answering = (content: unknown) => [
  { role: 'user', content: 'Go.' },
  {
    role: 'assistant',
    content: '',
    toolCalls: [{ toolCallId: 'c1', name: 'probe__read', arguments: '{}' }],
  },
  { role: 'tool', toolCallId: 'c1', toolName: 'probe__read', content },
  { role: 'user', content: 'And?' },
];
const image = { type: 'image', url: 'data:image/png;base64,AQIDBA==', mediaType: 'image/png' };
const file = {
  type: 'file',
  url: 'https://acme.test/a.pdf',
  mediaType: 'application/pdf',
  name: 'a.pdf',
};

/** What the model is shown of messages that came from outside. */
async function shown(
  messages: unknown[],
  limits: Partial<Limits> = {},
): Promise<readonly Message[]> {
  const model = new ScriptedModel([text('Done.')]);
  await play(await openShop(model), ask({ messages: messages as Message[], limits }));
  return model.requests[0]?.messages ?? [];
}

async function refusalOf(messages: unknown[], limits: Partial<Limits> = {}): Promise<string> {
  const loop = await openShop(new ScriptedModel([]));
  try {
    loop.open(ask({ messages: messages as Message[], limits }));
  } catch (error) {
    if (error instanceof InvalidRequestError) return error.message;
    throw error;
  }
  throw new Error('It was taken.');
}

describe('images and files in messages that came from outside', () => {
  it('are handed to the model, and nothing else that a part holds', async () => {
    const content = [{ type: 'text', text: 'What is this?' }, image, file];
    const sent = await shown([
      saying(content[0], { ...image, detail: 'high' }, { ...file, bytes: 5, sha256: 'x' }),
    ]);
    expect(sent).toEqual([{ role: 'user', content }]);
  });

  it('may be in the result of a call, which counts as untrusted', async () => {
    const content = [{ type: 'text', text: 'a chart' }, image];
    expect((await shown(answering(content)))[2]).toEqual({
      role: 'tool',
      toolCallId: 'c1',
      toolName: 'probe__read',
      content,
      labels: { returns: 'untrusted', reads: 'private' },
    });
  });

  it.each<[string, unknown]>([
    ['of another scheme', { ...file, url: 'file:///etc/passwd' }],
    ['with a password', { ...file, url: 'https://me:hunter2@acme.test/' }],
    ['without a media type', { type: 'file', url: file.url }],
    ['without a URL', { type: 'file', mediaType: 'text/plain' }],
    ['that are no images', { ...image, mediaType: 'text/html' }],
    ['of another kind', { type: 'audio', url: image.url }],
    ['that are nothing', null],
    ['that are text', 'image'],
  ])('are refused: %s', async (_, part) => {
    const refusal = await refusalOf([saying(part)]);
    expect(refusal).toMatch(/^Message 0: a part of the content/);
    expect(refusal).not.toContain('hunter2');
  });

  it('are bounded together, in each message', async () => {
    await expect(refusalOf([saying(image, image)], { attachmentBytes: 7 })).resolves.toContain(
      'larger than the 3 bytes',
    );
    await expect(refusalOf(answering([image, image]), { attachmentBytes: 7 })).resolves.toMatch(
      /^Message 2: .*larger than the 3 bytes/,
    );
    await expect(
      shown([saying(image), saying(image)], { attachmentBytes: 7 }),
    ).resolves.toHaveLength(2);
  });

  it('do not smuggle text past its limit', async () => {
    const parts = [
      { type: 'text', text: 'x'.repeat(60) },
      { type: 'text', text: 'x'.repeat(60) },
    ];
    await expect(refusalOf(answering(parts), { resultBytes: 100 })).resolves.toContain(
      'is larger than 100 bytes',
    );
  });
});
