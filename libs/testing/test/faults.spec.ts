import { describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { type LanguageModel, ToolLoopModule, ToolLoopService } from '@toolloop/core';
import { retried } from '@toolloop/core/models';
import { MemoryRunLog } from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import {
  call,
  calls,
  FaultyModel,
  killedProcess,
  type ModelFault,
  ScriptedModel,
  text,
  troubled,
} from '@toolloop/testing';

async function ended(model: LanguageModel): Promise<unknown> {
  const app = await NestFactory.createApplicationContext(
    ToolLoopModule.forRoot({ model, policy: { allow: [] } }),
    { logger: false },
  );
  try {
    const limits = { steps: 2 };
    const handle = app.get(ToolLoopService).open({
      prompt: 'Hello',
      actor: { id: 'ann' },
      tenant: 'acme',
      limits,
      signal: AbortSignal.timeout(20_000),
    });
    const result = await handle.result.catch(
      ({ result: partial }: { readonly result: unknown }) => partial,
    );
    return result;
  } finally {
    await app.close();
  }
}

const hello = (count: number): ScriptedModel =>
  new ScriptedModel(Array.from({ length: count }, () => text('Hello there, you.')));

describe('a model with faults', () => {
  it.each<[string, ModelFault]>([
    ['a refusal', { kind: 'refuse', retryAfterMs: 1 }],
    ['a connection that breaks before the first word', { kind: 'drop', after: 0 }],
  ])('answers a loop that tries again after %s', async (_what, fault) => {
    const model = new FaultyModel(hello(2), [fault]);
    const retrying = retried(model, { attempts: 2, firstWaitMs: 1 });
    expect(await ended(retrying)).toMatchObject({
      finishReason: 'stop',
      text: 'Hello there, you.',
    });
    expect(model.questions).toBe(2);
  });

  it('ends a run as an error where its stream is cut', async () => {
    expect(
      await ended(
        new FaultyModel(
          hello(9),
          Array.from({ length: 9 }, (): ModelFault => ({ kind: 'cut', after: 1 })),
        ),
      ),
    ).toMatchObject({
      finishReason: 'error',
    });
  });

  it('lets no half call be made', async () => {
    const model = new FaultyModel(
      new ScriptedModel(Array.from({ length: 9 }, () => calls(call('crm__find', { name: 'Ada' })))),
      Array.from({ length: 9 }, (): ModelFault => ({ kind: 'half-call' })),
    );
    expect(await ended(model)).toMatchObject({ finishReason: 'error', toolCalls: [] });
  });

  it('falls silent until it is aborted', async () => {
    const stop = new AbortController();
    const seen: string[] = [];
    for await (const { type } of new FaultyModel(hello(1), [{ kind: 'stall', after: 1 }]).stream(
      { messages: [], tools: [] },
      stop.signal,
    )) {
      seen.push(type);
      setImmediate(() => stop.abort());
    }
    expect(seen).toEqual(['text-delta']);
  });
});

describe('a store in trouble', () => {
  const run = { runId: 'r1', tenant: 'acme', actorId: 'ann' };

  it('fails the call that it is to fail, and does the others', async () => {
    const log = troubled(new MemoryRunLog(), {
      method: 'find',
      at: 2,
      answer: () => Promise.reject(new StorageUnavailableError()),
    });
    await log.add(run, 'waiting');
    await expect(log.find('r1')).resolves.toMatchObject({ runId: 'r1' });
    await expect(log.find('r1')).rejects.toBeInstanceOf(StorageUnavailableError);
    await expect(log.find('r1')).resolves.toMatchObject({ runId: 'r1' });
  });

  it('hangs unless it is said what comes of the call', async () => {
    const log = troubled(new MemoryRunLog(), { method: 'find' });
    const later = new Promise((resolve) => setImmediate(resolve, 'later'));
    expect(await Promise.race([log.find('r1'), later])).toBe('later');
  });

  it('may do what it is asked and lose the answer', async () => {
    const log = troubled(new MemoryRunLog(), {
      method: 'add',
      isDone: true,
      answer: () => Promise.reject(new StorageUnavailableError()),
    });
    await expect(log.add(run, 'waiting')).rejects.toBeInstanceOf(StorageUnavailableError);
    await expect(log.find('r1')).resolves.toMatchObject({ runId: 'r1' });
  });
});

const until = (said: unknown): unknown => said;

describe('a process to be killed', () => {
  it('is killed in the moment that it tells', async () => {
    const said = await killedProcess({
      args: ['-e', 'process.send({ runId: "r1" }); setInterval(() => {}, 1000)'],
      until,
    });
    expect(said).toEqual({ runId: 'r1' });
  });

  it('fails with what it wrote where it ends by itself', async () => {
    await expect(
      killedProcess({ args: ['-e', 'console.error("no database"); process.exit(3)'], until }),
    ).rejects.toThrow(/with 3[\s\S]*no database/);
  });
});
