import { afterAll, describe, expect, it } from '@jest/globals';
import { tool } from '@toolloop/core';
import { ConversationStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { closeApps, headersOf, type Platform, serveApp } from './served-app.js';

afterAll(closeApps);

const STAMP = calls(call('notes__stamp', { id: 'n-1' }));
const DELETE = calls(call('notes__delete', { id: 'n-1' }));

interface UiMessage {
  readonly id: string;
  readonly role: string;
  readonly parts: readonly object[];
  readonly metadata?: object;
}

const user = (id: string, words: string): UiMessage => ({
  id,
  role: 'user',
  parts: [{ type: 'text', text: words }],
});
const assistant = (id: string): UiMessage => ({ id, role: 'assistant', parts: [] });

async function chat(script: readonly ScriptedTurn[], platform: Platform = 'express') {
  const stamped: string[] = [];
  const stamp = tool({
    id: 'notes__stamp',
    description: 'Stamps a note.',
    effect: 'state_change',
    reveal: 'all',
    input: { type: 'object', properties: { id: { type: 'string' } } },
    labels: { returns: 'trusted' },
    execute: ({ id }: { id: string }) => `stamp ${stamped.push(id)}`,
  });
  const model = new ScriptedModel(script);
  const { app, url } = await serveApp({ model, platform, loop: { tools: [stamp] } });
  const send = async (body: object, token = 'alice') => {
    const response = await fetch(`${url}/ai/chat`, {
      method: 'POST',
      headers: { ...headersOf(token), 'content-type': 'application/json' },
      body: JSON.stringify({ id: 'chat-1', trigger: 'submit-message', ...body }),
    });
    const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'));
    const chunks = lines.map(
      (line) => JSON.parse(line.slice('data: '.length)) as Readonly<Record<string, unknown>>,
    );
    const start = chunks.find(({ type }) => type === 'start');
    return { status: response.status, id: String(start?.['messageId']), chunks };
  };
  const post = async (path: string, body: object) => {
    const init = {
      method: 'POST',
      headers: { ...headersOf('alice'), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    };
    const response = await fetch(`${url}/ai/${path}`, init);
    return { status: response.status, stream: await response.text() };
  };
  const kept = async (actorId = 'alice', tenant = 'acme') => {
    const messages = await app
      .get<ConversationStore>(ConversationStore)
      .load({ tenant, actorId, conversationId: 'chat-1' });
    return messages
      .filter(({ role }) => role === 'user' || role === 'assistant')
      .map(({ content }) => content);
  };
  return { stamped, model, url, send, post, kept };
}

const run = (runId: string, messages: readonly object[], forwardedProps = {}) => ({
  threadId: 'chat-1',
  runId,
  state: {},
  tools: [],
  context: [],
  messages,
  forwardedProps,
});
const runIdIn = (stream: string): string => /"runId":"([\w-]{36})"/.exec(stream)?.[1] ?? '';
const said = (id: string, content: string) => ({ id, role: 'user', content });

const add = (id: string, words: string, more: object = {}) => ({
  type: 'add-message',
  message: { id, role: 'user', parts: [{ type: 'text', text: words }] },
  parentId: null,
  sourceId: null,
  ...more,
});

describe.each<Platform>(['express', 'fastify'])('a chat of the AI SDK on %s', (platform) => {
  it('has an answer given anew in its place, and is shown what the one before had changed', async () => {
    const { send, kept, stamped } = await chat(
      [STAMP, text('Stamped.'), STAMP, text('It has its stamp.')],
      platform,
    );
    const first = await send({ messages: [user('u1', 'Stamp it')] });
    const second = await send({
      trigger: 'regenerate-message',
      messageId: first.id,
      messages: [user('u1', 'Stamp it')],
    });
    expect(stamped).toEqual(['n-1']);
    expect(await kept()).toEqual(['Stamp it', '', '', 'It has its stamp.']);
    const outputs = second.chunks.filter(({ type }) => type === 'tool-output-available');
    expect(outputs.map(({ output }) => output)).toEqual(['stamp 1', 'stamp 1']);
    expect(second.chunks.filter(({ type }) => type === 'tool-input-available')).toHaveLength(2);
  });

  it('has a question answered anew whose words the user has changed, with everything behind it gone', async () => {
    const { send, kept } = await chat([text('One.'), text('Two.'), text('One, better.')], platform);
    const first = await send({ messages: [user('u1', 'First?')] });
    await send({ messages: [user('u1', 'First?'), assistant(first.id), user('u2', 'Second?')] });
    await send({ messageId: 'u1', messages: [user('u1', 'First, edited?')] });
    expect(await kept()).toEqual(['First, edited?', 'One, better.']);
  });
});

describe('the client of a chat', () => {
  it('edits with a new message that names in its metadata the one whose place it takes, as assistant-ui can', async () => {
    const { send, kept } = await chat([text('One.'), text('Two.'), text('Three.'), text('Four.')]);
    const first = await send({ messages: [user('u1', 'First?')] });
    const before = [user('u1', 'First?'), assistant(first.id)];
    await send({ messages: [...before, user('u2', 'Second?')] });
    const edited = (id: string, words: string, sourceId: string): UiMessage => ({
      ...user(id, words),
      metadata: { custom: {}, sourceId },
    });
    await send({ messages: [...before, edited('u3', 'Second, edited?', 'u2')] });
    expect(await kept()).toEqual(['First?', 'One.', 'Second, edited?', 'Three.']);
    await send({ messages: [edited('u4', 'First, edited?', 'u1')] });
    expect(await kept()).toEqual(['First, edited?', 'Four.']);
  });

  it('keeps the answers that it shows if the message that an edit names is not known', async () => {
    const { send, kept } = await chat([text('One.'), text('Two.'), text('Three.')]);
    const first = await send({ messages: [user('u1', 'First?')] });
    const before = [user('u1', 'First?'), assistant(first.id)];
    await send({ messages: [...before, user('u2', 'Second?')] });
    const edited = { ...user('u3', 'Second, edited?'), metadata: { sourceId: 'unknown' } };
    await send({ messages: [...before, edited] });
    expect(await kept()).toEqual(['First?', 'One.', 'Second, edited?', 'Three.']);
  });

  it('asks anew without naming a message after an answer that has failed', async () => {
    const { send, kept } = await chat([
      text('One.'),
      calls(call('notes__read', { id: 'n' })),
      text('Two.'),
      text('Two, better.'),
    ]);
    const first = await send({ messages: [user('u1', 'First?')] });
    const before = [user('u1', 'First?'), assistant(first.id)];
    await send({ messages: [...before, user('u2', 'Second?')] });
    await send({ trigger: 'regenerate-message', messages: [...before, user('u2', 'Second?')] });
    expect((await kept()).at(-1)).toBe('Two, better.');
    expect((await kept()).filter((content) => content === 'Second?')).toHaveLength(1);
  });

  it('adds a message as ever if it names none, and if what it answers is an earlier message', async () => {
    const { send, kept } = await chat([text('One.'), text('Two.'), text('Three.')]);
    const first = await send({ messages: [user('u1', 'First?')] });
    await send({ messages: [user('u1', 'First?'), assistant(first.id), user('u2', 'Second?')] });
    await send({
      messageId: first.id,
      messages: [user('u1', 'First?'), assistant(first.id), user('u3', 'Third?')],
    });
    expect(await kept()).toEqual(['First?', 'One.', 'Second?', 'Two.', 'Third?', 'Three.']);
  });

  it.each([
    ['of its tenant', 'carl', 'acme'],
    ['of another tenant', 'bob', 'globex'],
  ])(
    'cuts nothing of the chat of a person %s, though it knows the ids',
    async (_, token, tenant) => {
      const { send, kept } = await chat([text('One.'), text('Two.')]);
      const first = await send({ messages: [user('u1', 'First?')] });
      await send(
        { trigger: 'regenerate-message', messageId: first.id, messages: [user('u1', 'First?')] },
        token,
      );
      expect([await kept(), await kept(token, tenant)]).toEqual([
        ['First?', 'One.'],
        ['First?', 'Two.'],
      ]);
    },
  );

  it('loses the approval of an answer that it takes back, and its yes counts no more', async () => {
    const { send, url } = await chat([DELETE, text('Kept.')]);
    const first = await send({ messages: [user('u1', 'Delete it')] });
    const asked = first.chunks.find(({ type }) => type === 'tool-approval-request');
    await send({
      trigger: 'regenerate-message',
      messageId: first.id,
      messages: [user('u1', 'Delete it')],
    });
    const headers = { ...headersOf('alice'), 'content-type': 'application/json' };
    const body = JSON.stringify({ approvalId: asked?.['approvalId'], decision: 'approve' });
    const answered = await fetch(`${url}/runs/${first.id}/answer`, {
      method: 'POST',
      headers,
      body,
    });
    expect(answered.status).toBeGreaterThanOrEqual(400);
    expect(await (await fetch(`${url}/pending`, { headers })).json()).toEqual([]);
  });

  it.each([
    ['a place that is no list', { cut: { at: 'u1' } }],
    ['an id that is empty', { cut: { at: [''] } }],
    ['a place that is missing', { cut: {} }],
    ['a place beside what it knows', { cut: { at: ['u1'], actorId: 'bob' } }],
    ['no object', { cut: 'u1' }],
    ['nothing', { cut: null }],
    ['an id that is no text', { messageId: 7 }],
  ])('is refused %s over our own routes', async (_, more) => {
    const { url } = await chat([]);
    const headers = { ...headersOf('alice'), 'content-type': 'application/json' };
    const body = JSON.stringify({ message: 'Hello', conversationId: 'chat-1', ...more });
    expect((await fetch(`${url}/chat`, { method: 'POST', headers, body })).status).toBe(400);
  });
});

describe('a front end of AG-UI', () => {
  it('asks anew by sending the same message once more, and shows what stands', async () => {
    const { post, kept, stamped } = await chat([STAMP, text('Stamped.'), text('Anew.')]);
    await post('agui', run('a', [said('u1', 'Stamp it')]));
    const { stream } = await post('agui', run('b', [said('u1', 'Stamp it')]));
    expect([stamped, await kept()]).toEqual([['n-1'], ['Stamp it', '', 'Anew.']]);
    expect(stream).toContain('"type":"TOOL_CALL_RESULT"');
    expect(stream).toContain('stamp 1');
  });

  it('adds what it has not said before, whatever else it sends, and rehearses as ever', async () => {
    const { post, kept } = await chat([text('One.'), text('Two.'), text('Rehearsed.')]);
    await post('agui', run('a', [said('u1', 'First?')]));
    await post('agui', run('b', [said('u2', 'Second?')]));
    const { status } = await post('agui', run('c', [said('u2', 'Second?')], { rehearse: true }));
    expect([status, await kept()]).toEqual([200, ['First?', 'One.', 'Second?', 'Two.']]);
  });
});

describe('a front end of AG-UI that has changed the words of a question', () => {
  const place = { cut: { at: ['u1'] } };

  it('names the old message in what it forwards, since the new one has another id: everything behind it goes', async () => {
    const { post, kept, stamped } = await chat([
      STAMP,
      text('Stamped.'),
      text('Two.'),
      STAMP,
      text('It has its stamp.'),
    ]);
    await post('agui', run('a', [said('u1', 'Stamp it')]));
    await post('agui', run('b', [said('u1', 'Stamp it'), said('u2', 'Second?')]));
    const { status, stream } = await post(
      'agui',
      run('c', [said('u3', 'Stamp it, please')], place),
    );
    expect([status, stamped, await kept()]).toEqual([
      200,
      ['n-1'],
      ['Stamp it, please', '', '', 'It has its stamp.'],
    ]);
    expect(stream).toContain('stamp 1');
  });

  it('is found under its new id when it is asked anew, and under the old one when it is changed again', async () => {
    const { post, kept } = await chat([
      text('One.'),
      text('Edited.'),
      text('Anew.'),
      text('Edited twice.'),
    ]);
    await post('agui', run('a', [said('u1', 'First?')]));
    await post('agui', run('b', [said('u2', 'First, edited?')], place));
    await post('agui', run('c', [said('u2', 'First, edited?')]));
    expect(await kept()).toEqual(['First, edited?', 'Anew.']);
    await post('agui', run('d', [said('u3', 'First, edited twice?')], place));
    expect(await kept()).toEqual(['First, edited twice?', 'Edited twice.']);
  });

  it('names an answer as well, and the last one that stays if its place is not known', async () => {
    const { post, kept } = await chat([text('One.'), text('Two.'), text('Three.'), text('Four.')]);
    const first = await post('agui', run('a', [said('u1', 'First?')]));
    const second = await post('agui', run('b', [said('u2', 'Second?')]));
    await post(
      'agui',
      run('c', [said('u3', 'Second, edited?')], { cut: { at: [runIdIn(second.stream)] } }),
    );
    expect(await kept()).toEqual(['First?', 'One.', 'Second, edited?', 'Three.']);
    await post(
      'agui',
      run('d', [said('u4', 'Second, again?')], {
        cut: { at: ['unknown'], after: [runIdIn(first.stream)] },
      }),
    );
    expect(await kept()).toEqual(['First?', 'One.', 'Second, again?', 'Four.']);
  });

  it('has its conversation left as it is by a rehearsal', async () => {
    const { post, kept } = await chat([text('One.'), text('Rehearsed.')]);
    await post('agui', run('a', [said('u1', 'First?')]));
    const { status } = await post(
      'agui',
      run('b', [said('u2', 'First, edited?')], { ...place, rehearse: true }),
    );
    expect([status, await kept()]).toEqual([expect.any(Number), ['First?', 'One.']]);
  });

  it.each([
    ['a place that is no list', { cut: { at: 'u1' } }],
    ['an id that is empty', { cut: { at: [''] } }],
    ['a place that is missing', { cut: {} }],
    ['more places than can be', { cut: { at: Array.from({ length: 101 }, () => 'u1') } }],
    ['nothing', { cut: null }],
  ])('is refused %s, and cuts nothing', async (_, forwarded) => {
    const { post, kept } = await chat([text('One.')]);
    await post('agui', run('a', [said('u1', 'First?')]));
    const { status } = await post('agui', run('b', [said('u2', 'First, edited?')], forwarded));
    expect([status, await kept()]).toEqual([400, ['First?', 'One.']]);
  });
});

describe('a front end of the assistant transport', () => {
  it('has a question answered anew whose words the user has changed, and forgets what was said behind it', async () => {
    const { post, kept } = await chat([text('One.'), text('Two.'), text('One, better.')]);
    const first = await post('assistant', {
      threadId: 'chat-1',
      commands: [add('u1', 'First?')],
      state: { messages: [] },
    });
    const runId = /"id":"([\w-]+)","role":"assistant"/.exec(first.stream)?.[1] ?? '';
    const state = {
      messages: [add('u1', 'First?').message, { id: runId, role: 'assistant', parts: [] }],
    };
    await post('assistant', { threadId: 'chat-1', commands: [add('u2', 'Second?')], state });
    const edited = await post('assistant', {
      threadId: 'chat-1',
      commands: [add('u3', 'First, edited?', { sourceId: 'u1' })],
      state,
    });
    expect(await kept()).toEqual(['First, edited?', 'One, better.']);
    expect(edited.stream).not.toContain('"First?"');
    expect(edited.stream).toContain('"First, edited?"');
  });
});
