import {
  type AuditEntry,
  type AuditHead,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryRunLog,
  ToolLoopStores,
} from '@toolloop/core/stores';
import type { Witness } from './witness.js';

/** The calls that a process makes by itself, and those that a run makes without a consequence. */
const OF_NO_CALL = new Set([
  'audit.head',
  'directives.work',
  'runs.keepsCallsOf',
  'runs.open',
  'runs.renew',
]);

class WitnessedAudit extends MemoryAuditStore {
  constructor(private readonly witness: Witness) {
    super();
  }

  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    return super.append(tenant, (head) => {
      const entry = build(head);
      this.witness.saw('audit', entry.kind, entry.declaredId ?? entry.calledId);
      return entry;
    });
  }
}

/** The stores in memory, each call of which is a line. */
export class WitnessedStores extends ToolLoopStores {
  /** Resolves once directives may be performed: beside a run, their order would be no order. */
  mayPerform: Promise<void> = Promise.resolve();
  override readonly audit: MemoryAuditStore;
  override readonly conversations: MemoryConversationStore;
  override readonly directives: MemoryDirectiveStore;
  override readonly journal: MemoryCallJournal;
  override readonly pending: MemoryPendingStore;
  override readonly runs: MemoryRunLog;
  override readonly transactions = undefined;

  constructor(private readonly witness: Witness) {
    super();
    this.audit = new WitnessedAudit(witness);
    this.conversations = this.witnessed('conversations', new MemoryConversationStore());
    this.directives = this.witnessed('directives', new MemoryDirectiveStore());
    this.journal = this.witnessed('journal', new MemoryCallJournal());
    this.pending = this.witnessed('pending', new MemoryPendingStore());
    this.runs = this.witnessed('runs', new MemoryRunLog());
  }

  private witnessed<Store extends object>(name: string, store: Store): Store {
    return new Proxy(store, {
      get: (target, member) => {
        const found: unknown = Reflect.get(target, member, target);
        if (typeof found !== 'function') return found;
        const call = `${name}.${String(member)}`;
        return (...args: readonly unknown[]): unknown => {
          const make = (): unknown => {
            if (!OF_NO_CALL.has(call)) this.witness.saw('store', call);
            return Reflect.apply(found, target, args);
          };
          return call === 'directives.acquire' ? this.mayPerform.then(make) : make();
        };
      },
    });
  }
}
