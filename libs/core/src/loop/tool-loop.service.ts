import type { Observable } from 'rxjs';
import type { LoopEvent } from '../protocol/loop-event.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest, ResumeRequest } from '../protocol/loop-request.js';
import type { LoopResult } from '../protocol/loop-result.js';
import type { RegisteredActor } from '../protocol/register.js';
import type { RunHandle } from '../protocol/run-handle.js';
import type { ToolSpec } from '../protocol/tool.js';
import type { RunOpener } from './run.opener.js';
import type { ListingRequest } from './run.preparation.js';

/**
 * Runs the loop: hand it a prompt, and whom it acts for. A request that cannot be run is refused at once, by an `InvalidRequestError` or a
 * `ConfigurationError`. `@InjectToolLoop('support')` gives the one of a named loop, whose runs have its profile's options.
 */
export class ToolLoopService<Actor = RegisteredActor> {
  constructor(
    private readonly runs: RunOpener,
    private readonly profile: LoopProfile,
    private readonly name?: string,
  ) {}

  /** A run that starts when it is first read. */
  open<Output = unknown>(request: LoopRequest<Output, Actor>): RunHandle<Output> {
    const { profile, name } = this;
    return this.runs.open(request, { profile, ...(name !== undefined && { name }) });
  }

  /** Runs to the end. Rejects with a `RunError`, which carries the partial result, for `error` and `aborted`. */
  async run<Output = unknown>(request: LoopRequest<Output, Actor>): Promise<LoopResult<Output>> {
    return this.open(request).result;
  }

  /** The events of a run, which starts with its one subscription. Unsubscribing aborts it. */
  stream(request: LoopRequest<unknown, Actor>): Observable<LoopEvent> {
    return this.open(request).events$;
  }

  /**
   * Goes on with a run that ended as `waiting`, in the name of the same actor: calls that were approved are made, those that were denied are told to the
   * model, and it waits again for those that nobody answered. Rejects with an `InvalidRequestError` (`unknown_run`) when it is not this actor's to resume. Of two
   * who read their runs at once one goes on; the other's `result` rejects with the same, its `events$` errors, and nothing is told of it.
   */
  resume<Output = unknown>(runId: string, request: ResumeRequest<Output, Actor>): Promise<RunHandle<Output>> {
    return this.runs.resume(runId, request, this.profile);
  }

  /** The tools a run of this actor would start with. Rejects with what `open` would throw. */
  list(request: ListingRequest<Actor>): Promise<readonly ToolSpec[]> {
    return this.runs.list(request, this.profile);
  }
}
