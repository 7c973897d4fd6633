import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { type DynamicModule, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ActorDirectory, type Tool, tool, ToolLoopModule, ToolSource } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { MemoryRunLog, ToolLoopStores } from '@toolloop/core/stores';
import { Database, DurableModule, RUN_OPTIONS, RunEngine } from '@toolloop/durable';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { toDurableRequest } from '../src/runs/durable-request.js';
import { inMemory } from './databases.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const started: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const end of started.splice(0).toReversed()) await end();
});

class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string) {
    return Promise.resolve({ id });
  }
}

/** A part of the application that is not there at once: meanwhile the process looks around. */
class SlowTools extends ToolSource {
  readonly origin = { source: 'slow', trusted: true };

  constructor(private readonly look: () => Promise<void>) {
    super();
  }

  override async tools(): Promise<readonly Tool[]> {
    for (let turns = 0; turns < 50; turns += 1) await turn();
    await this.look();
    return [];
  }
}

@Module({})
class RunsModule {}

function runsIn(runs: MemoryRunLog): DynamicModule {
  const stores = { provide: ToolLoopStores, useValue: { runs } };
  const options = { provide: RUN_OPTIONS, useValue: { heartbeatMs: 20, takeoverMs: 1_000 } };
  return {
    module: RunsModule,
    global: true,
    providers: [stores, options, RunEngine],
    exports: [ToolLoopStores],
  };
}

interface Order {
  readonly durable: DynamicModule;
  readonly isFirst: boolean;
  readonly look?: (module: Awaited<ReturnType<typeof begun>>) => Promise<void>;
}

/** An application that is about to start: the modules are in the one order or in the other. */
async function begun({ durable, isFirst, look }: Order) {
  const acted: string[] = [];
  const act = tool({
    id: 'desk__act',
    description: 'Acts.',
    effect: 'state_change',
    reveal: 'all',
    execute: () => acted.push('act'),
  });
  const loop = ToolLoopModule.forRoot({
    model: new ScriptedModel([calls(call('desk__act', {})), text('Done.')]),
    policy: { version: 'v1', allow: ['*'], flow: 'off' },
    tools: [act],
  });
  const slow = new SlowTools(() => look?.(one) ?? Promise.resolve());
  const module = await Test.createTestingModule({
    imports: isFirst ? [durable, loop] : [loop, durable],
    providers: [Staff, { provide: 'slow', useValue: slow }],
  }).compile();
  module.useLogger(false);
  started.push(() => module.close());
  const one = { module, acted };
  return one;
}

describe.each([
  ['its module stands before that of the loop', true],
  ['its module stands behind that of the loop', false],
])('what is durable, where %s', (_where, isFirst) => {
  it('takes a run up that is queued only once the application has its tools and policies, and does not find it impossible to continue', async () => {
    const runs = new MemoryRunLog();
    const runId = 'r1';
    await runs.add(
      {
        runId,
        tenant: 'acme',
        actorId: 'alice',
        request: toDurableRequest({ prompt: 'Go on.', ...alice }),
      },
      'queued',
    );
    const seen: unknown[] = [];
    const look = async (): Promise<void> => void seen.push((await runs.find(runId))?.status);
    const { module, acted } = await begun({ durable: runsIn(runs), isFirst, look });
    await module.init();
    const service = module.get<RunService>(RunService);
    while ((await service.get(runId, alice)).status !== 'ended') await turn();
    expect([seen, (await service.get(runId, alice)).finishReason, acted]).toEqual([
      ['queued'],
      'stop',
      ['act'],
    ]);
  });

  it('has the queue of directives before it takes any run up, which may ask for one within a transaction', async () => {
    const found: unknown[] = [];
    const look = async ({ module }: Awaited<ReturnType<typeof begun>>): Promise<void> =>
      void found.push(
        await module
          .get(Database)
          .query(`select name from pgboss.queue where name = 'toolloop-directives'`),
      );
    const { module } = await begun({
      durable: DurableModule.forRoot(await inMemory()),
      isFirst,
      look,
    });
    await module.init();
    expect(found).toEqual([[{ name: 'toolloop-directives' }]]);
  });
});
