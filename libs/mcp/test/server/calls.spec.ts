import { afterEach, describe, expect, it } from '@jest/globals';
import type { Client, Progress, ProtocolError } from '@modelcontextprotocol/client';
import { tool } from '@toolloop/core';
import { AuditStore } from '@toolloop/core/stores';
import { Witness } from './notes.js';
import { closeAll, connect, ERAS, serve } from './served-notes.js';

afterEach(closeAll);

const PLATFORMS = ['express', 'fastify'] as const;
const EVERYWHERE = PLATFORMS.flatMap((platform) => ERAS.map((era) => ({ platform, era })));

describe('the server', () => {
  it.each(EVERYWHERE)(
    'lists the tools that policy allows the caller ($platform, $era)',
    async ({ platform, era }) => {
      const served = await serve({ platform });
      const listed = async (token: string) =>
        (await (await connect(served, { era, token })).listTools()).tools.map(({ name }) => name);
      const ofAlice = await listed('alice');
      expect(ofAlice).toContain('notes__find');
      expect(ofAlice).not.toContain('notes__manage');
      expect(await listed('mia')).toContain('notes__manage');
    },
  );

  it.each(EVERYWHERE)(
    'makes a call for the actor and the tenant of the token ($platform, $era)',
    async ({ platform, era }) => {
      const served = await serve({ platform });
      const read = async (token: string) => {
        const client = await connect(served, { era, token });
        await client.listTools();
        return (await client.callTool({ name: 'notes__read', arguments: { id: 'n1' } }))
          .structuredContent;
      };
      expect(await read('alice')).toEqual({ id: 'n1', text: 'a note of acme' });
      expect(await read('bob')).toEqual({ id: 'n1', text: 'a note of globex' });
    },
  );
});

describe.each(ERAS)('a call in the era of %s', (era) => {
  it('is made within the trace that its request names', async () => {
    const within: unknown[] = [];
    const trace = {
      incoming: <Result>(meta: Readonly<Record<string, unknown>>, work: () => Result): Result => {
        within.push(meta['traceparent']);
        return work();
      },
    };
    const client = await connect(await serve({ server: { trace } }), { era });
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const { structuredContent } = await client.callTool({
      name: 'notes__read',
      arguments: { id: 'n1' },
      _meta: { traceparent },
    });
    expect([within, structuredContent]).toEqual([
      [traceparent],
      { id: 'n1', text: 'a note of acme' },
    ]);
  });

  it('has what a tool returns as text, and as the structure that the tool declares', async () => {
    const client = await connect(await serve(), { era });
    const { tools } = await client.listTools();
    expect(tools.find(({ name }) => name === 'notes__find')?.outputSchema).toMatchObject(
      era === '2025'
        ? { type: 'object', properties: { result: { type: 'array' } } }
        : { type: 'array' },
    );
    const found = await client.callTool({ name: 'notes__find', arguments: { word: 'tea' } });
    const notes = [{ id: 'n1', text: 'tea of acme' }];
    expect(found.structuredContent).toEqual(era === '2025' ? { result: notes } : notes);
    expect(found.content).toEqual([{ type: 'text', text: JSON.stringify(notes) }]);
  });

  it('takes no arguments for none, be they left out or null', async () => {
    const client = await connect(await serve(), { era });
    for (const params of [{}, { arguments: null }]) {
      const { content, isError } = await client.callTool({ name: 'notes__count', ...params } as {
        name: string;
      });
      expect([content, isError]).toEqual([[{ type: 'text', text: '7' }], undefined]);
    }
  });

  it('tells what is wrong with the arguments as a result, which the model can mend', async () => {
    const client = await connect(await serve(), { era });
    const { isError, content } = await client.callTool({
      name: 'notes__read',
      arguments: { id: 7, tenant: 'globex' },
    });
    expect(isError).toBe(true);
    expect(JSON.stringify(content)).toContain('tenant_override');
  });

  it('S19: hides what a tool throws, but for what it says on purpose', async () => {
    const client = await connect(await serve(), { era });
    const failed = await client.callTool({ name: 'notes__fail' });
    expect(failed.isError).toBe(true);
    expect(JSON.stringify(failed)).not.toMatch(/hunter2|\.ts\b/);
    const refused = await client.callTool({ name: 'notes__refuse' });
    expect([refused.isError, JSON.stringify(refused.content)]).toEqual([
      true,
      expect.stringContaining('The notes are closed today.'),
    ]);
  });

  it('S14: says the same of a tool that policy hides and of one that does not exist', async () => {
    const client = await connect(await serve(), { era });
    const said = async (name: string) => {
      const { code, message } = (await client
        .callTool({ name })
        .catch((thrown: unknown) => thrown)) as ProtocolError;
      return [code, message.replaceAll(name, 'NAME')];
    };
    // As far from every permitted name as each other, so that the same are suggested.
    const hidden = await said('notes__manage');
    expect(hidden).toEqual([-32_602, expect.stringContaining('No tool is named "NAME".')]);
    expect(hidden).toEqual(await said('notes__manaxe'));
  });

  it('S14: is refused beyond the budget of its caller, whatever session or scope it is made in', async () => {
    const policy = {
      version: '1',
      flow: 'off',
      allow: ['notes__*'],
      runBudgets: [{ tools: ['notes__count'], calls: 2 }],
    } as const;
    const served = await serve({ loop: { policy } });
    const made = async (path: string, token = 'alice') =>
      JSON.stringify(
        (await (await connect(served, { era, path, token })).callTool({ name: 'notes__count' }))
          .content,
      );
    expect([await made('/mcp'), await made('/mcp/desk')]).toEqual([
      expect.stringContaining('7'),
      expect.stringContaining('7'),
    ]);
    expect(await made('/mcp/fresh')).toContain('budget_exceeded');
    expect(await made('/mcp/fresh', 'bob')).toContain('7');
  });

  it('S14: has no result that does not fit what the tool declares', async () => {
    const sum = tool({
      id: 'notes__sum',
      description: 'Sums.',
      input: { type: 'object', properties: {} },
      outputSchema: {
        type: 'object',
        properties: { total: { type: 'integer' } },
        required: ['total'],
      },
      effect: 'read_only',
      reveal: ['total', 'secret'],
      execute: () => ({ total: 'many', secret: 'hunter2' }),
    });
    const client = await connect(await serve({ loop: { tools: [sum] } }), { era });
    const { isError, content, structuredContent } = await client.callTool({ name: 'notes__sum' });
    expect([isError, structuredContent]).toEqual([true, undefined]);
    expect(JSON.stringify(content)).not.toContain('hunter2');
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

  it('S18: ends at the tool when the client cancels', async () => {
    const served = await serve();
    const client = await connect(served, { era });
    const { aborted } = served.app.get(Witness);
    const cancel = new AbortController();
    const call = client.callTool(
      { name: 'notes__work', arguments: { name: 'slow' } },
      { signal: cancel.signal, onprogress: () => cancel.abort() },
    );
    await expect(call).rejects.toThrow(/abort/i);

    for (let turn = 0; turn < 100 && aborted.length === 0; turn += 1)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(aborted).toEqual(['slow']);
  });
});

const codeOf = async (client: Client, name: string) =>
  ((await client.callTool({ name }).catch((thrown: unknown) => thrown)) as ProtocolError).code;

describe.each(ERAS)('the names of tools for clients, in the era of %s,', (era) => {
  const names = { notes__find: 'find_notes', notes__manage: 'manage' };
  it('are those that the application gives, and its ids for the rest', async () => {
    const client = await connect(await serve({ server: { names } }), { era });
    const listed = (await client.listTools()).tools.map(({ name }) => name);
    expect(listed).toEqual(expect.arrayContaining(['find_notes', 'notes__read']));
    expect(listed).not.toContain('notes__find');
    const { structuredContent } = await client.callTool({
      name: 'find_notes',
      arguments: { word: 'tea' },
    });
    expect(JSON.stringify(structuredContent)).toContain('tea of acme');
  });

  it('change nothing for policy and audit, which know the id', async () => {
    const served = await serve({ server: { names }, loop: { audit: { key: 'k'.repeat(32) } } });
    const client = await connect(served, { era });
    for (const name of ['manage', 'notes__manage', 'unknown'])
      expect(await codeOf(client, name)).toBe(-32_602);
    const ofBob = await connect(served, { era, token: 'bob' });
    await ofBob.callTool({ name: 'find_notes', arguments: { word: 'tea' } });
    const entries = await served.app
      .get<AuditStore>(AuditStore, { strict: false })
      .read('globex', { from: 1, limit: 100 });
    expect(JSON.stringify(entries)).toContain('notes__find');
    expect(JSON.stringify(entries)).not.toContain('find_notes');
  });
});

describe.each(ERAS)('the schema of a tool, in the era of %s,', (era) => {
  it('names its dialect where it has definitions, which another dialect would not find', async () => {
    const input = {
      type: 'object',
      $defs: { address: { type: 'object', properties: { city: { type: 'string' } } } },
      properties: { address: { $ref: '#/$defs/address' } },
    } as const;
    const move = tool({
      id: 'notes__move',
      description: 'Moves.',
      input,
      effect: 'read_only',
      reveal: 'all',
      execute: () => 'moved',
    });
    const client = await connect(await serve({ loop: { tools: [move] } }), { era });
    const { tools } = await client.listTools();
    const schemaOf = (name: string) => tools.find((one) => one.name === name)?.inputSchema;
    expect(schemaOf('notes__move')).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $defs: { address: { properties: { city: { type: 'string' } } } },
      properties: { address: { $ref: '#/$defs/address' } },
    });
    expect(schemaOf('notes__read')).not.toHaveProperty('$schema');
  });
});
