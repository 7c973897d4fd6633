import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type ClientOptions, ToolLoopClient } from '@toolloop/client';
import { closeServer, listen } from './cut-connections.js';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const open: (() => Promise<void>)[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((close) => close()));
});

const frame = (sequence: number, type = 'text-delta', more = {}): string =>
  `data: ${JSON.stringify({ type, runId: 'r-1', sequence, ...more })}\n\n`;
const END = { finishReason: 'stop' };

/** Sends a stream and ends it, or leaves it open. */
function stream(text: string, isLeftOpen = false): Answer {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text);
    if (!isLeftOpen) response.end();
  };
}

function refusal(status: number, body: string, headers: Record<string, string> = {}): Answer {
  return (response) => void response.writeHead(status, headers).end(body);
}

function json(body: object): Answer {
  return (response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Looks whether a run has moved, again and again. */
async function* atOnce(): AsyncGenerator<void> {
  for (;;) yield await Promise.resolve();
}

/**
 * A client of a server that gives these answers, one a request, and the `Last-Event-ID` of each
 * request.
 */
async function clientOf(answers: readonly Answer[], reconnect: ClientOptions['reconnect'] = {}) {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers['last-event-id']?.toString());
    answers[asked.length - 1]?.(response, request);
  });
  const url = await listen(server);
  open.push(() => closeServer(server));
  return {
    client: new ToolLoopClient({ url: `${url}/`, reconnect: { delayMs: 1, ...reconnect } }),
    asked,
  };
}

async function sequencesOf(client: ToolLoopClient, after = 0): Promise<number[]> {
  const read: number[] = [];
  for await (const { sequence } of client.events('r-1', { after })) read.push(sequence);
  return read;
}

describe('the events of a run', () => {
  it('are read on behind the last one, and one that is sent again is shown once', async () => {
    const { client, asked } = await clientOf([
      stream(frame(1) + frame(2) + frame(3).slice(0, 20)),
      stream(`: a comment\r\n\r\n${frame(2)}${frame(3)}`),
      stream(frame(4, 'run-end', END)),
    ]);
    expect(await sequencesOf(client)).toEqual([1, 2, 3, 4]);
    expect(asked).toEqual([undefined, '2', '3']);
  });

  it('are read on behind a wait for a person, and are over where the server has no more', async () => {
    const { client, asked } = await clientOf([
      stream(frame(8, 'run-end', { finishReason: 'waiting' })),
      refusal(204, ''),
    ]);
    expect(await sequencesOf(client, 7)).toEqual([8]);
    expect(asked).toEqual(['7', '8']);
  });

  it('hold no connection while the run waits, where its reader leaves then, and are read on once it has moved', async () => {
    const { client, asked } = await clientOf([
      stream(
        frame(1, 'run-end', { finishReason: 'waiting' }) +
          frame(2, 'run-end', { finishReason: 'waiting' }),
        true,
      ),
      refusal(503, ''),
      json({ status: 'running', durable: true, lastSequence: 2 }),
      json({ status: 'waiting', durable: true, lastSequence: 3 }),
      stream(frame(3) + frame(4, 'run-end', END)),
    ]);
    const read: number[] = [];
    for await (const { sequence } of client.events('r-1', { leaveWhenWaiting: atOnce }))
      read.push(sequence);
    expect(read).toEqual([1, 2, 3, 4]);
    expect(asked).toEqual([undefined, undefined, undefined, undefined, '2']);
  });

  it('are read on at once of a run that is not durable, which does not move by itself, and not of one that may not be seen any more', async () => {
    const waits = stream(frame(1, 'run-end', { finishReason: 'waiting' }), true);
    const notDurable = await clientOf([
      waits,
      json({ status: 'waiting', durable: false, lastSequence: 1 }),
      refusal(204, ''),
    ]);
    const read: number[] = [];
    for await (const { sequence } of notDurable.client.events('r-1', { leaveWhenWaiting: atOnce }))
      read.push(sequence);
    expect(read).toEqual([1]);
    const gone = await clientOf([waits, refusal(404, '{"code":"unknown_run"}')]);
    const events = gone.client.events('r-1', { leaveWhenWaiting: atOnce });
    await events.next();
    await expect(events.next()).rejects.toMatchObject({ code: 'unknown_run' });
  });

  it('are asked for again after a stream that fell silent, one that failed, and one with what is no event', async () => {
    const { client, asked } = await clientOf(
      [
        stream(frame(1), true),
        stream('event: error\ndata: Internal server error\n\n'),
        stream('data: {"type":"text-delta"}\n\n'),
        stream('data: <html>\n\n'),
        stream(frame(2, 'run-end', END)),
      ],
      { idleMs: 50 },
    );
    expect(await sequencesOf(client)).toEqual([1, 2]);
    expect(asked).toEqual([undefined, '1', '1', '1', '1']);
  });

  it('are asked for again after a refusal that passes, no earlier than the server says', async () => {
    const { client } = await clientOf([
      refusal(429, '{"code":"too_many_streams"}', { 'retry-after': '1' }),
      stream(frame(1, 'run-end', END)),
    ]);
    const started = performance.now();
    expect(await sequencesOf(client)).toEqual([1]);
    expect(performance.now() - started).toBeGreaterThan(900);
  });

  it('are not asked for again after any other refusal', async () => {
    const { client, asked } = await clientOf([
      refusal(404, '{"code":"unknown_run","message":"There is no such run."}'),
    ]);
    await expect(sequencesOf(client)).rejects.toMatchObject({
      status: 404,
      code: 'unknown_run',
      message: 'There is no such run.',
    });
    expect(asked).toHaveLength(1);
  });

  it('are given up after some attempts without an event, and the last one is named', async () => {
    const page = refusal(502, '<html>Bad gateway</html>');
    const { client, asked } = await clientOf([stream(frame(1)), page, page, page], { attempts: 2 });
    await expect(sequencesOf(client)).rejects.toMatchObject({
      name: 'ConnectionLostError',
      lastSequence: 1,
      cause: { status: 502, code: 'http_502' },
    });
    expect(asked).toHaveLength(3);
  });

  it('keep no connection open once the reader leaves', async () => {
    const closed: Promise<unknown>[] = [];
    const answer: Answer = (response) => {
      closed.push(once(response, 'close'));
      stream(frame(1), true)(response, response.req);
    };
    const { client } = await clientOf([answer]);
    for await (const { sequence } of client.events('r-1')) if (sequence === 1) break;
    await expect(Promise.all(closed)).resolves.toHaveLength(1);
  });

  it('can be stopped between two attempts', async () => {
    const reading = new AbortController();
    const { client } = await clientOf([stream(frame(1))], { delayMs: 10_000 });
    const events = client.events('r-1', { signal: reading.signal });
    expect((await events.next()).value).toMatchObject({ sequence: 1 });
    const next = events.next();
    setTimeout(() => reading.abort(), 20);
    await expect(next).rejects.toMatchObject({ name: 'AbortError' });
  });
});
