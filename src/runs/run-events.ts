import { HttpException, HttpStatus, Injectable, type MessageEvent } from '@nestjs/common';
import type { LoopRequest } from '@toolloop/core';
import { type RunReader, RunService } from '@toolloop/core/runs';
import { toSse } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import type { User } from '../identity/user.js';

/** The events of durable runs, for a client that watches. */
@Injectable()
export class RunEvents {
  constructor(private readonly runs: RunService<User>) {}

  /** Starts the run of a request and follows it. The same request id leads to the same run. */
  async begin(request: LoopRequest<unknown, User>): Promise<Observable<MessageEvent>> {
    return this.follow(await this.runs.start(request), request, 0);
  }

  /** Shows the events after a sequence, until the run has ended. For a run that is not the reader's it fails before anything is sent. */
  async follow(runId: string, reader: RunReader<User>, after: number): Promise<Observable<MessageEvent>> {
    await this.runs.get(runId, reader);
    return this.runs.events(runId, reader, after).pipe(toSse());
  }

  /** Does the same for a client that connects again. An `EventSource` does so after the last event too, unless a 204 tells it that there is no more. */
  async followAgain(runId: string, reader: RunReader<User>, lastEventId: number): Promise<Observable<MessageEvent>> {
    const { status, lastSequence } = await this.runs.get(runId, reader);
    if (status === 'ended' && lastEventId >= lastSequence) throw new HttpException('The run is over.', HttpStatus.NO_CONTENT);
    return this.runs.events(runId, reader, lastEventId).pipe(toSse());
  }
}
