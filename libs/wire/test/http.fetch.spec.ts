import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { httpFetch, modelFetch } from '../src/index.js';
import { answers, LocalProvider, type Answer } from './local-provider.js';

let provider: LocalProvider | undefined;

afterEach(async () => {
  await provider?.[Symbol.asyncDispose]();
  provider = undefined;
});

async function get(answer: Answer, init?: RequestInit): Promise<Response> {
  provider = await LocalProvider.start(answer);
  return httpFetch()(provider.baseURL, init);
}

/** A server that answers each connection with these bytes, whatever it is asked. */
async function rawServer(
  bytes: string,
  isKeptOpen = false,
): Promise<{ readonly url: string; readonly close: () => void }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => (isKeptOpen ? socket.write(bytes) : socket.end(bytes)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => server.close(),
  };
}

async function causeOf(reading: Promise<unknown>): Promise<unknown> {
  const error: unknown = await reading.catch((reason: unknown) => reason);
  return error instanceof TypeError ? error.cause : error;
}

/** Says of a plain text that it is encoded. */
function encoded(encoding: string): Answer {
  return answers(200, 'Hello', { 'content-encoding': encoding });
}

describe('httpFetch', () => {
  it('sends method, headers and body, and gives status, headers and body', async () => {
    const response = await get(answers(201, '{"a":"é"}', { 'x-own': 'yes', 'set-cookie': 'a=1' }), {
      method: 'POST',
      body: '{"ä":1}',
      headers: { 'x-app': 'desk' },
    });
    expect([
      response.status,
      response.ok,
      response.headers.get('x-own'),
      response.headers.getSetCookie(),
    ]).toEqual([201, true, 'yes', ['a=1']]);
    expect(await response.json()).toEqual({ a: 'é' });
    expect(provider?.requests).toMatchObject([
      {
        method: 'POST',
        body: '{"ä":1}',
        headers: { 'x-app': 'desk', 'content-length': '8', 'accept-encoding': 'identity' },
      },
    ]);
  });

  it('follows no redirect: the answer is the redirect', async () => {
    const response = await get(answers(307, '', { location: 'http://127.0.0.1:9/' }));
    expect([response.status, response.headers.get('location')]).toEqual([
      307,
      'http://127.0.0.1:9/',
    ]);
    expect(provider?.requests).toHaveLength(1);
  });

  it('has no body where there can be none', async () => {
    expect((await get((response) => response.writeHead(204).end())).body).toBeNull();
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('reads what a server compresses unasked with %s', async (encoding, compress) => {
    const response = await get((answer) =>
      answer.writeHead(200, { 'content-encoding': encoding }).end(compress('Hello')),
    );
    expect(await response.text()).toBe('Hello');
  });

  it('fails for an unknown encoding, and for broken compression', async () => {
    expect(await causeOf(get(encoded('zip')))).toEqual(new Error('the answer is encoded as "zip"'));
    await provider?.[Symbol.asyncDispose]();
    await expect(get(encoded('gzip')).then((response) => response.text())).rejects.toThrow(
      'incorrect header check',
    );
  });

  it('uses a connection again, and the agent it is given', async () => {
    provider = await LocalProvider.start(answers(200, '{}'));
    const agent = new Agent({ keepAlive: true });
    const fetch = httpFetch({ agent });
    for (let step = 0; step < 5; step += 1) await (await fetch(provider.baseURL)).text();
    expect([
      provider.requests.length,
      provider.sockets.size,
      Object.values(agent.freeSockets).flat().length,
    ]).toEqual([5, 1, 1]);
    agent.destroy();
  });

  it('sends a request once more where the server had closed the kept connection, and only once', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nHello';
    const requests: number[] = [];
    let isClosing = false;
    const server = createServer((socket) => {
      const connection = requests.push(0) - 1;
      socket.on('error', () => undefined);
      socket.on('data', () => {
        const number = (requests[connection] = (requests[connection] ?? 0) + 1);
        if (number > 1 || isClosing) socket.resetAndDestroy();
        else socket.write(answer);
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const send = async (): Promise<string> =>
      (await httpFetch({ agent })(url, { method: 'POST', body: '{}' })).text();
    try {
      expect(await send()).toBe('Hello');
      expect(await send()).toBe('Hello');
      expect(requests).toEqual([2, 1]);
      isClosing = true;
      expect(await causeOf(send())).toMatchObject({ code: 'ECONNRESET' });
      expect(requests).toEqual([2, 2, 1]);
      // A new connection that is reset says that the server will not answer.
      expect(await causeOf(send())).toMatchObject({ code: 'ECONNRESET' });
      expect(requests).toEqual([2, 2, 1, 1]);
    } finally {
      agent.destroy();
      server.close();
    }
  });

  it('does not send a request again of whose answer a byte has come', async () => {
    let requests = 0;
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', () => {
        requests += 1;
        if (requests === 1)
          socket.write(
            'HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nHello',
          );
        else socket.write('HTTP/1.1 2', () => setImmediate(() => socket.destroy()));
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    try {
      expect(await (await httpFetch({ agent })(url)).text()).toBe('Hello');
      await expect(httpFetch({ agent })(url)).rejects.toThrow('fetch failed');
      expect(requests).toBe(2);
    } finally {
      agent.destroy();
      server.close();
    }
  });

  it('ends the page of a failure after 1 MB', async () => {
    const response = await get((answer) => {
      const more = (): void => {
        while (!answer.destroyed && answer.write('x'.repeat(100_000)));
      };
      answer.writeHead(500).on('drain', more);
      more();
    });
    expect(await response.text()).toHaveLength(1024 * 1024);
    while ([...(provider?.sockets ?? [])].some((socket) => !socket.closed)) await sleep(1);
  });

  it('sends texts and bytes only, and over HTTP only', async () => {
    await expect(
      httpFetch()('http://127.0.0.1:9/', { method: 'POST', body: new FormData() }),
    ).rejects.toThrow('texts and bytes only');
    await expect(httpFetch()('ftp://127.0.0.1:9/')).rejects.toThrow(
      'Protocol "ftp:" not supported',
    );
  });

  it.each([
    ['that is no HTTP', 'SSH-2.0-nothing\r\n', 'Parse Error: Expected HTTP/, RTSP/ or ICE/'],
    ['that is empty', '', 'socket hang up'],
    [
      'with endless headers',
      `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}`,
      'Parse Error: Header overflow',
    ],
    [
      'with a status that is none',
      'HTTP/1.1 999 No\r\n\r\n',
      'init["status"] must be in the range of 200 to 599, inclusive.',
    ],
    [
      'that switches protocols',
      'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      'other side closed',
    ],
  ])('fails for an answer %s', async (_what, bytes, message) => {
    const { url, close } = await rawServer(bytes);
    expect(await causeOf(httpFetch()(url))).toMatchObject({ message });
    close();
  });

  it('fails in the middle of a body that is cut', async () => {
    const { url, close } = await rawServer('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nHello');
    await expect(httpFetch()(url).then((response) => response.text())).rejects.toThrow(
      'other side closed',
    );
    close();
  });
});

describe('an abort', () => {
  it('sends nothing when it comes before the request', async () => {
    await expect(get(answers(200, ''), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
    expect(provider?.requests).toEqual([]);
  });

  it('rejects with its reason and closes the socket when it comes before the answer', async () => {
    const reason = new Error('Enough.');
    const controller = new AbortController();
    const reading = get(() => controller.abort(reason), { signal: controller.signal });
    await expect(reading).rejects.toBe(reason);
    await provider?.untilClosed();
  });

  it('closes the socket when it comes in the middle of the body', async () => {
    const controller = new AbortController();
    const response = await get((answer) => answer.writeHead(200).write('Hel'), {
      signal: controller.signal,
    });
    const reading = response.text();
    await sleep(20);
    controller.abort();
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' });
    await provider?.untilClosed();
  });

  it('leaves no listener on a signal that lives on', async () => {
    const { signal } = new AbortController();
    const remove = jest.spyOn(signal, 'removeEventListener');
    await (await get(answers(200, 'Hello'), { signal })).text();
    await sleep(0);
    expect(remove).toHaveBeenCalledTimes(1);
  });

  it('closes the socket when the body is cancelled', async () => {
    const response = await get((answer) => answer.writeHead(200).write('Hel'));
    await response.body?.cancel();
    await provider?.untilClosed();
    expect(await response.text().catch(() => 'gone')).toBe('gone');
  });
});

/** The global fetch says of itself what mode it is in. */
async function usesGlobalFetch(): Promise<boolean> {
  provider = await LocalProvider.start(answers(200, 'Hello'));
  await modelFetch()(provider.baseURL);
  return provider.requests[0]?.headers['sec-fetch-mode'] !== undefined;
}

async function answered(): Promise<Response> {
  provider = await LocalProvider.start(answers(200, '{"said":"Hello"}'));
  return modelFetch()(provider.baseURL);
}

describe('the answer to a model', () => {
  it('reads as any response does, once', async () => {
    const response = await answered();
    expect([response.ok, response.status, response.bodyUsed]).toEqual([true, 200, false]);
    expect(await response.clone().text()).toBe('{"said":"Hello"}');
    expect(await response.json()).toEqual({ said: 'Hello' });
    expect(response.bodyUsed).toBe(true);
    await expect(response.text()).rejects.toThrow('already been read');
  });

  it.each<[string, (response: Response) => Promise<unknown>]>([
    ['text', (response) => response.text()],
    ['bytes', async (response) => Buffer.from(await response.bytes()).toString()],
    ['a buffer', async (response) => Buffer.from(await response.arrayBuffer()).toString()],
    ['a blob', async (response) => (await response.blob()).text()],
    ['a stream', async (response) => new Response(response.body).text()],
  ])('has a body that can be read as %s', async (_, read) => {
    expect(await read(await answered())).toBe('{"said":"Hello"}');
  });
});

describe('without a fetch of its own, a model', () => {
  const kept = globalThis.fetch;

  afterEach(() => {
    globalThis.fetch = kept;
    delete process.env.NODE_USE_ENV_PROXY;
  });

  it('sends with the lean one', async () => {
    expect(await usesGlobalFetch()).toBe(false);
  });

  it('sends with the global one where a proxy is asked for', async () => {
    process.env.NODE_USE_ENV_PROXY = '1';
    expect(await usesGlobalFetch()).toBe(true);
  });

  it('sends with whatever the application put in the place of the global one', async () => {
    globalThis.fetch = (input, init) => kept(input, init);
    expect(await usesGlobalFetch()).toBe(true);
  });
});
