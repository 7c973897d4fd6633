import { Injectable, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { ActorDirectory, tool, ToolLoopModule } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import {
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  ToolLoopStores,
} from '@toolloop/core/stores';
import { RUN_OPTIONS, RunEngine, WakingPendingStore } from '@toolloop/durable';
import { call, calls, collect, ScriptedModel, text } from '@toolloop/testing';

const runs = new MemoryRunLog();
const stores: ToolLoopStores = {
  runs,
  pending: new WakingPendingStore(new MemoryPendingStore(), runs, (work) => work()),
  journal: new MemoryCallJournal(),
};

/** Keeps durable runs as a database would, for as long as the process lives. */
@Module({
  providers: [
    { provide: ToolLoopStores, useValue: stores },
    { provide: RUN_OPTIONS, useValue: {} },
    RunEngine,
  ],
  exports: [ToolLoopStores],
})
class KeptRunsModule {}

@Injectable()
class Staff extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve({ id: actorId });
  }
}

/** Has a run that was stored, the same in each process. */
@Injectable()
class EarlierRun implements OnApplicationBootstrap {
  constructor(private readonly service: RunService) {}

  async onApplicationBootstrap(): Promise<void> {
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const runId = await this.service.start({
      ...who,
      prompt: 'Refund o-1 for ann@acme.test.',
      requestId: 'q1',
    });
    await collect(this.service.read(runId, who));
  }
}

const refund = tool({
  id: 'orders__refund',
  description: 'Refunds an order.',
  effect: 'state_change',
  reveal: 'all',
  labels: { returns: 'trusted', reads: 'public', egress: false },
  input: { type: 'object', properties: { orderId: { type: 'string' } }, required: ['orderId'] },
  execute: () => 'refunded',
});

@Module({
  imports: [
    { module: KeptRunsModule, global: true },
    ToolLoopModule.forRoot({
      model: new ScriptedModel(
        [calls(call('orders__refund', { orderId: 'o-1' })), text('It is refunded.')],
        { perRun: true },
      ),
      policy: { version: '1', flow: 'off', allow: ['orders__*'] },
      tools: [refund],
      models: {
        other: new ScriptedModel([text('I do not refund.')], { perRun: true }),
        mute: new ScriptedModel([]),
      },
      candidates: {
        strict: {
          version: '2',
          flow: 'off',
          allow: ['orders__*'],
          requireApproval: [{ tools: ['orders__refund'] }],
        },
      },
      operators: (_actor, action) => action === 'replay',
    }),
  ],
  providers: [Staff, EarlierRun],
})
export class AppModule {}
