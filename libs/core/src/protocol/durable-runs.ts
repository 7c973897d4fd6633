import type { LoopProfile } from './loop-profile.js';
import type { LoopRequest } from './loop-request.js';
import type { RunHandle } from './run-handle.js';

/** The options that hold for a run, by the name of its loop; without one for those of `ToolLoopService` itself. */
export interface NamedProfile {
  readonly name?: string;
  readonly profile: LoopProfile;
}

/** The port behind `durable: true`: opens runs that outlive their process. `@toolloop/durable` binds it. */
export abstract class DurableRuns {
  /** Throws `InvalidRequestError` for a request that no other process could go on with. */
  abstract open<Output, Actor>(request: LoopRequest<Output, Actor>, loop: NamedProfile): RunHandle<Output>;
}
