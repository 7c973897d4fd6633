import { type DynamicModule, Global, Module } from '@nestjs/common';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ActorDirectory, type LoopEvent } from '@toolloop/core';
import {
  MemoryPendingStore,
  MemoryRunLog,
  type RunHold,
  type RunWrite,
  ToolLoopStores,
} from '@toolloop/core/stores';
import { RUN_OPTIONS, RunEngine, WakingPendingStore } from '@toolloop/durable';
import { OpenAiModel } from '@toolloop/openai';
import { GatedModel } from './gated-model.js';
import {
  ask,
  closeApps,
  eventsIn,
  headersOf,
  PEOPLE,
  type Served,
  serveApp,
  settled,
  until,
} from './served-app.js';

afterAll(closeApps);

const PIECE = 'x'.repeat(10_000);

/** A provider whose answer is there as soon as it is asked for, and that counts what is asked. */
function provider(chunks: number): {
  readonly fetch: () => Promise<Response>;
  readonly pulled: () => number;
} {
  const encoder = new TextEncoder();
  const frame = (delta: object, end: string | null): Uint8Array => {
    const choices = [{ index: 0, delta, finish_reason: end }];
    return encoder.encode(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices })}\n\n`,
    );
  };
  let pulled = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    pulled += 1;
    if (pulled <= chunks) return controller.enqueue(frame({ content: PIECE }, null));
    controller.enqueue(frame({}, 'stop'));
    controller.enqueue(encoder.encode('data: [DONE]\n\n'));
    controller.close();
  };
  const body = (): ReadableStream<Uint8Array> => new ReadableStream({ pull }, { highWaterMark: 0 });
  const answer = (): Response =>
    new Response(body(), { headers: { 'content-type': 'text/event-stream' } });
  return { fetch: () => Promise.resolve(answer()), pulled: () => pulled };
}

describe('a reader that stands still', () => {
  it('makes the clocks of the model stand still too: its answer is read on long after they would have run out', async () => {
    const { fetch: asked, pulled } = provider(1_500);
    const model = new OpenAiModel('m', {
      apiKey: 'sk-test',
      baseURL: 'http://provider.test/v1',
      fetch: asked,
      api: 'chat',
    });
    const limits = { modelIdleMs: 100, modelFirstByteMs: 100, modelFirstContentMs: 100 };
    const served = await serveApp({ model, loop: { limits } });
    const response = await ask(served, 'alice', { message: 'hi' });
    const held = await settled(pulled); // a second, ten times as long as any of the clocks
    expect(held).toBeLessThan(1_500);
    const events = eventsIn(await response.text());
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
    expect(pulled()).toBe(1_501);
  });
});

class People extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve(PEOPLE.find((person) => person.id === id));
  }
}

@Global()
@Module({})
class DurableModule {}

/** Keeps durable runs in a log. */
function durableIn(log: MemoryRunLog): DynamicModule {
  const stores: ToolLoopStores = {
    runs: log,
    pending: new WakingPendingStore(new MemoryPendingStore(), log, (work) => work()),
  };
  return {
    module: DurableModule,
    providers: [
      { provide: ToolLoopStores, useValue: stores },
      { provide: RUN_OPTIONS, useValue: { heartbeatMs: 20 } },
      RunEngine,
      { provide: ActorDirectory, useClass: People },
    ],
    exports: [ToolLoopStores],
  };
}

/** Keeps no end of a run before a reader looks at its log. */
class SlowRunLog extends MemoryRunLog {
  private look!: () => void;
  private readonly looked = new Promise<void>((resolve) => (this.look = resolve));

  override async append(hold: RunHold, write: RunWrite): Promise<void> {
    if (write.ending) await this.looked;
    await super.append(hold, write);
  }

  override watch(...of: Parameters<MemoryRunLog['watch']>): ReturnType<MemoryRunLog['watch']> {
    this.look();
    return super.watch(...of);
  }
}

describe('a reader of a durable run', () => {
  it('does not slow it, falls back to its log where it is too slow for what is kept, and gets each event once', async () => {
    const model = new GatedModel(Array.from({ length: 1_500 }, () => PIECE));
    model.open();
    const served = await serveApp({
      model,
      modules: [durableIn(new MemoryRunLog())],
      http: { limits: { keptBytes: 50_000 } },
    });
    const response = await ask(served, 'alice', { message: 'hi', durable: true });
    await until(() => model.pulled === 1_500);
    const [run] = (await (
      await fetch(`${served.url}/runs`, { headers: headersOf('alice') })
    ).json()) as { readonly runId: string }[];
    await ended(served, run?.runId ?? '');
    const events = eventsIn(await response.text());
    const sequences = events.map(({ sequence }) => sequence);
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    expect(textIn(events)).toBe(1_500 * PIECE.length);
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
  });

  it('reads in its log how it ended, where that was kept too late for who waited for it', async () => {
    const served = await serveApp({
      model: new GatedModel([PIECE, PIECE]),
      modules: [durableIn(new SlowRunLog())],
    });
    const response = await ask(served, 'alice', { message: 'hi', durable: true });
    const [run] = (await (
      await fetch(`${served.url}/runs`, { headers: headersOf('alice') })
    ).json()) as { readonly runId: string }[];
    const cancelled = await fetch(`${served.url}/runs/${run?.runId}/cancel`, {
      method: 'POST',
      headers: headersOf('alice'),
    });
    expect(cancelled.status).toBe(202);
    const events = eventsIn(await response.text());
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'aborted' });
  });
});

function textIn(events: readonly LoopEvent[]): number {
  return events.reduce(
    (length, event) => length + (event.type === 'text-delta' ? event.text.length : 0),
    0,
  );
}

async function ended(served: Served, runId: string): Promise<void> {
  for (
    let status = '';
    status !== 'ended';
    await new Promise((resolve) => setTimeout(resolve, 20))
  ) {
    const response = await fetch(`${served.url}/runs/${runId}`, { headers: headersOf('alice') });
    ({ status } = (await response.json()) as { readonly status: string });
  }
}
