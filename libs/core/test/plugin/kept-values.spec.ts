import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import { type LoopResult, PendingService, ToolLoopService } from '@toolloop/core';
import {
  type Plugin,
  schemaOf,
  slot,
  type SlotDeclaration,
  type StartedCall,
  ToolLoopPlugin,
} from '@toolloop/core/plugin';
import { MemoryPendingStore, MemoryRunLog, PendingStore, RunLog } from '@toolloop/core/stores';
import { calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { alice, asking, read, write } from '../fixtures/approval.shop.js';
import { resultOf } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const isList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

/** A plugin that keeps the calls that were made, and tells of them when another one is. */
function seeing(seen: string[], rest: Partial<SlotDeclaration<readonly string[]>> = {}): Provider {
  const made = slot<readonly string[]>({
    name: 'acme.seen/calls',
    version: 1,
    schema: schemaOf(isList),
    initial: () => [],
    inherit: 'share',
    ...rest,
  });

  @Injectable()
  @ToolLoopPlugin({ name: 'acme.seen', slots: [made] })
  class SeenCalls implements Plugin {
    started({ run, tool }: StartedCall): void {
      run.set(made, (now) => [...now, tool.spec.declaredId]);
      seen.push(run.get(made).join(' '));
    }
  }
  return SeenCalls;
}

/** Processes over the same stores, of one application after the other. */
function processes() {
  const stores: readonly Provider[] = [
    { provide: RunLog, useValue: new MemoryRunLog() },
    { provide: PendingStore, useValue: new MemoryPendingStore() },
  ];
  return async (script: readonly ScriptedTurn[], plugins: readonly Provider[]) => {
    const module = await openModule(new ScriptedModel(script), {
      policy: asking(),
      providers: [...stores, ...plugins],
    });
    const loop = module.get(ToolLoopService);
    const pending = module.get(PendingService);
    return {
      run: (): Promise<LoopResult> => loop.run(ask()),
      approve: async (): Promise<void> => {
        const [open] = await pending.list(alice);
        await pending.decide({ approvalId: open?.approvalId ?? '', decision: 'approve' }, alice);
      },
      resume: async (runId: string): Promise<LoopResult> =>
        resultOf(await loop.resume(runId, alice)),
    };
  };
}

describe('the value that a plugin keeps for a run', () => {
  it('is there in the process in which the run continues', async () => {
    const seen: string[] = [];
    const open = processes();
    const here = await open([calls(read()), calls(write())], [seeing(seen)]);
    const { runId } = await here.run();
    await here.approve();
    const there = await open([calls(read('b')), text('Done.')], [seeing(seen)]);
    expect((await there.resume(runId)).finishReason).toBe('stop');
    expect(seen).toEqual([
      'probe__read',
      'probe__read probe__write',
      'probe__read probe__write probe__read',
    ]);
  });

  it('survives a process that does not have the plugin', async () => {
    const seen: string[] = [];
    const open = processes();
    const first = await open([calls(read()), calls(write())], [seeing(seen)]);
    const { runId } = await first.run();
    await first.approve();
    const without = await open([calls(write('b'))], []);
    expect((await without.resume(runId)).finishReason).toBe('waiting');
    await first.approve();
    const last = await open([text('Done.')], [seeing(seen)]);
    expect((await last.resume(runId)).finishReason).toBe('stop');
    expect(seen).toEqual(['probe__read', 'probe__read probe__write']);
  });

  it('keeps the run waiting if it cannot be read, and names the slot', async () => {
    const seen: string[] = [];
    const open = processes();
    const here = await open([calls(read()), calls(write())], [seeing(seen)]);
    const { runId } = await here.run();
    await here.approve();
    const other = await open(
      [text('Done.')],
      [seeing(seen, { schema: schemaOf(isNumber), initial: () => 0 as never })],
    );
    await expect(other.resume(runId)).rejects.toMatchObject({
      code: 'unreadable_run',
      message: expect.stringContaining('"acme.seen/calls" is not what it must be'),
    });
    const again = await open([text('Done.')], [seeing(seen)]);
    expect((await again.resume(runId)).finishReason).toBe('stop');
  });
});

function isNumber(value: unknown): value is never {
  return typeof value === 'number';
}
