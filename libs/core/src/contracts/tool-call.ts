import type { LoggerService } from '@nestjs/common';
import { type JsonValue, recogniseCopies } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { AttachedResult } from './attachment.js';
import type { Credential } from './connection-broker.js';
import type { RegisteredActor } from './registered-actor.js';

/** Whom a run acts for and what the application gave it. The same for every call of the run. */
export interface RunContext<Actor = RegisteredActor> {
  readonly runId: string;
  /** Run ids from the root run to this one. Absent if this is not a sub-run. */
  readonly path?: readonly string[];
  /** The id of the session whose call this is. Absent outside of sessions. */
  readonly sessionId?: string;
  readonly actor: Actor;
  readonly tenant: string;
  /** The value that the application passed as `context`; never part of a tool's arguments. */
  readonly context: Readonly<Record<string, unknown>>;
  /** Shared by the calls of a run. A sub-run starts with its own copy. */
  readonly state: Map<string, unknown>;
}

/**
 * A question to the actor of a run, or to those whom the policy names; see `context.ask` and
 * `questions` of `@LlmTool`.
 */
export interface Question {
  /**
   * Names the question in its call: asking again under the same key and with the same schema gives
   * the answer that is there. In `questions` it is the name of an argument.
   */
  readonly key: string;
  readonly question: string;
  /**
   * The form of the answer: a string, number, integer, boolean or enum, `format: 'date'`, an array
   * of choices (`items: { enum }`), or an object of up to eight such fields.
   */
  readonly schema: JSONSchema7;
  /** The author of the words: people are shown it. @default 'tool' */
  readonly askedBy?: 'tool' | 'model';
}

/** The second input of a tool, which `@ToolContext()` injects. */
export interface ToolCallContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** Starts at 1. */
  readonly step: number;
  readonly toolCallId: string;
  /**
   * Aborted when the run is cancelled or the call's time is up. Pass it to everything that waits.
   */
  readonly signal: AbortSignal;
  /** When the call's time is up. */
  readonly deadline: Date;
  /** The same for every attempt of this call; pass it to systems that accept idempotency keys. */
  readonly idempotencyKey: string;
  readonly logger: LoggerService;
  /** Emits a `tool-progress` event with this value, as JSON. */
  progress(value: unknown): void;
  /**
   * Asks the actor of the run, or the people whom `questions` of the policy names, and resolves to
   * an answer that fits the schema; for tools that only read: any other declares `questions`. Where
   * there is no answer yet the attempt ends here, the run waits, and the method is called again
   * from its top once there is one: do nothing before it that must not be done twice. The wait does
   * not count as the tool's time.
   *
   * @throws {ToolError} Where the question was declined, or not answered within a day, and for a
   *   question that cannot be asked.
   */
  ask(question: Question): Promise<JsonValue>;
  /**
   * Withdraws what another run of the same conversation asked and what still waits for its answer,
   * in the name of the actor, whose act it is.
   *
   * @throws {ToolError} Where nothing of the kind waits there, and once the run has read what
   *   others wrote: they may have had it withdrawn.
   */
  withdraw(id: string, reason?: string): Promise<void>;
  /**
   * Turns an opaque connection id into a credential, for the duration of this call. Rejects if
   * policy does not let the tool use it, if the call is over, or if no `ConnectionBroker` is bound.
   */
  connection(id: string): Promise<Credential>;
  /**
   * For a tool that changes things in the application's own database: runs `work` in one
   * transaction of that database, which also marks the call as done. If the process dies
   * afterwards, nothing is done a second time. A tool with `idempotent: true` is called again and
   * gets what `work` returned, as the JSON that a model would read (a date as its text, a bigint as
   * its digits, a map as an object; an instance of a class is refused); for any other tool it is
   * the result of the call. Use it once per call, and do not await anything remote in it. Absent if
   * the application has no such database (`DurableModule`), and for tools that only read.
   */
  readonly transaction?: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

recogniseCopies('AttachedResult', AttachedResult);
