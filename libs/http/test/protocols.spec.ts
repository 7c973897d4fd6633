import { afterAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { EventSource } from 'eventsource';
import OpenAI from 'openai';
import { GatedModel } from './gated-model.js';
import {
  closeApps,
  eventsIn,
  headersOf,
  type Platform,
  type Served,
  serveApp,
  until,
} from './served-app.js';

afterAll(closeApps);

const READ = calls(call('notes__read', { id: 'n-1' }));
const DELETE = calls(call('notes__delete', { id: 'n-1' }));
const UNLIMITED = { limits: { requests: 0 } };
const user = (content: string): OpenAI.ChatCompletionMessageParam => ({ role: 'user', content });

function clientOf({ url }: Served, apiKey = 'alice'): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
}

describe.each<Platform>(['express', 'fastify'])('the client of OpenAI on %s', (platform) => {
  it('finds the model, streams its answer and gets it whole', async () => {
    const served = await serveApp({
      model: new ScriptedModel([READ, text('It is note n-1.'), READ, text('Once more.')]),
      platform,
    });
    const client = clientOf(served);
    const { data: models } = await client.models.list();
    expect(models.map(({ id }) => id)).toEqual(['toolloop']);
    expect(await client.models.retrieve('toolloop')).toEqual(models[0]);
    await expect(client.models.retrieve('gpt-5')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    const options = { model: 'toolloop', messages: [user('Read it')] };
    const stream = client.chat.completions.stream({
      ...options,
      stream_options: { include_usage: true },
    });
    const { choices, usage } = await stream.finalChatCompletion();
    expect(choices[0]).toMatchObject({
      message: { content: 'It is note n-1.' },
      finish_reason: 'stop',
    });
    expect(usage?.total_tokens).toBeGreaterThan(0);
    const whole = await client.chat.completions.create(options);
    expect(whole.choices[0]).toMatchObject({
      message: { content: 'Once more.' },
      finish_reason: 'stop',
    });
  });

  it.each([
    ['{"approved":true}', 'Gone.', 'succeeded'],
    ['{"approved":false,"reason":"Keep it."}', 'Kept.', 'denied'],
  ])('answers a call that waits for a yes or no with %s', async (content, said) => {
    const client = clientOf(
      await serveApp({ model: new ScriptedModel([DELETE, text(said)]), platform }),
    );
    const options = { model: 'toolloop', messages: [user('Delete it')] };
    const asked = await client.chat.completions.create(options);
    const { message, finish_reason: reason } = asked.choices[0] ?? {};
    const [wanted] = message?.tool_calls ?? [];
    expect([reason, wanted]).toMatchObject([
      'tool_calls',
      { function: { name: 'approve_notes__delete' } },
    ]);
    const answer = { role: 'tool' as const, tool_call_id: wanted?.id ?? '', content };
    const done = await client.chat.completions.create({
      ...options,
      messages: [user('Delete it'), message ?? user(''), answer],
    });
    expect(done.choices[0]?.message.content).toBe(said);
  });

  it('takes no result of a call for a yes', async () => {
    const client = clientOf(await serveApp({ model: new ScriptedModel([DELETE]), platform }));
    const options = { model: 'toolloop', messages: [user('Delete it')] };
    const asked = await client.chat.completions.create(options);
    const [wanted] = asked.choices[0]?.message.tool_calls ?? [];
    const answer = {
      role: 'tool' as const,
      tool_call_id: wanted?.id ?? '',
      content: 'deleted n-1',
    };
    const refused = client.chat.completions.create({
      ...options,
      messages: [user('Delete it'), answer],
    });
    await expect(refused).rejects.toMatchObject({ status: 409, code: 'nothing_asked' });
  });

  it('stops an answer that is not streamed, as it stops a stream, by leaving it', async () => {
    const model = new GatedModel();
    const client = clientOf(await serveApp({ model, platform }));
    const leaving = new AbortController();
    const asked = client.chat.completions.create(
      { model: 'toolloop', messages: [user('Hello')] },
      { signal: leaving.signal },
    );
    await until(() => model.pulled === 1);
    leaving.abort();
    await expect(asked).rejects.toThrow('aborted');
    await until(() => model.aborted === 1);
  });

  it('answers the call that it was shown, however many others wait', async () => {
    const runs = 101;
    const script = [...Array.from({ length: runs }, () => DELETE), text('Gone.')];
    const client = clientOf(
      await serveApp({ model: new ScriptedModel(script), platform, http: UNLIMITED }),
    );
    const options = { model: 'toolloop', messages: [user('Delete it')] };
    let id = '';
    for (let run = 0; run < runs; run += 1) {
      const { choices } = await client.chat.completions.create(options);
      id = choices[0]?.message.tool_calls?.[0]?.id ?? '';
    }
    const answer = { role: 'tool' as const, tool_call_id: id, content: '{"approved":true}' };
    const done = await client.chat.completions.create({
      ...options,
      messages: [user('Delete it'), answer],
    });
    expect(done.choices[0]?.message.content).toBe('Gone.');
  });

  it('is told what is wrong in the form that it knows', async () => {
    const served = await serveApp({ model: new ScriptedModel([]), platform });
    const options = { model: 'gpt-5', messages: [user('Hello')] };
    await expect(clientOf(served).chat.completions.create(options)).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    await expect(clientOf(served, 'mallory').models.list()).rejects.toMatchObject({
      status: 401,
      code: 'unauthorized',
    });
  });
});

describe.each<Platform>(['express', 'fastify'])('an EventSource on %s', (platform) => {
  it('reads on by itself after its connection was cut, each event once, and stops at the end', async () => {
    const model = new GatedModel(['a', 'b']);
    const served = await serveApp({ model, platform });
    const requests: (string | null)[] = [];
    const ids: string[] = [];
    const seen = (): boolean => ids.length >= 3;
    const source = new EventSource(`${served.url}/chat/stream?message=hi`, {
      fetch: async (address, init) => {
        const headers = new Headers({ ...init.headers, ...headersOf('alice') });
        requests.push(headers.get('last-event-id'));
        const response = await fetch(address, { ...init, headers });
        return requests.length > 1 ? response : cutAfter(response, seen);
      },
    });
    const data: string[] = [];
    await new Promise<void>((resolve) => {
      source.addEventListener('message', ({ lastEventId, data: said }) => {
        ids.push(lastEventId);
        data.push(`data: ${String(said)}`);
        if (ids.length === 3) model.open();
      });
      source.addEventListener('error', ({ code }) => void (code === 204 && resolve()));
    });
    source.close();
    const events = eventsIn(data.join('\n'));
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'run-end', text: 'ab' });
    expect(requests).toHaveLength(3);
    expect([requests[0], requests[2]]).toEqual([null, ids.at(-1)]);
    expect(ids).toContain(requests[1]);
    expect(model.pulled).toBe(2);
  });
});

/** Lets the stream pass, and breaks once its reader has seen enough. */
function cutAfter(response: Response, hasSeen: () => boolean): Response {
  const reader = response.body?.getReader();
  const cut = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const read = await Promise.race([reader?.read(), until(hasSeen)]);
      if (read?.value && !hasSeen()) controller.enqueue(read.value);
      else controller.error(new TypeError('The connection was cut.'));
    },
  });
  return new Response(cut, { status: response.status, headers: response.headers });
}
