import { afterEach, describe, expect, it } from '@jest/globals';
import type { Progress, ProtocolError } from '@modelcontextprotocol/client';
import { Witness } from './notes.js';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterEach(closeAll);

const PLATFORMS = ['express', 'fastify'] as const;
const EVERYWHERE = PLATFORMS.flatMap((platform) => ERAS.map((era) => ({ platform, era })));

describe('the server', () => {
  it.each(EVERYWHERE)('lists the tools that policy allows the caller ($platform, $era)', async ({ platform, era }) => {
    const served = await serve({ platform });
    const listed = async (token: string) => (await (await connect(served, { era, token })).listTools()).tools.map(({ name }) => name);
    const ofAlice = await listed('alice');
    expect(ofAlice).toContain('notes__find');
    expect(ofAlice).not.toContain('notes__manage');
    expect(await listed('mia')).toContain('notes__manage');
  });

  it.each(EVERYWHERE)('makes a call for the actor and the tenant of the token ($platform, $era)', async ({ platform, era }) => {
    const served = await serve({ platform });
    const read = async (token: string) => {
      const client = await connect(served, { era, token });
      await client.listTools();
      return (await client.callTool({ name: 'notes__read', arguments: { id: 'n1' } })).structuredContent;
    };
    expect(await read('alice')).toEqual({ id: 'n1', text: 'a note of acme' });
    expect(await read('bob')).toEqual({ id: 'n1', text: 'a note of globex' });
  });
});

describe.each(ERAS)('a call in the era of %s', (era) => {
  it('has what a tool returns as text, and as the structure that the tool declares', async () => {
    const client = await connect(await serve(), { era });
    const { tools } = await client.listTools();
    expect(tools.find(({ name }) => name === 'notes__find')?.outputSchema).toMatchObject(
      era === '2025' ? { type: 'object', properties: { result: { type: 'array' } } } : { type: 'array' },
    );
    const found = await client.callTool({ name: 'notes__find', arguments: { word: 'tea' } });
    const notes = [{ id: 'n1', text: 'tea of acme' }];
    expect(found.structuredContent).toEqual(era === '2025' ? { result: notes } : notes);
    expect(found.content).toEqual([{ type: 'text', text: JSON.stringify(notes) }]);
  });

  it('takes no arguments for none, be they left out or null', async () => {
    const client = await connect(await serve(), { era });
    for (const params of [{}, { arguments: null }]) {
      const { content, isError } = await client.callTool({ name: 'notes__count', ...params } as { name: string });
      expect([content, isError]).toEqual([[{ type: 'text', text: '7' }], undefined]);
    }
  });

  it('tells what is wrong with the arguments as a result, which the model can mend', async () => {
    const client = await connect(await serve(), { era });
    const { isError, content } = await client.callTool({ name: 'notes__read', arguments: { id: 7, tenant: 'globex' } });
    expect(isError).toBe(true);
    expect(JSON.stringify(content)).toContain('tenant_override');
  });

  it('hides what a tool throws, but for what it says on purpose', async () => {
    const client = await connect(await serve(), { era });
    const failed = await client.callTool({ name: 'notes__fail' });
    expect(failed.isError).toBe(true);
    expect(JSON.stringify(failed)).not.toMatch(/hunter2|\.ts\b/);
    const refused = await client.callTool({ name: 'notes__refuse' });
    expect([refused.isError, JSON.stringify(refused.content)]).toEqual([true, expect.stringContaining('The notes are closed today.')]);
  });

  it('says the same of a tool that policy hides and of one that does not exist', async () => {
    const client = await connect(await serve(), { era });
    const said = async (name: string) => {
      const { code, message } = (await client.callTool({ name }).catch((thrown: unknown) => thrown)) as ProtocolError;
      return [code, message.replaceAll(name, 'NAME')];
    };
    // As far from every permitted name as each other, so that the same are suggested.
    const hidden = await said('notes__manage');
    expect(hidden).toEqual([-32_602, expect.stringContaining('No tool is named "NAME".')]);
    expect(hidden).toEqual(await said('notes__manaxe'));
  });

  it('tells of the progress of a tool while it works', async () => {
    const client = await connect(await serve(), { era });
    const told: Progress[] = [];
    const { content } = await client.callTool(
      { name: 'notes__work', arguments: { name: 'quick' } },
      { onprogress: (progress) => told.push(progress) },
    );
    expect(told).toEqual([{ progress: 1, total: 2, message: 'half' }]);
    expect(content).toEqual([{ type: 'text', text: 'done' }]);
  });

  it('ends at the tool when the client cancels', async () => {
    const served = await serve();
    const client = await connect(served, { era });
    const { aborted } = served.app.get(Witness);
    const cancel = new AbortController();
    const call = client.callTool(
      { name: 'notes__work', arguments: { name: 'slow' } },
      { signal: cancel.signal, onprogress: () => cancel.abort() },
    );
    await expect(call).rejects.toThrow(/abort/i);

    for (let turn = 0; turn < 100 && aborted.length === 0; turn += 1) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(aborted).toEqual(['slow']);
  });
});
