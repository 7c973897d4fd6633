import { describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import {
  type Application,
  ERAS,
  importing,
  type Imported,
  type StrangeTool,
  Stranger,
} from './strangers.js';

const PAY: StrangeTool = {
  name: 'pay',
  description: 'Pays.',
  outputSchema: { type: 'object', properties: { paid: { type: 'number' } }, required: ['paid'] },
};
const NOTE =
  '[The tool ran. Its answer is not in the form that the tool declares, so it is shown as it came.]';
const words = [{ type: 'text', text: 'Paid 12.' }];

const json = (message: object): string => JSON.stringify({ jsonrpc: '2.0', ...message });
const event = (message: object): string => `event: message\ndata: ${json(message)}\n\n`;
const resource = (mimeType: string | undefined, blob: string): object => ({
  type: 'resource',
  resource: { uri: 'file:///a', mimeType, blob },
});
const JSON_TYPE = 'application/json';

/** An application that imports a tool, and its server. */
async function offering(
  tool: StrangeTool,
  era: (typeof ERAS)[number],
  more: Partial<Imported> = {},
) {
  const stranger = await Stranger.serve([tool], era);
  return {
    stranger,
    application: await importing({
      servers: { others: stranger.server({ timeoutMs: 5_000 }) },
      ...more,
    }),
  };
}

/**
 * Calls the tool, which answers with a result; returns the status or the code of the failure with
 * what the ui is shown.
 */
async function resultOf(
  stranger: Stranger,
  { call: made }: Application,
  result: unknown,
): Promise<readonly unknown[]> {
  stranger.answerTo('tools/call', (id) => JSON.stringify({ jsonrpc: '2.0', id, result }));
  const { record, ui } = await made('mcp__others__pay');
  return [record.error?.code ?? record.status, ui];
}

describe.each(ERAS)('a call that a server of the era of %s has performed', (era) => {
  it('is no failure, whatever is odd about its answer', async () => {
    const { stranger, application } = await offering(PAY, era);
    const table: readonly (readonly [answer: object, ui: unknown])[] = [
      [{ content: words }, 'Paid 12.'],
      [{ content: words, structuredContent: null }, 'Paid 12.'],
      [{ content: words, structuredContent: { paid: 'twelve' } }, 'Paid 12.'],
      [{ content: words, structuredContent: {} }, 'Paid 12.'],
      [{ content: words, structuredContent: [12] }, 'Paid 12.'],
      [{ content: words, structuredContent: 'twelve' }, 'Paid 12.'],
      [{ content: [], structuredContent: { paid: 'twelve' } }, { paid: 'twelve' }],
      [{ structuredContent: { paid: 12 } }, { paid: 12 }],
      [{ content: null, structuredContent: { paid: 12 } }, { paid: 12 }],
      [{ content: words, structuredContent: { paid: 12 } }, { paid: 12 }],
      [
        { content: words, structuredContent: { paid: 12 }, isError: null, _meta: { x: 1 } },
        { paid: 12 },
      ],
      [
        { content: [{ type: 'video', data: 'AA==' }, ...words] },
        '[a part of the kind "video", left out]\nPaid 12.',
      ],
      [{ content: [{ type: 'markdown', text: 'Paid.' }] }, 'Paid.'],
      [{ content: [{ text: 'Paid.' }] }, 'Paid.'],
      [{ content: ['Paid.', 12, null] }, 'Paid.\n12'],
      [{ content: [{ type: 'text', text: 12 }] }, '[a part of the kind "text", left out]'],
      [
        { content: [{ type: 'image', data: 12, mimeType: 'image/png' }] },
        '[a part of the kind "image", left out]',
      ],
      [{ content: [{ type: 'resource', resource: { uri: 'a:b' } }] }, '[a file, left out: a:b]'],
      [
        { content: [{ type: 'resource', resource: 'a:b' }] },
        '[a part of the kind "resource", left out]',
      ],
      [{ content: [{ type: 'resource_link' }] }, '[a link:  ]'],
      [{ content: 'Paid 12.' }, 'Paid 12.'],
      [{ content: words[0] }, 'Paid 12.'],
      [{ toolResult: { paid: 12 } }, '{"toolResult":{"paid":12}}'],
      [{}, ''],
      [{ content: words, isError: 'true' }, 'Paid 12.'],
    ];
    for (const [answer, ui] of table)
      expect([
        answer,
        ...(await resultOf(stranger, application, { resultType: 'complete', ...answer })),
      ]).toEqual([answer, 'succeeded', ui]);
    expect(stranger.called).toHaveLength(table.length);
  });

  it('is no failure if its answer lacks the type of its result', async () => {
    const { stranger, application } = await offering(PAY, era);
    expect(await resultOf(stranger, application, { content: words })).toEqual([
      'succeeded',
      'Paid 12.',
    ]);
  });

  it('is told to the model with its text, and the note that it is not in the declared form', async () => {
    const model = new ScriptedModel([calls(call('mcp__others__pay')), text('Done.')]);
    const { stranger, application } = await offering(PAY, era, { model });
    stranger.answerTo('tools/call', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content: words } }),
    );
    const result = await application.loop.run({
      prompt: 'Pay.',
      actor: { id: 'ada' },
      tenant: 'acme',
    });
    expect(result.toolCalls).toMatchObject([{ status: 'succeeded', result: 'Paid 12.' }]);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: `Paid 12.\n${NOTE}`,
    });
  });

  it('has no note if its text is all that its tool declares', async () => {
    const { outputSchema: _, ...plain } = PAY;
    const model = new ScriptedModel([calls(call('mcp__others__pay')), text('Done.')]);
    const { stranger, application } = await offering(plain, era, { model });
    stranger.answerTo('tools/call', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content: words } }),
    );
    await application.loop.run({ prompt: 'Pay.', actor: { id: 'ada' }, tenant: 'acme' });
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'Paid 12.' });
  });

  it.each([
    'Output validation error: Tool pay has an output schema but no structured content was provided',
    'MCP error -32602: Output validation error: Tool pay has an output schema but no structured content was provided',
    'MCP error -32602: Tool pay has an output schema but no structured content was provided',
    'MCP error -32602: Invalid structured content for tool pay: paid must be a number',
    'Output validation error: outputSchema defined but no structured output returned',
  ])(
    'is no failure if the SDK of the server withholds its answer behind it: %s',
    async (refusal) => {
      const { stranger, application } = await offering(PAY, era);
      const answer = {
        resultType: 'complete',
        content: [{ type: 'text', text: refusal }],
        isError: true,
      };
      expect(await resultOf(stranger, application, answer)).toEqual(['succeeded', refusal]);
      stranger.answerTo('tools/call', (id) =>
        JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32_602, message: refusal } }),
      );
      expect((await application.call('mcp__others__pay')).record.status).toBe('succeeded');
    },
  );
});

describe.each(ERAS)('a call to a server of the era of %s of which no answer can be read', (era) => {
  const done = { resultType: 'complete', content: words };

  it.each<[string, (id: number) => string, string]>([
    ['no JSON', () => '<html>Gateway</html>', JSON_TYPE],
    ['half a JSON', (id) => json({ id, result: done }).slice(0, -9), JSON_TYPE],
    ['another media type', () => '<html>Gateway</html>', 'text/html'],
    ['a text as its result', (id) => json({ id, result: 'Paid 12.' }), JSON_TYPE],
    ['no result and no error', (id) => json({ id }), JSON_TYPE],
    ['an empty list', () => '[]', JSON_TYPE],
    ['the id of another request', () => json({ id: 4_711, result: done }), JSON_TYPE],
    ['an id that is a word', () => json({ id: 'pay', result: done }), JSON_TYPE],
    [
      'a notification alone',
      () => json({ method: 'notifications/progress', params: { progressToken: 9, progress: 1 } }),
      JSON_TYPE,
    ],
    ['an empty stream', () => '', 'text/event-stream'],
    ['a stream that is no JSON', () => 'data: <html>\n\n', 'text/event-stream'],
    [
      'a stream with the id of another request',
      () => event({ id: 4_711, result: done }),
      'text/event-stream',
    ],
  ])('has an unknown outcome, at once: %s', async (_, answer, contentType: string) => {
    const { stranger, application } = await offering(PAY, era);
    stranger.answerTo('tools/call', answer, contentType);
    const { record } = await application.call('mcp__others__pay');
    expect(record.error).toMatchObject({
      code: 'unknown_outcome',
      safeMessage: expect.stringMatching(
        /^The server "others" has answered, but its answer cannot be read\. .*Do not repeat the call/,
      ),
    });
    expect(record.durationMs).toBeLessThan(4_000);
    stranger.instead = undefined;
    expect((await application.call('mcp__others__pay')).record.status).toBe('succeeded');
  });

  it('is read although its id is a text of digits, or more than the answer is in its stream', async () => {
    const { stranger, application } = await offering(PAY, era);
    stranger.answerTo('tools/call', (id) => json({ id: String(id), result: done }));
    expect((await application.call('mcp__others__pay')).ui).toBe('Paid 12.');
    stranger.answerTo(
      'tools/call',
      (id) => event({ id: 4_711, result: done }) + event({ id, result: done }),
      'text/event-stream',
    );
    expect((await application.call('mcp__others__pay')).ui).toBe('Paid 12.');
  });
});

describe.each(ERAS)('media in an answer of a server of the era of %s', (era) => {
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64');
  const { outputSchema: _, ...plain } = PAY;

  it('reach the model alike, whether they are parts of it or in a resource', async () => {
    const content = [
      { type: 'image', data: png, mimeType: 'image/png' },
      resource('image/png', png),
      { type: 'audio', data: 'AQID', mimeType: 'audio/wav' },
      resource('audio/mpeg', 'AQID'),
      resource('application/pdf', 'JVBERi0='),
      resource('text/csv; charset=utf-8', Buffer.from('a,b').toString('base64')),
      resource('application/zip', 'AQID'),
      resource(undefined, 'AQID'),
    ];
    const model = new ScriptedModel([calls(call('mcp__others__pay')), text('Done.')]);
    const { stranger, application } = await offering(plain, era, { model });
    stranger.answerTo('tools/call', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content } }),
    );
    const result = await application.loop.run({
      prompt: 'Pay.',
      actor: { id: 'ada' },
      tenant: 'acme',
    });
    expect(
      result.toolCalls[0]?.attachments?.map(({ type, mediaType }) => [type, mediaType]),
    ).toEqual([
      ['image', 'image/png'],
      ['image', 'image/png'],
      ['file', 'audio/wav'],
      ['file', 'audio/mpeg'],
      ['file', 'application/pdf'],
    ]);
    expect(result.toolCalls[0]?.result).toBe(
      'a,b\n[a file, left out: file:///a]\n[a file, left out: file:///a]',
    );
    const hidden = { type: 'text', text: '[A recording, which you cannot be shown.]' };
    expect(model.requests[1]?.messages.at(-1)?.content).toMatchObject([
      { type: 'text' },
      { type: 'image' },
      { type: 'image' },
      hidden,
      hidden,
      { type: 'file', mediaType: 'application/pdf' },
    ]);
  });

  it('are left out with a note beyond the limit of all attachments, or if they are no image where they say so', async () => {
    const { stranger, application } = await offering(plain, era, {
      options: { limits: { attachmentBytes: 20 } },
    });
    const content = [
      resource('image/png', png),
      resource('image/png', png),
      resource('image/', png),
    ];
    stranger.answerTo('tools/call', (id) =>
      JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content } }),
    );
    const { record } = await application.call('mcp__others__pay');
    expect([record.status, record.attachments?.length]).toEqual(['succeeded', 1]);
  });
});
