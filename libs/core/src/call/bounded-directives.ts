import type { Observable } from 'rxjs';
import { DirectiveStore } from '../contracts/directive.js';
import type {
  AddedDirective,
  DirectiveChange,
  DirectiveEvent,
  DirectiveHold,
  DirectiveIntent,
  DirectiveQuery,
  DirectiveRecord,
  DirectiveReference,
  DirectiveVersion,
  LeasedDirective,
  StopWork,
} from '../contracts/directive.js';
import type { LeaseRequest } from '../contracts/lease.js';
import { asPart, askStore, outsideOfRuns, tellStore } from './store-calls.js';

function rethrown(error: unknown, thrown: unknown[]): never {
  thrown.push(error);
  throw error;
}

/**
 * Bounds the store of directives. What it hands out is performed outside of the run that asked for
 * it.
 */
export class BoundedDirectives extends DirectiveStore {
  constructor(private readonly store: DirectiveStore) {
    super();
  }

  override get changes$(): Observable<DirectiveEvent> {
    return this.store.changes$;
  }

  /**
   * The one that an attempt without an answer kept has the id. `first` is undone with an attempt
   * that kept nothing, and its error is its own.
   */
  override add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective> {
    const thrown: unknown[] = [];
    const given = async (): Promise<void> =>
      first?.().catch((error: unknown) => rethrown(error, thrown));
    const isAnswer = (error: unknown): boolean => thrown.includes(error);
    return tellStore(
      'A directive',
      async (attempt) => {
        const known = attempt > 1 ? await this.store.find(intent) : undefined;
        return known
          ? { record: known, isNew: false }
          : this.store.add(intent, first && (() => asPart(given)));
      },
      isAnswer,
    );
  }

  override find(reference: DirectiveReference): Promise<DirectiveRecord | undefined> {
    return askStore(() => this.store.find(reference));
  }

  override list(query: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    return askStore(() => this.store.list(query));
  }

  /** The same owner gets its lease again. One that comes after the caller has left expires. */
  override acquire(
    reference: DirectiveReference,
    request: LeaseRequest,
  ): Promise<LeasedDirective | undefined> {
    return askStore(() => this.store.acquire(reference, request));
  }

  override renew(hold: DirectiveHold, forMs: number): Promise<boolean> {
    return askStore(() => this.store.renew(hold, forMs));
  }

  /** Changes a directive from one epoch and state; only their holder can. */
  override change(
    from: DirectiveVersion,
    change: DirectiveChange,
  ): Promise<DirectiveRecord | undefined> {
    return tellStore('The state of a directive', async (attempt) => {
      const changed = await this.store.change(from, change);
      if (changed || attempt === 1) return changed;
      const known = await this.store.find(from);
      return known?.status === change.status && known.epoch === from.epoch ? known : undefined;
    });
  }

  override work(
    perform: (reference: DirectiveReference) => Promise<void>,
    concurrency: number,
  ): Promise<StopWork> {
    return this.store.work((reference) => outsideOfRuns(() => perform(reference)), concurrency);
  }
}
