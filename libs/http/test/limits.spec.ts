import { request } from 'node:http';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ScriptedModel, text } from '@toolloop/testing';
import { GatedModel } from './gated-model.js';
import {
  ask,
  closeApps,
  headersOf,
  type Platform,
  type Served,
  serveApp,
  until,
} from './served-app.js';

afterAll(closeApps);

async function refusal(
  response: Response,
): Promise<readonly [status: number, code: string, retryAfter: boolean]> {
  const { code } = (await response.json()) as { code: string };
  return [response.status, code, Number(response.headers.get('retry-after')) > 0];
}

function statusWith(served: Served, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`${served.url}/health`, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.on('error', reject).end();
  });
}

describe.each<Platform>(['express', 'fastify'])('an actor on %s', (platform) => {
  it('is refused one request too many, while others are served', async () => {
    const served = await serveApp({
      model: new ScriptedModel([]),
      platform,
      http: { limits: { requests: 3, perMs: 3_600_000 } },
    });
    const got = (person: string): Promise<Response> =>
      fetch(`${served.url}/tools`, { headers: headersOf(person) });
    for (let count = 0; count < 3; count += 1) expect((await got('alice')).status).toBe(200);
    expect(await refusal(await got('alice'))).toEqual([429, 'too_many_requests', true]);
    expect((await got('carl')).status).toBe(200);
  });

  it('is refused a body that is too large', async () => {
    const served = await serveApp({
      model: new ScriptedModel([]),
      platform,
      http: { limits: { bodyBytes: 1_000 } },
    });
    expect(
      (await refusal(await ask(served, 'alice', { message: 'x'.repeat(2_000) }))).slice(0, 2),
    ).toEqual([413, 'payload_too_large']);
  });

  it('is refused a body that is nested too deep', async () => {
    const served = await serveApp({ model: new ScriptedModel([]), platform });
    const body = '['.repeat(40) + ']'.repeat(40);
    const response = await fetch(`${served.url}/chat`, {
      method: 'POST',
      headers: headersOf('alice'),
      body,
    });
    expect((await refusal(response)).slice(0, 2)).toEqual([400, 'bad_request']);
  });

  it('has a few streams open at once, and gets another one when it closes one', async () => {
    const model = new GatedModel();
    const served = await serveApp({
      model,
      platform,
      http: { limits: { openStreams: 2, reconnectMs: 0 } },
    });
    const closing = new AbortController();
    const chat = (signal?: AbortSignal): Promise<Response> =>
      fetch(`${served.url}/chat`, {
        method: 'POST',
        headers: headersOf('alice'),
        body: '{"message":"hi"}',
        ...(signal && { signal }),
      });
    const [first, second] = await Promise.all([chat(closing.signal), chat()]);
    expect([first?.status, second?.status]).toEqual([200, 200]);
    expect(await refusal(await chat())).toEqual([429, 'too_many_streams', true]);
    expect((await ask(served, 'carl', { message: 'hi' })).status).toBe(200);
    closing.abort();
    await until(() => model.aborted === 1);
    expect((await chat()).status).toBe(200);
    model.open();
  });
});

describe.each<Platform>(['express', 'fastify'])('a page of another origin on %s', (platform) => {
  const preflight = { origin: 'https://app.example.com', 'access-control-request-method': 'POST' };

  it('may read nothing by default', async () => {
    const served = await serveApp({ model: new ScriptedModel([]), platform });
    const response = await fetch(`${served.url}/chat`, { method: 'OPTIONS', headers: preflight });
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
  });

  it('may, where it is admitted, and may send and read what it needs to read on', async () => {
    const served = await serveApp({
      model: new ScriptedModel([text('Hi.')]),
      platform,
      http: { origins: ['https://app.example.com'] },
    });
    const { headers } = await fetch(`${served.url}/chat`, {
      method: 'OPTIONS',
      headers: preflight,
    });
    expect(headers.get('access-control-allow-origin')).toBe('https://app.example.com');
    expect(headers.get('access-control-allow-headers')).toContain('last-event-id');
    const response = await fetch(`${served.url}/tools`, {
      headers: { ...headersOf('alice'), origin: 'https://app.example.com' },
    });
    expect(response.headers.get('access-control-expose-headers')).toContain('retry-after');
    const stream = await fetch(`${served.url}/chat/stream?message=hi`, {
      headers: { ...headersOf('alice'), origin: 'https://app.example.com' },
    });
    expect(stream.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
  });
});

describe.each<Platform>(['express', 'fastify'])('a host on %s', (platform) => {
  it('is checked where the application lists its own', async () => {
    const served = await serveApp({
      model: new ScriptedModel([]),
      platform,
      http: { hosts: ['desk.example.com'] },
    });
    const own = served.url.replace('http://', '');
    const hosts = [
      own,
      own.replace('127.0.0.1', '[::1]'),
      'desk.example.com',
      'evil.example.com',
      '[::1]',
      '127.0.0.1:1',
    ];
    const asked = hosts.map((host) => statusWith(served, { host }));
    expect(await Promise.all(asked)).toEqual([200, 200, 200, 403, 403, 403]);
    const pages = ['https://desk.example.com', 'http://desk.example.com'].map((origin) =>
      statusWith(served, { host: 'desk.example.com', origin }),
    );
    expect(await Promise.all(pages)).toEqual([403, 200]);
  });

  it('is what a trusted proxy says, and what no one else says', async () => {
    const forwarded = {
      host: 'internal',
      'x-forwarded-host': 'desk.example.com',
      'x-forwarded-proto': 'https',
      origin: 'https://desk.example.com',
    };
    const hosts = ['desk.example.com'];
    const behind = await serveApp({
      model: new ScriptedModel([]),
      platform,
      http: { hosts, proxies: ['127.0.0.0/8'] },
    });
    const open = await serveApp({
      model: new ScriptedModel([]),
      platform,
      http: { hosts, proxies: ['10.0.0.0/8'] },
    });
    expect([await statusWith(behind, forwarded), await statusWith(open, forwarded)]).toEqual([
      200, 403,
    ]);
  });
});
