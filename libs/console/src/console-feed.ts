import { Injectable, type MessageEvent } from '@nestjs/common';
import { ActorIdentity, BoundedStores } from '@toolloop/core/internal';
import type { Caller } from '@toolloop/http';
import { type LoopEvent, LoopEventSink, type RunIdentity } from '@toolloop/protocol';
import { auditTime, filter, interval, map, merge, type Observable, Subject } from 'rxjs';

/**
 * Tells open consoles that what waits, or the list of runs, has changed in this process. A notice
 * has no content, so that it cannot show anyone too much; of runs only their actor is told. Of
 * answers the store tells as well: a run that is not durable says nothing of one before it is
 * resumed, and of a withdrawal nothing at all.
 */
@Injectable()
export class ConsoleFeed extends LoopEventSink {
  private readonly notices = new Subject<Notice>();

  constructor(
    private readonly identity: ActorIdentity,
    private readonly stores: BoundedStores,
  ) {
    super();
  }

  override write({ type }: LoopEvent, { tenant, actorId }: RunIdentity): void {
    const kind = KINDS[type];
    if (kind && this.notices.observed)
      this.notices.next({ kind, tenant, ...(actorId !== undefined && { actorId }) });
  }

  /** The notices for one person. */
  read({ actor, tenant }: Caller): Observable<MessageEvent> {
    const actorId = this.identity.idOf(actor);
    const answers = this.stores.answered$.pipe(
      map(({ binding }): Notice => ({ kind: 'inbox', tenant: binding.tenant })),
    );
    const own = merge(this.notices, answers).pipe(filter((notice) => notice.tenant === tenant));
    const inbox = own.pipe(filter(({ kind }) => kind === 'inbox'));
    const runs = own.pipe(filter((notice) => notice.kind === 'runs' && notice.actorId === actorId));
    const told = merge(inbox.pipe(auditTime(QUIET_MS)), runs.pipe(auditTime(QUIET_MS)));
    return merge(
      told.pipe(map(({ kind }) => ({ data: kind }))),
      interval(KEEP_ALIVE_MS).pipe(map(() => ({ data: 'alive' }))),
    );
  }
}

/** The notice that something has changed, without saying what: the page asks for what it shows. */
interface Notice {
  readonly kind: 'inbox' | 'runs';
  readonly tenant: string;
  readonly actorId?: string;
}

/** The kinds of events after which a list of the console is another. */
const KINDS: Readonly<Partial<Record<LoopEvent['type'], Notice['kind']>>> = {
  'run-start': 'runs',
  'run-end': 'runs',
  'approval-request': 'inbox',
  'approval-decision': 'inbox',
  'pending-request': 'inbox',
  'pending-answer': 'inbox',
};

/** Notices of one kind within this time are one. */
const QUIET_MS = 250;
const KEEP_ALIVE_MS = 25_000;
