import { Global, Module } from '@nestjs/common';
import { type PendingStore, MemoryPendingStore, MemoryRunLog, type RunLog, ToolLoopStores } from '@toolloop/core/stores';
import { DurableHealth, RUN_OPTIONS, RunEngine, WakingPendingStore } from '@toolloop/durable';

/** Everything in memory but what wakes runs, which is the same. */
class MemoryStores implements ToolLoopStores {
  readonly runs: RunLog = new MemoryRunLog();
  readonly pending: PendingStore = new WakingPendingStore(new MemoryPendingStore(), this.runs, (work) => work());
}

/** In the place of a database, for the many specs that are about something else: a database each would take seconds, and its memory until the last has run. */
@Global()
@Module({
  providers: [
    { provide: ToolLoopStores, useClass: MemoryStores },
    { provide: RUN_OPTIONS, useValue: {} },
    RunEngine,
    { provide: DurableHealth, useFactory: () => new DurableHealth({ query: () => Promise.resolve([]) }) },
  ],
  exports: [ToolLoopStores, DurableHealth],
})
export class MemoryStorageModule {}
