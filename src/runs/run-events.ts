import { HttpException, HttpStatus, Injectable, type MessageEvent, type OnModuleDestroy } from '@nestjs/common';
import { farewell, type LoopRequest } from '@toolloop/core';
import { RunService, type RunReader } from '@toolloop/durable';
import { toSse } from '@toolloop/ui-stream';
import { ReplaySubject, takeUntil, type Observable } from 'rxjs';
import type { User } from '../identity/user.js';

/** Tells those who only watch that the desk closes: they come back to another process, and miss nothing. */
@Injectable()
export class Closing implements OnModuleDestroy {
  private readonly told = new ReplaySubject<void>(1);
  readonly closed$: Observable<void> = this.told;

  async onModuleDestroy(): Promise<void> {
    const isWatched = this.told.observed;
    this.told.next();
    this.told.complete();
    if (isWatched) await farewell();
  }
}

/** What a client of durable runs watches. */
@Injectable()
export class RunEvents {
  constructor(
    private readonly runs: RunService<User>,
    private readonly closing: Closing,
  ) {}

  /** Those of the run of a request: asked again with the same request id, of the same run. */
  async begin(request: LoopRequest<unknown, User>): Promise<Observable<MessageEvent>> {
    return this.follow(await this.runs.start(request), request, 0);
  }

  /** The run's events behind `after`, until it has ended. For a run that is not the reader's it fails before anything is sent, however long the look-up takes. */
  async follow(runId: string, reader: RunReader<User>, after: number): Promise<Observable<MessageEvent>> {
    await this.runs.get(runId, reader);
    return this.events(runId, reader, after);
  }

  /** The same for a client that connects again. An `EventSource` does so after the last event too, unless it is told by a 204 that there is no more. */
  async followAgain(runId: string, reader: RunReader<User>, lastEventId: number): Promise<Observable<MessageEvent>> {
    const { status, lastSequence } = await this.runs.get(runId, reader);
    if (status === 'ended' && lastEventId >= lastSequence) throw new HttpException('The run is over.', HttpStatus.NO_CONTENT);
    return this.events(runId, reader, lastEventId);
  }

  private events(runId: string, reader: RunReader<User>, after: number): Observable<MessageEvent> {
    return this.runs.watch(runId, reader, after).pipe(takeUntil(this.closing.closed$), toSse());
  }
}
