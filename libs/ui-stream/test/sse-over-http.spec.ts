import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Headers,
  HttpException,
  HttpStatus,
  type INestApplication,
  type MessageEvent,
  Sse,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { LoopEvent } from '@toolloop/core';
import { toSse } from '@toolloop/ui-stream';
import { EventSource } from 'eventsource';
import { concat, finalize, from, NEVER, type Observable, of } from 'rxjs';
import request from 'supertest';

const stamp = { runId: 'r1', timestamp: '2026-01-01T00:00:00.000Z' };
const usage = { inputTokens: 1, outputTokens: 1 };
const EVENTS: LoopEvent[] = [
  { ...stamp, sequence: 1, type: 'run-start', requestId: 'r1', model: 'scripted', tools: [] },
  { ...stamp, sequence: 2, type: 'text-delta', step: 1, text: 'two\nlines' },
  {
    ...stamp,
    sequence: 3,
    type: 'run-end',
    finishReason: 'stop',
    text: 'two\nlines',
    steps: 1,
    usage,
  },
];

const runs = { started: 0, ended: 0 };

function run(events: Observable<LoopEvent>): Observable<LoopEvent> {
  runs.started += 1;
  return events.pipe(finalize(() => (runs.ended += 1)));
}

@Controller()
class RunController {
  @Sse('run')
  run(@Headers('last-event-id') lastEventId?: string): Observable<MessageEvent> {
    if (lastEventId !== undefined)
      throw new HttpException('The run is over.', HttpStatus.NO_CONTENT);
    return concat(of({ id: '0', retry: 20 }), run(from(EVENTS)).pipe(toSse()));
  }

  @Sse('endless')
  endless(): Observable<MessageEvent> {
    return run(concat(from(EVENTS.slice(0, 2)), NEVER)).pipe(toSse({ keepAliveMs: 10 }));
  }
}

async function until(holds: () => boolean): Promise<void> {
  for (let waited = 0; !holds(); waited += 5) {
    if (waited > 15_000) throw new Error('It did not come to pass.');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('toSse under @Sse()', () => {
  let app: INestApplication;
  let url: string;

  beforeEach(async () => {
    Object.assign(runs, { started: 0, ended: 0 });
    const built = await Test.createTestingModule({ controllers: [RunController] }).compile();
    app = built.createNestApplication();
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });

  afterEach(async () => {
    await app.close();
  });

  it('sends one frame per event, with ids and without event names', async () => {
    const { text, headers } = await request(url).get('/run').expect(200);
    expect(headers['content-type']).toBe('text/event-stream');
    expect(text).toBe(
      [
        '\nid: 0\nretry: 20\n',
        ...EVENTS.map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n`),
        '',
      ].join('\n'),
    );
  });

  it('sends comments in silence and ends the run when the client leaves', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${url}/endless`, { signal: leaving.signal });
    const decoder = new TextDecoder();
    let received = '';
    for await (const chunk of response.body ?? []) {
      received += decoder.decode(chunk, { stream: true });
      if (received.includes(': \n\n: \n\n')) break;
    }
    leaving.abort();
    await until(() => runs.ended === 1);
    expect(received.match(/^id: .*$/gm)).toEqual(['id: 1', 'id: 2']);
  });

  it('reaches EventSource.onmessage event by event, and a 204 keeps the run from being started again', async () => {
    const source = new EventSource(`${url}/run`);
    const seen: { id: string; event: LoopEvent }[] = [];
    source.addEventListener('message', ({ lastEventId, data }) =>
      seen.push({ id: lastEventId, event: JSON.parse(String(data)) as LoopEvent }),
    );
    await until(() => source.readyState === EventSource.CLOSED);
    expect(seen).toEqual(EVENTS.map((event) => ({ id: String(event.sequence), event })));
    expect(runs).toEqual({ started: 1, ended: 1 });
  });

  it('unsubscribes the run when an EventSource is closed', async () => {
    const source = new EventSource(`${url}/endless`);
    const seen: string[] = [];
    source.addEventListener('message', ({ lastEventId }) => seen.push(lastEventId));
    await until(() => seen.length === 2);
    expect(runs.ended).toBe(0);
    source.close();
    await until(() => runs.ended === 1);
    expect(seen).toEqual(['1', '2']);
  });
});
