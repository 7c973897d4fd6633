import { EventEmitter, once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { sseEncoder } from '@toolloop/ui-stream';
import { sendEvents } from '../src/event-stream.js';
import { GatedModel } from './gated-model.js';
import {
  ask,
  closeApps,
  eventsIn,
  headersOf,
  type Platform,
  type Served,
  serveApp,
  settled,
  until,
} from './served-app.js';

afterAll(closeApps);

/** A client that sends a question and reads nothing of the answer. */
function deafClient(served: Served): Promise<Socket> {
  const { port, host } = new URL(served.url);
  const body = '{"message":"hi"}';
  const head = `POST /chat HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer alice\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => resolve(socket));
    socket.on('error', () => undefined).once('error', reject);
    socket.pause();
    socket.write(head + body);
  });
}

const PIECE = 'x'.repeat(10_000);

describe.each<Platform>(['express', 'fastify'])('a reader that does not read on %s', (platform) => {
  it('stops the reading of the model, and gets all of it once it reads', async () => {
    const model = new GatedModel(Array.from({ length: 4_000 }, () => PIECE)); // 40 MB
    model.open();
    const served = await serveApp({ model, platform });
    const socket = await deafClient(served);
    const pulled = await settled(() => model.pulled);
    expect(pulled).toBeLessThan(2_000); // what the sockets of the system hold, and no more
    let bytes = 0;
    let tail = '';
    socket.on('data', (data: Buffer) => {
      bytes += data.length;
      tail = (tail + data.toString('latin1')).slice(-7);
    });
    socket.resume();
    await until(() => tail.endsWith('\r\n0\r\n\r\n')); // the end of the answer
    expect(model.pulled).toBe(4_000);
    // the text twice: in pieces, and whole at the end of the run
    expect(bytes).toBeGreaterThan(80_000_000);
    socket.destroy();
  });

  it('is cut off after a while, and its run ends once no one can read on', async () => {
    const model = new GatedModel(Array.from({ length: 4_000 }, () => PIECE));
    const served = await serveApp({
      model,
      platform,
      http: { limits: { readerStalledMs: 200, reconnectMs: 200, keptBytes: 100_000 } },
    });
    const socket = await deafClient(served);
    let isCut = false;
    socket.once('close', () => (isCut = true));
    await settled(() => model.pulled);
    socket.resume();
    await until(() => isCut);
    expect(model.pulled).toBeLessThan(4_000);
  });
});

describe('a stream', () => {
  it('asks for the next event only once its socket has taken the one before, and holds no more than 64 KB and that one', async () => {
    let [asked, askedTooEarly, most] = [0, 0, 0];
    async function* events(response: ServerResponse): AsyncGenerator<LoopEvent> {
      for (; asked < 3_000; asked += 1) {
        if (response.writableNeedDrain) askedTooEarly += 1;
        most = Math.max(most, response.writableLength);
        yield {
          type: 'text-delta',
          step: 1,
          text: PIECE,
          runId: 'run',
          sequence: asked + 1,
          timestamp: '',
        };
        await Promise.resolve();
      }
    }
    const times = { keepAliveMs: 0, readerStalledMs: 60_000 };
    const server = createServer(
      (_request, response) => void sendEvents(events(response), sseEncoder(), response, times),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    const held = await settled(() => asked);
    expect(held).toBeLessThan(3_000);
    socket.resume();
    await until(() => asked === 3_000);
    socket.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect(askedTooEarly).toBe(0);
    expect(most).toBeLessThan(65_536);
  });

  it('begins before its first event where that is long in coming, as that of a run which is queued', async () => {
    const queue = new EventEmitter();
    async function* events(): AsyncGenerator<LoopEvent> {
      await once(queue, 'turn');
      yield { type: 'text-delta', step: 1, text: 'Hi.', runId: 'run', sequence: 1, timestamp: '' };
    }
    const times = { keepAliveMs: 20, readerStalledMs: 60_000 };
    const server = createServer(
      (_request, response) => void sendEvents(events(), sseEncoder(), response, times),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    // its headers are there
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    queue.emit('turn');
    const body = await response.text();
    expect([response.status, eventsIn(body).length, body.startsWith(':\n\n')]).toEqual([
      200,
      1,
      true,
    ]);
    await new Promise((resolve) => server.close(resolve));
  });

  it('is cut off where it fails after it has begun, so that its client connects again', async () => {
    const storage = new EventEmitter();
    async function next(): Promise<never> {
      await once(storage, 'failure');
      throw new Error('The storage is gone.');
    }
    const events: AsyncIterable<LoopEvent> = { [Symbol.asyncIterator]: () => ({ next }) };
    const times = { keepAliveMs: 20, readerStalledMs: 60_000 };
    const server = createServer(
      (_request, response) => void sendEvents(events, sseEncoder(), response, times),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    storage.emit('failure');
    await expect(response.text()).rejects.toThrow('terminated');
    await new Promise((resolve) => server.close(resolve));
  });
});

/** Reads the stream up to so many events, and leaves. */
async function eventsUpTo(response: Response, count: number): Promise<ReturnType<typeof eventsIn>> {
  let said = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    said += decoder.decode(chunk, { stream: true });
    const whole = eventsIn(said.slice(0, said.lastIndexOf('\n\n') + 2));
    if (whole.length >= count) return whole.slice(0, count);
  }
  return eventsIn(said);
}

function watch(
  served: Served,
  runId: string,
  last: number | string,
  person = 'alice',
): Promise<Response> {
  return fetch(`${served.url}/runs/${runId}/events`, {
    headers: { ...headersOf(person), 'last-event-id': String(last) },
  });
}

describe.each<Platform>(['express', 'fastify'])(
  'a reader that has lost its connection on %s',
  (platform) => {
    it('reads on behind the last event it saw, each event once, while the model is asked once', async () => {
      const model = new GatedModel(['a', 'b', 'c', 'd']);
      const served = await serveApp({ model, platform });
      const before = await eventsUpTo(await ask(served, 'alice', { message: 'hi' }), 3);
      const { runId = '', sequence = 0 } = before.at(-1) ?? {};
      const again = await watch(served, runId, sequence);
      expect(again.status).toBe(200);
      model.open();
      const after = eventsIn(await again.text());
      const sequences = [...before, ...after].map((event) => event.sequence);
      expect(sequences).toEqual(sequences.map((_, index) => index + 1));
      expect(after.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'abcd' });
      expect(model.pulled).toBe(4);
      expect((await watch(served, runId, after.at(-1)?.sequence ?? 0)).status).toBe(204);
    });

    it('reads on by an id that names the run, and by none that names another', async () => {
      const model = new GatedModel(['a']);
      model.open();
      const served = await serveApp({ model, platform });
      const [{ runId }, ...more] = eventsIn(
        await (await ask(served, 'alice', { message: 'hi' })).text(),
      ) as [LoopEvent, ...LoopEvent[]];
      expect(eventsIn(await (await watch(served, runId, `${runId}.1`)).text())).toEqual(more);
      expect((await watch(served, runId, 'another-run.1')).status).toBe(400);
    });

    it('finds its run running, and stops it by a request of its own', async () => {
      const model = new GatedModel();
      const served = await serveApp({ model, platform });
      const [{ runId }] = await eventsUpTo(await ask(served, 'alice', { message: 'hi' }), 2);
      const view = (): Promise<unknown> =>
        fetch(`${served.url}/runs/${runId}`, { headers: headersOf('alice') }).then((r) => r.json());
      expect(await view()).toMatchObject({ runId, status: 'running', durable: false });
      expect((await ask(served, 'bob', {}, `/runs/${runId}/cancel`)).status).toBe(404);
      expect(
        (await ask(served, 'alice', { reason: 'Enough.' }, `/runs/${runId}/cancel`)).status,
      ).toBe(202);
      await until(() => model.aborted === 1);
      const rest = eventsIn(await (await watch(served, runId, 1)).text());
      expect(rest.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'aborted' });
    });

    it('finds nothing where runs end with their readers', async () => {
      const model = new GatedModel();
      const served = await serveApp({ model, platform, http: { limits: { reconnectMs: 0 } } });
      const [{ runId }] = await eventsUpTo(await ask(served, 'alice', { message: 'hi' }), 2);
      await until(() => model.aborted === 1);
      expect((await watch(served, runId, 1)).status).toBe(404);
    });

    it('keeps the run for the other reader, and for a while behind the last one', async () => {
      const model = new GatedModel();
      const served = await serveApp({ model, platform, http: { limits: { reconnectMs: 300 } } });
      const first = await ask(served, 'alice', { message: 'hi' });
      const [{ runId }] = await eventsUpTo(first, 2);
      const second = await watch(served, runId, 0);
      // three times as long as a run without a reader lives
      await new Promise((resolve) => setTimeout(resolve, 900));
      expect(model.aborted).toBe(0);
      await second.body?.cancel();
      await until(() => model.aborted === 1);
    });

    it('is told that the events are gone where they are not kept any more', async () => {
      const model = new GatedModel(Array.from({ length: 100 }, () => PIECE));
      const served = await serveApp({ model, platform, http: { limits: { keptBytes: 50_000 } } });
      const seen = await eventsUpTo(await ask(served, 'alice', { message: 'hi' }), 50);
      const { runId = '' } = seen.at(-1) ?? {};
      expect((await watch(served, runId, 1)).status).toBe(410);
    });

    it('resumes a run of which nothing is kept any more, and reads what is new', async () => {
      const model = new ScriptedModel([calls(call('notes__delete', { id: 'n-1' })), text('Gone.')]);
      const served = await serveApp({ model, platform, http: { limits: { reconnectMs: 0 } } });
      const events = eventsIn(await (await ask(served, 'alice', { message: 'Delete it' })).text());
      const request = events.find((event) => event.type === 'approval-request');
      const answer = { approvalId: request?.approval.approvalId, decision: 'approve' };
      expect((await ask(served, 'alice', answer, `/runs/${request?.runId}/answer`)).status).toBe(
        200,
      );
      const rest = eventsIn(
        await (await ask(served, 'alice', {}, `/runs/${request?.runId}/resume`)).text(),
      );
      expect(rest.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'Gone.' });
    });

    it('is found by its chat, from the beginning, and by no other actor', async () => {
      const model = new GatedModel(['a', 'b']);
      const served = await serveApp({ model, platform });
      const said = {
        id: 'chat-1',
        messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
      };
      const first = await ask(served, 'alice', said, '/ai/chat');
      await until(() => model.pulled === 2);
      const resumed = (person: string): Promise<Response> =>
        fetch(`${served.url}/ai/chat/chat-1/stream`, { headers: headersOf(person) });
      expect([(await resumed('bob')).status, (await resumed('carl')).status]).toEqual([204, 204]);
      const again = await resumed('alice');
      model.open();
      const [one, other] = await Promise.all([first.text(), again.text()]);
      expect(other).toBe(one);
      expect(other).toContain('"delta":"b"');
      expect((await resumed('alice')).status).toBe(204);
    });
  },
);
