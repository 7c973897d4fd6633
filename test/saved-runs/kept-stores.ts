import {
  type ConversationKey,
  type JournalStart,
  type LeftInput,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryRunLog,
  MemoryUsageStore,
  ToolLoopStores,
  type UsageBatch,
} from '@toolloop/core/stores';
import { WakingPendingStore } from '@toolloop/durable';

/** What was written under keys that no store lists. */
export interface Written {
  readonly calls: JournalStart[];
  readonly turns: { readonly key: ConversationKey; readonly runId?: string }[];
  readonly left: { readonly key: ConversationKey; readonly input: LeftInput }[];
  readonly usage: UsageBatch[];
}

/** The methods whose arguments are noted. */
const NOTED: Readonly<Record<string, (written: Written, args: readonly unknown[]) => void>> = {
  'journal.acquire': ({ calls }, [start]) => void calls.push(start as JournalStart),
  'conversations.append': ({ turns }, [key, , runId]) =>
    void turns.push({
      key: key as ConversationKey,
      ...(typeof runId === 'string' && { runId }),
    }),
  'conversations.leave': ({ left }, [key, input]) =>
    void left.push({ key: key as ConversationKey, input: input as LeftInput }),
  'usage.add': ({ usage }, [batch]) => void usage.push(batch as UsageBatch),
};

/**
 * The stores in memory of one process. They note the keys under which something was written, and
 * tell of each call once it has been made: there a process may die.
 */
export class KeptStores extends ToolLoopStores {
  readonly written: Written = { calls: [], turns: [], left: [], usage: [] };
  /** Called behind each call, before its caller is told. */
  made?: (call: string) => Promise<void> | undefined;
  override readonly audit = this.noted('audit', new MemoryAuditStore());
  override readonly conversations = this.noted('conversations', new MemoryConversationStore());
  override readonly directives = this.noted('directives', new MemoryDirectiveStore());
  override readonly journal = this.noted('journal', new MemoryCallJournal());
  override readonly runs = this.noted('runs', new MemoryRunLog());
  override readonly pending = this.noted(
    'pending',
    new WakingPendingStore(new MemoryPendingStore(), this.runs, (work) => work()),
  );
  override readonly usage = this.noted('usage', new MemoryUsageStore());
  override readonly transactions = undefined;

  private noted<Store extends object>(name: string, store: Store): Store {
    return new Proxy(store, {
      get: (target, member) => {
        const found: unknown = Reflect.get(target, member, target);
        if (typeof found !== 'function') return found;
        const call = `${name}.${String(member)}`;
        return (...args: readonly unknown[]): unknown => {
          NOTED[call]?.(this.written, args);
          const answer: unknown = Reflect.apply(found, target, args);
          return answer instanceof Promise ? this.behind(call, answer) : answer;
        };
      },
    });
  }

  private async behind(call: string, answer: Promise<unknown>): Promise<unknown> {
    const given = await answer;
    await this.made?.(call);
    return given;
  }
}
