import type { LoggerService } from '@nestjs/common';
import type { RegisteredActor } from './register.js';

/** Whom a run acts for and what the application gave it. The same for every call of the run. */
export interface RunContext<Actor = RegisteredActor> {
  readonly runId: string;
  /** Run ids from the root run to this one. Absent if this is not a sub-run. */
  readonly path?: readonly string[];
  readonly actor: Actor;
  readonly tenant: string;
  /** What the application passed as `context`; never part of a tool's arguments. */
  readonly context: Readonly<Record<string, unknown>>;
  /** Shared by the calls of a run. A sub-run starts with its own copy. */
  readonly state: Map<string, unknown>;
}

/** What a tool receives in addition to its input, through `@ToolContext()`. */
export interface ToolCallContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** Starts at 1. */
  readonly step: number;
  readonly toolCallId: string;
  /** Aborted when the run is cancelled or the call's time is up. Pass it to everything that waits. */
  readonly signal: AbortSignal;
  /** When the call's time is up. */
  readonly deadline: Date;
  /** The same for every attempt of this call; pass it to systems that accept idempotency keys. */
  readonly idempotencyKey: string;
  readonly logger: LoggerService;
  /** Emits a `tool-progress` event with this value, as JSON. */
  progress(value: unknown): void;
  /**
   * Turns an opaque connection id into a credential, for the duration of this call. Rejects if policy does not let the tool use it, if the call is over,
   * or if no `ConnectionBroker` is bound.
   */
  connection(id: string): Promise<Credential>;
  /**
   * For a tool that changes things in the application's own database: runs `work` in one transaction of that database, which also marks the call as done. If
   * the process dies afterwards, nothing is done a second time. A tool with `idempotent: true` is called again and gets what `work` returned, as the JSON that a
   * model would read (a date as its text, a bigint as its digits, a map as an object; an instance of a class is refused); for any other tool it is the result of
   * the call. Use it once per call, and do not await anything remote in it. Absent if the application has no such database (`DurableModule`), and for tools
   * that only read.
   */
  readonly transaction?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

/**
 * What a `ConnectionBroker` hands out. `token` can be read only during the call; afterwards it throws. The credential prints as `[secret]`, and if the token
 * appears in the tool's result, error or log, it is replaced by `[secret]`.
 */
export interface Credential {
  readonly connectionId: string;
  readonly token: string;
  readonly expiresAt?: Date;
}

/** The port that turns a connection id into a credential for one tenant and actor. Throws if it is not theirs. */
export abstract class ConnectionBroker {
  abstract resolve(connectionId: string, context: ToolCallContext): Promise<Credential>;
}
