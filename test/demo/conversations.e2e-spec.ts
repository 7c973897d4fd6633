import { afterAll, describe, expect, it } from '@jest/globals';
import type { ConversationPart } from '@toolloop/core/runs';
import type { ConversationSummary } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, closeDesks, headersOf, serve, type ServedDesk } from './served-desk.js';

afterAll(closeDesks);

async function talked(): Promise<ServedDesk> {
  const search = calls(call('crm__searchCustomers', { name: 'John' }));
  const desk = await serve({
    model: new ScriptedModel([search, text('There is one.'), text('Hello Bob.')]),
  });
  await (await ask(desk, 'alice', { message: 'Who is John?', conversationId: 'c1' })).text();
  await (await ask(desk, 'bob', { message: 'Hello', conversationId: 'c1' })).text();
  return desk;
}

async function sent<Body>(
  desk: ServedDesk,
  user: string,
  path: string,
  method = 'GET',
): Promise<[number, Body]> {
  const response = await fetch(desk.url + path, { method, headers: headersOf(user) });
  const body = await response.text();
  return [response.status, (body === '' ? undefined : JSON.parse(body)) as Body];
}

describe('the conversations of a user', () => {
  it('are listed and read, each tenant’s to its own user', async () => {
    const desk = await talked();
    const [, listed] = await sent<ConversationSummary[]>(desk, 'alice', '/conversations');
    expect(listed).toMatchObject([{ conversationId: 'c1', messages: 5 }]);
    const [, own] = await sent<ConversationPart>(desk, 'alice', '/conversations/c1');
    expect(own.entries.map(({ role, text: said }) => [role, said])).toEqual([
      ['user', 'Who is John?'],
      ['tool', ''],
      ['assistant', 'There is one.'],
    ]);
    const [, other] = await sent<ConversationPart>(desk, 'bob', '/conversations/c1');
    expect(other.entries.map(({ text: said }) => said)).toEqual(['Hello', 'Hello Bob.']);
    expect(
      (await sent<ConversationPart>(desk, 'alice', '/conversations/c1?from=4'))[1].entries,
    ).toHaveLength(1);
  });

  it('show nothing that only the model may see', async () => {
    const desk = await talked();
    expect(JSON.stringify(await sent(desk, 'alice', '/conversations/c1'))).not.toContain(
      '@example',
    );
  });

  it('are deleted by their own user and by no one else', async () => {
    const desk = await talked();
    expect((await sent(desk, 'mia', '/conversations/c1', 'DELETE'))[0]).toBe(404);
    expect((await sent(desk, 'alice', '/conversations/c1', 'DELETE'))[0]).toBe(204);
    expect(await sent(desk, 'alice', '/conversations/c1')).toEqual([
      404,
      { code: 'not_found', message: 'There is no such conversation.' },
    ]);
    expect((await sent(desk, 'bob', '/conversations/c1'))[0]).toBe(200);
  });
});
