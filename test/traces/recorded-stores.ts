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
} from '@toolloop/core/stores';
import { snapshot } from './steady.js';

/** One call of a store: the port, its method, and a copy of the arguments as they were. */
export interface StoreCall {
  readonly call: string;
  readonly args: readonly unknown[];
}

/** The stores in memory, each call of which is noted in its order. */
export class RecordedStores extends ToolLoopStores {
  readonly calls: StoreCall[] = [];
  private readonly names = new Map<unknown, string>();
  override readonly accounts = this.recorded('accounts', new MemoryAccountStore());
  override readonly audit = this.recorded('audit', new MemoryAuditStore());
  override readonly conversations = this.recorded('conversations', new MemoryConversationStore());
  override readonly directives = this.recorded('directives', new MemoryDirectiveStore());
  override readonly journal = this.recorded('journal', new MemoryCallJournal());
  override readonly pending = this.recorded('pending', new MemoryPendingStore());
  override readonly policies = this.recorded('policies', new MemoryPolicyStore());
  override readonly runs = this.recorded('runs', new MemoryRunLog());
  override readonly usage = this.recorded('usage', new MemoryUsageStore());
  override readonly transactions = undefined;

  private recorded<Store extends object>(name: string, store: Store): Store {
    const recorded = new Proxy(store, {
      get: (target, member) => {
        const found: unknown = Reflect.get(target, member, target);
        if (typeof found !== 'function') return found;
        return (...args: readonly unknown[]): unknown => {
          this.calls.push({
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
