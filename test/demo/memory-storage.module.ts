import { Global, Module } from '@nestjs/common';
import { type ApprovalStore, MemoryApprovalStore, ToolLoopStores } from '@toolloop/core/stores';
import { DurableHealth, MemoryRunStore, RUN_OPTIONS, RunEngine, RunService, RunStore, WakingApprovalStore } from '@toolloop/durable';

/** Everything in memory but what wakes runs, which is the same. */
class MemoryStores implements ToolLoopStores {
  readonly approvals: ApprovalStore;

  constructor(runs: RunStore) {
    this.approvals = new WakingApprovalStore(new MemoryApprovalStore(), runs, (work) => work());
  }
}

/** In the place of a database, for the many specs that are about something else: a database each would take seconds, and its memory until the last has run. */
@Global()
@Module({
  providers: [
    { provide: RunStore, useClass: MemoryRunStore },
    { provide: ToolLoopStores, inject: [RunStore], useFactory: (runs: RunStore) => new MemoryStores(runs) },
    { provide: RUN_OPTIONS, useValue: {} },
    RunEngine,
    RunService,
    { provide: DurableHealth, useFactory: () => new DurableHealth({ query: () => Promise.resolve([]) }) },
  ],
  exports: [ToolLoopStores, RunService, DurableHealth],
})
export class MemoryStorageModule {}
