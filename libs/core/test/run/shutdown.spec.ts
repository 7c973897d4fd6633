import { describe, expect, it } from '@jest/globals';
import { type ToolCallContext, ToolLoopService } from '@toolloop/core';
import { RunOpener } from '@toolloop/core/internal';
import {
  ScriptedModel,
  call,
  calls,
  collect,
  expectRunEndsOnce,
  hangs,
  text,
} from '@toolloop/testing';
import { resultOf } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';
import { KeptJournal } from '../plugins/sub-runs/kept-journal.js';

describe('an application that shuts down', () => {
  it('ends the runs that end with it before it lets go of anything, and says why', async () => {
    const module = await openModule(new ScriptedModel([hangs('I am')]));
    const handle = module.get(ToolLoopService).open(ask());
    const reading = collect(handle.events$);
    await module.close();
    expectRunEndsOnce(await reading);
    await expect(handle.result).rejects.toMatchObject({
      result: { finishReason: 'aborted' },
      cause: { message: 'The application is shutting down.' },
    });
  });

  it('aborts the calls they are in', async () => {
    const begun: AbortSignal[] = [];
    const act = (_key: string, { signal }: ToolCallContext): Promise<string> => {
      begun.push(signal);
      return new Promise(() => undefined);
    };
    const module = await openModule(new ScriptedModel([calls(call('probe__read', { key: 'r' }))]));
    const run = module.get(ToolLoopService).open(ask({ context: { act } }));
    const result = resultOf(run);
    while (begun.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await module.close();
    expect(begun[0]?.aborted).toBe(true);
    expect(await result).toMatchObject({ finishReason: 'aborted' });
  });

  it('ends at once what is begun after that', async () => {
    const module = await openModule(new ScriptedModel([text('Too late.')]));
    const handle = module.get(ToolLoopService).open(ask());
    await module.close();
    await expect(handle.result).rejects.toMatchObject({ result: { finishReason: 'aborted' } });
  });

  it('refuses with a 503 what is opened after that', async () => {
    const module = await openModule(new ScriptedModel([]));
    const loop: ToolLoopService = module.get(ToolLoopService);
    const closing = module.close();
    await new Promise(setImmediate); // Nest tells its providers in the next turn
    await expect(loop.run(ask())).rejects.toMatchObject({
      status: 503,
      response: { code: 'shutting_down' },
    });
    await expect(loop.resume('run_1', ask())).rejects.toMatchObject({ status: 503 });
    await closing;
  });

  it('leaves a durable run to its engine', async () => {
    const module = await openModule(new ScriptedModel([hangs('I am')]));
    const handle = module
      .get<RunOpener>(RunOpener)
      .openDurable(ask(), { runId: 'run-1', loop: undefined, journal: new KeptJournal() });
    const reading = collect(handle.events$);
    await module.close();
    handle.cancel('Its keeper says so.');
    await reading;
    await expect(handle.result).rejects.toMatchObject({
      cause: { message: 'Its keeper says so.' },
    });
  });
});
