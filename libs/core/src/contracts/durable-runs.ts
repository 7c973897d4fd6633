import type { LoopProfile, LoopRequest, RunHandle } from './loop-request.js';
import type { RunRecord } from './run-log.js';

/**
 * The port behind `durable: true`: opens runs that outlive their process. `@toolloop/durable` binds
 * it.
 *
 * @example
 * const runId = await this.runs.start({ prompt, actor, tenant }, 'support');
 */
export abstract class DurableRuns {
  /**
   * Takes up the runs that wait for a process. It is called once the application's tools and
   * policies are there: before, a run would be found impossible to continue.
   */
  abstract begin(): Promise<void>;
  /**
   * Opens a run that this process begins and any other can continue.
   *
   * @throws {InvalidRequestError} For a request that no other process could continue.
   */
  abstract open<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    loop: NamedProfile,
  ): RunHandle<Output>;
  /**
   * Adds a run for any process with room, once for a request id; resolves to its id. Rejects where
   * `open` throws.
   */
  abstract start<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    loop?: string,
  ): Promise<string>;
  /**
   * Adds a run that begins where another one stood after a step, once for a request id; resolves to
   * its id.
   */
  abstract fork(run: RunRecord, step: number, requestId?: string): Promise<string>;
  /**
   * Adds a rehearsal that begins where another run began, with a model by its name; resolves to its
   * id. No one is asked about its changes, so that none is performed.
   */
  abstract rehearse(run: RunRecord, model: string): Promise<string>;
}

/**
 * The options that hold for a run, by the name of its loop; without one for those of
 * `ToolLoopService` itself.
 */
export interface NamedProfile {
  readonly name?: string;
  readonly profile: LoopProfile;
}
