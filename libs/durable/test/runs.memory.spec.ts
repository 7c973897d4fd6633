import { describe } from '@jest/globals';
import {
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  type ToolLoopStores,
} from '@toolloop/core/stores';
import { WakingPendingStore } from '@toolloop/durable';
import type { Kept } from './fixtures/desk.process.js';
import { pluginValuesSuite } from './plugin-values-suite.js';
import { policyReplaySuite } from './policy-replay-suite.js';
import { repeatedCallsSuite } from './repeated-calls-suite.js';
import { repeatedRunsSuite } from './repeated-runs-suite.js';
import { runsSuite } from './runs-suite.js';
import { unreadableRunsSuite } from './unreadable-runs-suite.js';

const runs = new MemoryRunLog();

class SharedStores implements ToolLoopStores {
  readonly pending = new WakingPendingStore(new MemoryPendingStore(), runs, (work) => work());
  readonly journal = new MemoryCallJournal();
}

const kept: Kept = { runs, stores: new SharedStores(), close: () => Promise.resolve() };

runsSuite('in memory', () => Promise.resolve(kept), describe, { transactions: false });
repeatedCallsSuite('in memory', () => Promise.resolve(kept), describe);
repeatedRunsSuite('in memory', () => Promise.resolve(kept), describe);
unreadableRunsSuite('in memory', () => Promise.resolve(kept), describe);
policyReplaySuite('in memory', () => Promise.resolve(kept), describe);
pluginValuesSuite('in memory', () => Promise.resolve(kept), describe);
