import { describe, expect, it } from '@jest/globals';
import { ToolLoopClient } from '@toolloop/client';
import { PendingList, Thread } from '@toolloop/react';
import type { LoopEvent } from '@toolloop/protocol';

/** A server whose answers are sent when the test says so, in any order. */
class HeldServer {
  readonly asked: {
    readonly path: string;
    readonly signal?: AbortSignal | null | undefined;
    readonly send: (response: Response) => void;
  }[] = [];

  readonly client = new ToolLoopClient({
    url: 'http://desk.example',
    fetch: (input, init) =>
      new Promise((send) =>
        this.asked.push({
          path: new URL(input instanceof Request ? input.url : input).pathname,
          signal: init?.signal,
          send,
        }),
      ),
  });

  /** Waits until so much was asked. */
  async until(n: number): Promise<void> {
    while (this.asked.length < n) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  async send(index: number, response: Response): Promise<void> {
    await this.until(index + 1);
    this.asked[index]?.send(response);
  }
}

const AT = new Date(0).toISOString();

/** The stream of a run that waits for a person. */
function waiting(): Response {
  const usage = { inputTokens: 0, outputTokens: 0 };
  const end: LoopEvent = {
    type: 'run-end',
    runId: 'r',
    sequence: 1,
    timestamp: AT,
    finishReason: 'waiting',
    waitingFor: 'approval',
    steps: 1,
    text: '',
    usage,
  };
  return new Response(`data: ${JSON.stringify(end)}\n\n`, {
    headers: { 'content-type': 'text/event-stream' },
  });
}

describe('the list of what waits', () => {
  it('shows what was asked for last, and looks once more for all that asked meanwhile', async () => {
    const server = new HeldServer();
    const list = new PendingList(server.client);
    const looks = [list.refresh(), list.refresh(), list.refresh()];
    await server.send(0, Response.json([{ id: 'old' }]));
    await server.send(1, Response.json([{ id: 'new' }]));
    await Promise.all(looks);
    expect(list.snapshot().requests).toEqual([{ id: 'new' }]);
    expect(server.asked).toHaveLength(2);
    const later = list.refresh();
    await server.send(2, Response.json([]));
    await later;
    expect(list.snapshot().requests).toEqual([]);
  });

  it('looks again after one that has failed', async () => {
    const server = new HeldServer();
    const list = new PendingList(server.client);
    const looks = [list.refresh(), list.refresh()];
    await server.send(
      0,
      Response.json({ code: 'storage_unavailable', message: 'Later.' }, { status: 503 }),
    );
    await server.until(2);
    expect(list.snapshot().error?.message).toBe('Later.');
    await server.send(1, Response.json([{ id: 'there' }]));
    await Promise.all(looks);
    expect(list.snapshot()).toMatchObject({ requests: [{ id: 'there' }], error: undefined });
  });
});

/** A conversation whose first run waits for an answer. */
async function waitingThread(server: HeldServer): Promise<Thread> {
  const thread = new Thread(server.client, { durable: false });
  const asked = thread.ask('Refund it.');
  await server.send(0, waiting());
  await asked;
  return thread;
}

describe('a conversation whose runs are not durable', () => {
  it('resumes a run once, however many tell it of the answer, and again after its next question', async () => {
    const server = new HeldServer();
    const thread = await waitingThread(server);
    thread.readOn('r');
    thread.readOn('r');
    await server.send(1, waiting());
    for (; server.asked.length < 3; await new Promise((resolve) => setTimeout(resolve, 1)))
      thread.readOn('r');
    expect(server.asked.map(({ path }) => path)).toEqual([
      '/chat',
      '/runs/r/resume',
      '/runs/r/resume',
    ]);
  });

  it('resumes a run once more that was answered while it was resumed, and waits again', async () => {
    const server = new HeldServer();
    const thread = await waitingThread(server);
    thread.readOn('r');
    thread.readOn('r'); // the second of two calls, whose answer the first request may not have seen
    await server.send(1, waiting());
    await server.until(3);
    expect(server.asked.map(({ path }) => path)).toEqual([
      '/chat',
      '/runs/r/resume',
      '/runs/r/resume',
    ]);
  });

  it('are read no further once the page is left, those that are resumed too', async () => {
    const server = new HeldServer();
    const thread = await waitingThread(server);
    thread.readOn('r');
    await server.until(2);
    expect(server.asked[1]?.signal?.aborted).toBe(false);
    thread.leave();
    expect(server.asked[1]?.signal?.aborted).toBe(true);
  });
});

/** What the server says of a durable run that waits. */
function waitingRun(lastSequence: number): Response {
  return Response.json({ runId: 'r', status: 'waiting', durable: true, lastSequence });
}

/** The stream of what follows until the run ends. */
function ended(): Response {
  const usage = { inputTokens: 0, outputTokens: 0 };
  const end: LoopEvent = {
    type: 'run-end',
    runId: 'r',
    sequence: 2,
    timestamp: AT,
    finishReason: 'stop',
    steps: 1,
    text: '',
    usage,
  };
  return new Response(`data: ${JSON.stringify(end)}\n\n`, {
    headers: { 'content-type': 'text/event-stream' },
  });
}

/** Notices that a test gives. */
class Told {
  readonly watchers = new Set<() => void>();

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  };

  tell(): void {
    for (const watcher of this.watchers) watcher();
  }
}

describe('a conversation whose durable run waits', () => {
  it('looks whether it has moved at a notice, at once after an answer, and reads on', async () => {
    const server = new HeldServer();
    const told = new Told();
    const thread = new Thread(server.client, { notices: told.watch });
    const asked = thread.ask('Refund it.');
    await server.send(0, waiting());
    while (told.watchers.size === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    told.tell();
    await server.until(2);
    told.tell(); // while the answer to the look may be older than the change
    await server.send(1, waitingRun(1));
    await server.send(2, waitingRun(2));
    await server.send(3, ended());
    await asked;
    expect(server.asked.map(({ path }) => path)).toEqual([
      '/chat',
      '/runs/r',
      '/runs/r',
      '/runs/r/events',
    ]);
    expect(thread.snapshot()).toMatchObject({
      status: 'idle',
      turns: [{ run: { status: 'ended' } }],
    });
    expect(told.watchers.size).toBe(0);
  });

  it('looks by itself without notices, and no more once the page is left', async () => {
    const server = new HeldServer();
    const thread = new Thread(server.client);
    const asked = thread.ask('Refund it.');
    await server.send(0, waiting());
    await server.send(1, waitingRun(1));
    thread.leave();
    await asked;
    expect(server.asked.map(({ path }) => path)).toEqual(['/chat', '/runs/r']);
    expect(thread.snapshot()).toMatchObject({
      status: 'idle',
      turns: [{ run: { status: 'waiting' } }],
    });
  });
});
