import {
  MemoryAccountStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryPolicyStore,
  MemoryRunLog,
  MemoryUsageStore,
  ToolLoopStores,
  type UsageBatch,
  type UsageIncrement,
} from '@toolloop/core/stores';
import { keyIncrement, sumOf } from '../../libs/core/src/plugins/usage/usage-ledger.js';
import { snapshot } from './steady.js';

const USAGE = 'usage.add';

/** One call of a store: the port, its method, and a copy of the arguments as they were. */
export interface StoreCall {
  readonly call: string;
  readonly args: readonly unknown[];
}

/**
 * The stores in memory, each call of which is noted in its order. Only usage is told once and at
 * the end: a clock says when it is written, and in how many batches.
 */
export class RecordedStores extends ToolLoopStores {
  private readonly noted: StoreCall[] = [];
  private readonly batches: UsageBatch[] = [];
  private readonly names = new Map<unknown, string>();
  override readonly accounts = this.recorded('accounts', new MemoryAccountStore());
  override readonly audit = this.recorded('audit', new MemoryAuditStore());
  override readonly conversations = this.recorded('conversations', new MemoryConversationStore());
  override readonly directives = this.recorded('directives', new MemoryDirectiveStore());
  override readonly journal = this.recorded('journal', new MemoryCallJournal());
  override readonly pending = this.recorded('pending', new MemoryPendingStore());
  override readonly policies = this.recorded('policies', new MemoryPolicyStore());
  override readonly runs = this.recorded('runs', new MemoryRunLog());
  override readonly usage = this.recorded('usage', new NotedUsage(this.batches));
  override readonly transactions = undefined;

  get calls(): readonly StoreCall[] {
    const others = this.noted.filter(({ call }) => call !== USAGE);
    const tenants = [...new Set(this.batches.map(({ tenant }) => tenant))];
    return [...others, ...tenants.map((tenant) => this.usageOf(tenant))];
  }

  private usageOf(tenant: string): StoreCall {
    const [first, ...more] = this.batches.filter((batch) => batch.tenant === tenant);
    const uses = [first, ...more].flatMap((batch) => batch?.increments ?? []);
    return { call: USAGE, args: [snapshot({ ...first, increments: summed(uses) })] };
  }

  private recorded<Store extends object>(name: string, store: Store): Store {
    const recorded = new Proxy(store, {
      get: (target, member) => {
        const found: unknown = Reflect.get(target, member, target);
        if (typeof found !== 'function') return found;
        return (...args: readonly unknown[]): unknown => {
          this.noted.push({
            call: `${name}.${String(member)}`,
            args: args.map((arg) => this.copyOf(arg)),
          });
          return Reflect.apply(found, target, args);
        };
      },
    });
    this.names.set(recorded, `<${name}>`);
    return recorded;
  }

  /** A copy of an argument; a store is told by its name, since it may keep records as it likes. */
  private copyOf(arg: unknown): unknown {
    return this.names.get(arg) ?? snapshot(arg);
  }
}

class NotedUsage extends MemoryUsageStore {
  constructor(private readonly batches: UsageBatch[]) {
    super();
  }

  override add(batch: UsageBatch): Promise<readonly number[]> {
    this.batches.push(batch);
    return super.add(batch);
  }
}

function summed(uses: readonly UsageIncrement[]): readonly UsageIncrement[] {
  const sums = new Map<string, UsageIncrement>();
  for (const use of uses) {
    const known = sums.get(keyIncrement(use));
    sums.set(keyIncrement(use), known ? sumOf(known, use) : use);
  }
  return [...sums.values()];
}
