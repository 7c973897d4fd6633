import { request } from 'node:http';
import { connect } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ScriptedModel, text } from '@toolloop/testing';
import { ask, closeDesks, eventsIn, headersOf, serve, type ServedDesk } from './served-desk.js';

class SteppedClock {
  private readonly start = Date.parse('2026-11-16T09:00:00Z');
  seconds = 0;

  now(): Date {
    return new Date(this.start + this.seconds * 1000);
  }
}

const clock = new SteppedClock();
let desk: ServedDesk;

beforeAll(async () => {
  const model = new ScriptedModel(Array.from({ length: 50 }, () => text('Hello.')));
  desk = await serve({
    model,
    clock,
    settings: { allowedHosts: ['desk.example.com'], allowedOrigins: ['https://app.example.com'] },
  });
});
afterAll(closeDesks);

async function errorOf(response: Response | Promise<Response>): Promise<[number, string]> {
  const answer = await response;
  const body = (await answer.json()) as { code: string; message: string };
  expect(body.message).toMatch(/\w/);
  return [answer.status, body.code];
}

/** With headers that `fetch` does not let anybody set. */
function statusWith(headers: Record<string, string>, path = '/health'): Promise<[number, string]> {
  return new Promise((resolve, reject) => {
    const asked = request(desk.url + path, { headers }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.on('end', () => resolve([response.statusCode ?? 0, body]));
    });
    asked.on('error', reject).end();
  });
}

describe('GROUP a caller', () => {
  it.each([
    ['POST', '/chat'],
    ['POST', '/chat/answer'],
    ['POST', '/chat/tickets'],
    ['GET', '/chat/stream?message=hi'],
    ['GET', '/tools'],
    ['GET', '/approvals'],
    ['GET', '/approvals/1'],
    ['POST', '/approvals/1'],
    ['GET', '/directives'],
    ['GET', '/directives/1'],
    ['POST', '/directives/1/cancel'],
    ['POST', '/directives/1/redrive'],
    ['GET', '/conversations'],
    ['GET', '/conversations/1'],
    ['DELETE', '/conversations/1'],
    ['POST', '/runs/1/resume'],
    ['POST', '/runs/1/answer'],
    ['POST', '/runs/1/resume/answer'],
    ['GET', '/usage'],
  ])('needs a token for %s %s', async (method, path) => {
    const body = method === 'POST' ? { body: '{"message":"hi"}' } : {};
    const json = { 'content-type': 'application/json' };
    const url = desk.url + path;
    expect(await errorOf(fetch(url, { method, headers: json, ...body }))).toEqual([
      401,
      'unauthorized',
    ]);
    const wrong = { ...json, authorization: 'Bearer demo-alic' };
    expect(await errorOf(fetch(url, { method, headers: wrong, ...body }))).toEqual([
      401,
      'unauthorized',
    ]);
  });

  it('is told how to say who it is', async () => {
    expect((await fetch(`${desk.url}/tools`)).headers.get('www-authenticate')).toBe('Bearer');
  });

  it('needs none to read where to go', async () => {
    const response = await fetch(desk.url);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; charset=utf-8',
    ]);
    const page = await response.text();
    expect(page).toContain(`curl -N ${desk.url}/chat -H 'authorization: Bearer demo-alice'`);
    expect(page).toContain('GET /tools');
  });

  it('needs none for the health', async () => {
    const response = await fetch(`${desk.url}/health`);
    expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }]);
  });
});

async function issue(): Promise<string> {
  const response = await ask(desk, 'bob', {}, '/chat/tickets');
  expect(response.status).toBe(201);
  return ((await response.json()) as { ticket: string }).ticket;
}

function open(ticket: string): Promise<Response> {
  return fetch(`${desk.url}/chat/stream?message=hi&ticket=${ticket}`);
}

describe('a ticket', () => {
  it('opens one stream', async () => {
    const ticket = await issue();
    const events = eventsIn(await (await open(ticket)).text());
    expect(events.at(-1)?.type).toBe('run-end');
    expect(await errorOf(open(ticket))).toEqual([401, 'unauthorized']);
  });

  it('is worth nothing after a minute', async () => {
    const ticket = await issue();
    clock.seconds += 60;
    expect(await errorOf(open(ticket))).toEqual([401, 'unauthorized']);
  });

  it('opens nothing but a stream, neither unused nor by the header with which a stream is read on', async () => {
    const [unused, used] = [await issue(), await issue()];
    await (await open(used)).text();
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'last-event-id': '1' },
      body: '{"message":"hi"}',
    };
    for (const ticket of [unused, used]) {
      expect(await errorOf(fetch(`${desk.url}/chat?ticket=${ticket}`, init))).toEqual([
        401,
        'unauthorized',
      ]);
      expect(
        await errorOf(fetch(`${desk.url}/tools?ticket=${ticket}`, { headers: init.headers })),
      ).toEqual([401, 'unauthorized']);
    }
    expect((await open(unused)).status).toBe(200);
  });

  it('is not made up', async () => {
    expect(await errorOf(open('x'.repeat(43)))).toEqual([401, 'unauthorized']);
    expect(await errorOf(fetch(`${desk.url}/chat/stream?message=hi&ticket=a&ticket=b`))).toEqual([
      401,
      'unauthorized',
    ]);
  });
});

describe('a reconnecting EventSource', () => {
  it('is told that there is no more', async () => {
    const ticket = await issue();
    const ids = (await (await open(ticket)).text()).match(/^id: .*$/gm) ?? [];
    const last = (ids.at(-1) ?? '').slice('id: '.length);
    for (const seen of [last, '7']) {
      const response = await fetch(`${desk.url}/chat/stream?message=hi&ticket=${ticket}`, {
        headers: { 'last-event-id': seen },
      });
      expect([response.status, await response.text()]).toEqual([204, '']);
    }
  });

  it('reads on behind the last event it saw', async () => {
    const ticket = await issue();
    const whole = await (await open(ticket)).text();
    const [first = ''] = whole.match(/^id: .*$/gm) ?? [];
    const headers = { 'last-event-id': first.slice('id: '.length) };
    const rest = await fetch(`${desk.url}/chat/stream?message=hi&ticket=${ticket}`, { headers });
    expect(eventsIn(await rest.text())).toEqual(eventsIn(whole).slice(1));
  });
});

describe('a HEAD request', () => {
  it('runs nothing, where Express would answer it by the handler for GET', async () => {
    const headers = { authorization: 'Bearer demo-mia' };
    const response = await fetch(`${desk.url}/chat/stream?message=hi`, { method: 'HEAD', headers });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'GET']);
  });
});

async function allowedOriginFor(origin: string): Promise<string | null> {
  const preflight = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  };
  const response = await fetch(`${desk.url}/chat`, { method: 'OPTIONS', headers: preflight });
  return response.headers.get('access-control-allow-origin');
}

describe('host and origin', () => {
  it.each([
    'evil.example.com',
    '127.0.0.1',
    '127.0.0.1:1',
    'localhost.evil.example.com',
    'desk.example.com.evil.example.com',
  ])('refuse the host %s', async (host) => {
    const [status, body] = await statusWith({ host });
    expect([status, (JSON.parse(body) as { code: string }).code]).toEqual([403, 'forbidden_host']);
  });

  it('hold for routes that do not exist', async () => {
    expect((await statusWith({ host: 'evil.example.com' }, '/nowhere'))[0]).toBe(403);
    expect((await statusWith({}, '/nowhere'))[0]).toBe(404);
  });

  it.each([
    ['host', ['127.0.0.1:PORT', 'evil.example.com']],
    ['host', ['evil.example.com', '127.0.0.1:PORT']],
    ['origin', ['http://127.0.0.1:PORT', 'http://evil.example.com']],
  ])('refuse a second header %s', async (name, values) => {
    const { port } = new URL(desk.url);
    const socket = connect(Number(port), '127.0.0.1');
    const sent = values.map((value) => `${name}: ${value.replace('PORT', port)}\r\n`).join('');
    socket.end(
      `GET /health HTTP/1.1\r\n${name === 'host' ? '' : `host: 127.0.0.1:${port}\r\n`}${sent}connection: close\r\n\r\n`,
    );
    const answer = await textOf(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain(`Send one header ${name}`);
  });

  it('know localhost and the hosts that are allowed', async () => {
    const { port } = new URL(desk.url);
    const asked = [
      `localhost:${port}`,
      `127.0.0.1:${port}`,
      'desk.example.com',
      'Desk.Example.com',
    ].map((host) => statusWith({ host }));
    expect((await Promise.all(asked)).map(([status]) => status)).toEqual([200, 200, 200, 200]);
  });

  it('let in the own pages and the allowed ones', async () => {
    const asked = [desk.url, 'https://app.example.com'].map((origin) => statusWith({ origin }));
    expect((await Promise.all(asked)).map(([status]) => status)).toEqual([200, 200]);
  });

  it('let the allowed pages read the answers, and no others', async () => {
    expect(await allowedOriginFor('https://app.example.com')).toBe('https://app.example.com');
    expect(await allowedOriginFor('http://evil.example.com')).toBeNull();
  });

  it.each([
    'null',
    'http://evil.example.com',
    'http://127.0.0.1:1',
    'https://app.example.com.evil.example.com',
  ])('refuse pages of %s', async (origin) => {
    const [status, body] = await statusWith({ origin });
    expect([status, (JSON.parse(body) as { code: string }).code]).toEqual([
      403,
      'forbidden_origin',
    ]);
  });
});

describe('a request that makes no sense', () => {
  it.each([
    ['an empty', '', 'message must not be empty'],
    ['a blank', ' \n', 'message must not be empty'],
    ['a numeric', 7, 'message must be a text'],
    ['a long', 'x'.repeat(8001), 'message must have at most 8000 characters'],
  ])('is refused for %s message', async (_kind, message, reason) => {
    const response = await ask(desk, 'alice', { message });
    const body = (await response.json()) as { code: string; message: string };
    expect([response.status, body.code]).toEqual([400, 'bad_request']);
    expect(body.message).toContain(reason);
  });

  it('is refused without a message, with an unknown field and with no JSON', async () => {
    const wrong = [{}, { message: 'hi', tenant: 'globex' }, '{', '[]', 'null'].map((body) =>
      errorOf(ask(desk, 'alice', body)),
    );
    expect(await Promise.all(wrong)).toEqual(wrong.map(() => [400, 'bad_request']));
    expect(
      await errorOf(fetch(`${desk.url}/chat/stream`, { headers: headersOf('alice') })),
    ).toEqual([400, 'bad_request']);
  });

  it.each([
    ['/chat', '['.repeat(100_000) + ']'.repeat(100_000)],
    ['/chat/answer', '{"a":'.repeat(30_000) + '1' + '}'.repeat(30_000)],
    ['/approvals/1', `{"decision":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['/directives/1/redrive', '['.repeat(200_000)],
    ['/runs', '['.repeat(33) + ']'.repeat(33)],
  ])('is refused at POST %s for a body that is nested too deep', async (path, body) => {
    expect(await errorOf(ask(desk, 'alice', body, path))).toEqual([400, 'bad_request']);
  });

  it('is refused for a null where true or false is asked for', async () => {
    const response = await ask(desk, 'alice', { message: 'hi', durable: null });
    expect([response.status, ((await response.json()) as { message: string }).message]).toEqual([
      400,
      'durable must be true or false',
    ]);
  });

  it.each(['9999999999999999999', '1e400', '-1', '1.5', 'x', ''])(
    'is refused for reading a conversation from %s',
    async (from) => {
      const asked = fetch(`${desk.url}/conversations/c1?from=${from}`, {
        headers: headersOf('alice'),
      });
      expect(await errorOf(asked)).toEqual([400, 'bad_request']);
    },
  );

  it('is refused above 256 KB', async () => {
    expect(await errorOf(ask(desk, 'alice', { message: 'x'.repeat(1_000_000) }))).toEqual([
      413,
      'payload_too_large',
    ]);
  });

  it('is answered with the security headers', async () => {
    const { headers } = await ask(desk, 'alice', '{');
    expect([headers.get('x-content-type-options'), headers.get('x-powered-by')]).toEqual([
      'nosniff',
      null,
    ]);
    expect(headers.get('content-security-policy')).not.toContain('upgrade-insecure-requests');
  });
});
