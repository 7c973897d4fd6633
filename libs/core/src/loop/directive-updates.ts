import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { LoopEventBody } from '@toolloop/protocol';
import type { Subscription } from 'rxjs';
import type { DirectiveEvent, DirectiveStore } from '../contracts/directive.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import type { ExecutionScope } from '../execution/call.js';

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

/** How a lease is kept. Times are milliseconds. */
interface LeaseTerms {
  readonly everyMs: number;
  /** Whoever has not ended by then has hung, and loses it. */
  readonly mostMs: number;
}

/** Tells again and again that somebody is still at work, so that a short silence says that they are gone. It never keeps the process alive. */
export class HeldLease {
  private readonly since = Date.now();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** `false` once the lease is another holder's. */
    private readonly renew: () => Promise<boolean>,
    private readonly terms: LeaseTerms,
  ) {
    this.sleep();
  }

  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private sleep(): void {
    this.timer = setTimeout(() => void this.beat(), this.terms.everyMs).unref();
  }

  /** A store that fails once may answer the next time, and until then the lease has not run out. */
  private async beat(): Promise<void> {
    if (Date.now() - this.since >= this.terms.mostMs) return;
    const { timer } = this;
    const isHeld = await this.renew().catch(() => true);
    if (isHeld && this.timer === timer) this.sleep();
  }
}
