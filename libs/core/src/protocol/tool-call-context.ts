import type { LoggerService } from '@nestjs/common';
import type { RegisteredActor } from './register.js';

/** Who a run acts for and what the application gave it. The same for every call of the run. */
export interface RunContext<Actor = RegisteredActor> {
  readonly runId: string;
  /** Run ids from the root run to this one. Absent where this is no sub-run. */
  readonly path?: readonly string[];
  readonly actor: Actor;
  readonly tenant: string;
  /** What the application passed as `context`; never part of a tool's arguments. */
  readonly context: Readonly<Record<string, unknown>>;
  /** Shared by the calls of a run. A sub-run begins with a copy of its own. */
  readonly state: Map<string, unknown>;
}

/** What a tool receives beside its input, through `@ToolContext()`. */
export interface ToolCallContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** From 1. */
  readonly step: number;
  readonly toolCallId: string;
  /** Aborted when the run is cancelled or the call's time is up. Pass it on to whatever waits. */
  readonly signal: AbortSignal;
  /** When the call's time is up. */
  readonly deadline: Date;
  /** The same for every attempt of this call; hand it to systems that perform a thing once per key. */
  readonly idempotencyKey: string;
  readonly logger: LoggerService;
  /** Emits a `tool-progress` event with this value, as JSON. */
  progress(value: unknown): void;
  /**
   * Turns an opaque connection id into a credential, for the duration of this call. Rejects when policy does not let the tool use it, when the call is over,
   * and when no `ConnectionBroker` is bound.
   */
  connection(id: string): Promise<Credential>;
  /**
   * For a tool that changes things in the application's own database, beside `idempotent: true`: runs `work` as one transaction of that database, in which the call
   * is marked as done. A call that is made again after a crash gets what `work` returned, as JSON
   * that a model would read (a date as its text, a bigint as its digits, a map as an object; an instance of a class is refused), and nothing is done a second time; where its tool may not be
   * called again, what `work` returned is the result of the call. One for each call; await nothing remote in it. Absent where the application has no such database (`DurableModule`), and for tools that only read.
   */
  readonly transaction?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

/**
 * What a `ConnectionBroker` hands out. A tool reads `token` while its call goes on; afterwards it throws. It prints as `[secret]`, and where a tool says the
 * token itself, in a result, an error or its log, `[secret]` is what is read.
 */
export interface Credential {
  readonly connectionId: string;
  readonly token: string;
  readonly expiresAt?: Date;
}

/** The port that turns a connection id into a credential for one tenant and actor. Throws when it is not theirs. */
export abstract class ConnectionBroker {
  abstract resolve(connectionId: string, context: ToolCallContext): Promise<Credential>;
}
