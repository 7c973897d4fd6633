import { describe, expect, it } from '@jest/globals';
import { AuditStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ECHO, ERAS, importing, said, Stranger } from './strangers.js';

describe.each(ERAS)('a tool of a server of the era of %s', (era) => {
  it('is called by its id, with the arguments that it was given', async () => {
    const stranger = await Stranger.serve([ECHO], era);
    const { call: made, catalog } = await importing({ servers: { others: stranger.server() } });
    expect(catalog.list().map(({ id }) => id)).toEqual(['mcp__others__echo']);
    const { ui, record } = await made('mcp__others__echo', { text: 'Hello' });
    expect([ui, record.status]).toEqual(['Hello', 'succeeded']);
  });

  it('gets the trace of its call, beside the sign for its progress', async () => {
    const seen: unknown[] = [];
    const tool = {
      name: 'look',
      answer: (_: unknown, { mcpReq }: Parameters<NonNullable<(typeof ECHO)['answer']>>[1]) => {
        const { _meta: meta } = mcpReq;
        seen.push(meta?.['traceparent'], meta?.progressToken !== undefined);
        return said('seen');
      },
    };
    const stranger = await Stranger.serve([tool], era);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { call: made } = await importing({
      servers: { others: stranger.server() },
      trace: { outgoing: () => ({ traceparent }) },
    });
    await made('mcp__others__look');
    expect(seen).toEqual([traceparent, true]);
  });

  it('answers with what it declares, and with its text if its answer is not of that form', async () => {
    const outputSchema = {
      type: 'object' as const,
      properties: { count: { type: 'number' } },
      required: ['count'],
    };
    const answers: unknown[] = [{ count: 3 }, { count: 'three' }];
    const tool = {
      name: 'count',
      outputSchema,
      answer: () => {
        const structuredContent = answers.shift() as Record<string, unknown>;
        return {
          content: [{ type: 'text' as const, text: JSON.stringify(structuredContent) }],
          structuredContent,
        };
      },
    };
    const stranger = await Stranger.serve([tool], era);
    const { call: made } = await importing({ servers: { others: stranger.server() } });
    expect((await made('mcp__others__count')).ui).toEqual({ count: 3 });
    expect((await made('mcp__others__count')).ui).toBe('{"count":"three"}');
  });

  it('fails with the words of its server where that says so, or refuses the call', async () => {
    const tools = [
      { name: 'fail', answer: () => ({ ...said('No such repository.'), isError: true }) },
      { name: 'refuse', answer: () => Promise.reject(new Error('It is broken.')) },
    ];
    const stranger = await Stranger.serve(tools, era);
    const { call: made } = await importing({ servers: { others: stranger.server() } });
    expect((await made('mcp__others__fail')).record.error).toMatchObject({
      code: 'execution_failed',
      safeMessage: 'No such repository.',
    });
    expect((await made('mcp__others__refuse')).record.error?.safeMessage).toMatch(
      /^The server "others" refused the call: /,
    );
  });

  it('tells its progress, and shows its images beside its text', async () => {
    const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64');
    const tool = {
      name: 'draw',
      answer: async (
        _: unknown,
        { mcpReq }: Parameters<NonNullable<(typeof ECHO)['answer']>>[1],
      ) => {
        const { _meta: meta } = mcpReq;
        const progressToken = meta?.progressToken;
        if (progressToken !== undefined)
          await mcpReq.notify({
            method: 'notifications/progress',
            params: { progressToken, progress: 1, total: 2 },
          });
        return {
          content: [
            { type: 'text' as const, text: 'a dot' },
            { type: 'image' as const, data: png, mimeType: 'image/png' },
          ],
        };
      },
    };
    const stranger = await Stranger.serve([tool], era);
    const model = new ScriptedModel([calls(call('mcp__others__draw')), text('Done.')]);
    const { loop } = await importing({ servers: { others: stranger.server() }, model });
    const events = [];
    const run = loop.open({ prompt: 'Draw.', actor: { id: 'ada' }, tenant: 'acme' });
    for await (const event of run) events.push(event);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'tool-progress', value: { progress: 1, total: 2 } }),
    );
    expect((await run.result).toolCalls[0]).toMatchObject({
      result: 'a dot',
      attachments: [{ type: 'image', mediaType: 'image/png' }],
    });
  });

  it('C14: leaves the same entries in the audit for a call of the loop, a call by hand and a call of a session, with its actor and the hash of the tool', async () => {
    const stranger = await Stranger.serve([ECHO], era);
    const model = new ScriptedModel([
      calls(call('mcp__others__echo', { text: 'Hello' })),
      text('Done.'),
    ]);
    const {
      loop,
      call: made,
      module,
      catalog,
    } = await importing({ servers: { others: stranger.server() }, model });
    const who = { actor: { id: 'ada' }, tenant: 'acme' };
    await loop.run({ prompt: 'Say hello.', ...who });
    await made('mcp__others__echo', { text: 'Hello' });
    const session = await loop.session(who);
    await session.call('mcp__others__echo', { text: 'Hello' });
    const entries = await module.get(AuditStore).read('acme', { from: 1, limit: 50 });
    const { schemaHash } = catalog.describe('mcp__others__echo');
    const shape = (list: typeof entries) =>
      list.map(({ kind, declaredId, actorId, schemaHash: hash }) => ({
        kind,
        declaredId,
        actorId,
        hash,
      }));
    const expected = ['decision', 'outcome'].map((kind) => ({
      kind,
      declaredId: 'mcp__others__echo',
      actorId: 'ada',
      hash: schemaHash,
    }));
    expect([
      shape(entries.slice(0, 2)),
      shape(entries.slice(2, 4)),
      shape(entries.slice(4)),
    ]).toEqual([expected, expected, expected]);
  });

  it('ends on the server when its run is cancelled', async () => {
    let isAborted = false;
    const tool = {
      name: 'wait',
      answer: (_: unknown, { mcpReq }: Parameters<NonNullable<(typeof ECHO)['answer']>>[1]) =>
        new Promise<never>((__, reject) => {
          mcpReq.signal.addEventListener('abort', () => {
            isAborted = true;
            reject(new Error('cancelled'));
          });
        }),
    };
    const stranger = await Stranger.serve([tool], era);
    const { loop } = await importing({ servers: { others: stranger.server() } });
    const controller = new AbortController();
    const made = loop.call({
      tool: 'mcp__others__wait',
      actor: { id: 'ada' },
      tenant: 'acme',
      signal: controller.signal,
    });
    await untilCalled(stranger);
    controller.abort();
    expect((await made.catch((error: Error) => error.message)) !== undefined).toBe(true);
    await untilTrue(() => isAborted);
  });
});

async function untilTrue(holds: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 2_000 && !holds(); attempt += 1) {
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
  expect(holds()).toBe(true);
}

const untilCalled = (stranger: Stranger): Promise<void> =>
  untilTrue(() => stranger.called.length > 0);
