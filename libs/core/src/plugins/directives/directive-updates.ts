import type { LoopEventBody } from '@toolloop/protocol';
import type { Subscription } from 'rxjs';
import type { ExecutionScope } from '../../call/call.js';
import type { DirectiveEvent, DirectiveStore } from '../../contracts/directive.js';

/** Reports changes of directives to the runs that requested them, until they end. */
export class DirectiveUpdates {
  private readonly runs = new Map<string, FollowingRun>();
  private subscription: Subscription | undefined;

  constructor(private readonly store: DirectiveStore) {}

  /**
   * The scope of a call whose request is followed from the moment it is told, until the run
   * forgets.
   */
  following(scope: ExecutionScope): ExecutionScope {
    const emit: ExecutionScope['emit'] = (event) => {
      if (event.type === 'directive-request') this.follow(event, scope);
      return scope.emit(event);
    };
    return { ...scope, emit };
  }

  forget(runId: string): void {
    if (this.runs.size === 0) return; // as after most calls: looking for a new id means to hash it
    if (!this.runs.delete(runId) || this.runs.size > 0) return;
    this.subscription?.unsubscribe();
    this.subscription = undefined;
  }

  private follow(requested: Requested, scope: ExecutionScope): void {
    const { runId } = scope.run;
    this.subscription ??= this.store.changes$.subscribe((event) => this.tell(event));
    const run = this.runs.get(runId) ?? {
      emit: (event) => scope.emit(event),
      requests: new Map<string, Requested>(),
    };
    this.runs.set(runId, run);
    run.requests.set(requested.directive.directiveId, requested);
  }

  private tell({ directiveId, event, status }: DirectiveEvent): void {
    for (const { emit, requests } of this.runs.values()) {
      const requested = requests.get(directiveId);
      if (requested)
        void emit({
          type: 'directive-update',
          step: requested.step,
          event,
          directive: { ...requested.directive, status },
        });
    }
  }
}

type Requested = Extract<LoopEventBody, { readonly type: 'directive-request' }>;

/** A run that requested directives and has not ended. */
interface FollowingRun {
  readonly emit: ExecutionScope['emit'];
  /** The requested directives, by their ids. */
  readonly requests: Map<string, Requested>;
}
