import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { BoundedStores } from '../../execution/bounded.stores.js';
import type { ExecutionScope } from '../../execution/execution.scope.js';
import type { DirectiveStore, DirectiveEvent } from '../../protocol/directive.js';
import type { LoopEventBody } from '../../protocol/loop-event.js';

type Requested = Extract<LoopEventBody, { readonly type: 'directive-request' }>;

/** A run that asked for directives and still goes on. */
interface FollowingRun {
  readonly emit: ExecutionScope['emit'];
  /** By the directive's id. */
  readonly requests: Map<string, Requested>;
}

/** Tells runs that still go on what becomes of the directives they asked for. */
@Injectable()
export class DirectiveUpdates implements OnModuleDestroy {
  private readonly runs = new Map<string, FollowingRun>();
  private readonly store: DirectiveStore;
  private subscription: Subscription | undefined;

  constructor(stores: BoundedStores) {
    this.store = stores.directives;
  }

  /** The scope of a call whose request is followed from the moment it is told, until the run forgets. */
  following(scope: ExecutionScope): ExecutionScope {
    const emit: ExecutionScope['emit'] = (event) => {
      if (event.type === 'directive-request') this.follow(event, scope);
      return scope.emit(event);
    };
    return { ...scope, emit };
  }

  forget(runId: string): void {
    this.runs.delete(runId);
  }

  onModuleDestroy(): void {
    this.subscription?.unsubscribe();
  }

  private follow(requested: Requested, scope: ExecutionScope): void {
    const { runId } = scope.run;
    this.subscription ??= this.store.changes$.subscribe((event) => this.tell(event));
    const run = this.runs.get(runId) ?? { emit: (event) => scope.emit(event), requests: new Map<string, Requested>() };
    this.runs.set(runId, run);
    run.requests.set(requested.directive.directiveId, requested);
  }

  private tell({ directiveId, event, status }: DirectiveEvent): void {
    for (const { emit, requests } of this.runs.values()) {
      const requested = requests.get(directiveId);
      if (requested) void emit({ type: 'directive-update', step: requested.step, event, directive: { ...requested.directive, status } });
    }
  }
}
