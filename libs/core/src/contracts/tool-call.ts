import { inspect } from 'node:util';
import type { LoggerService } from '@nestjs/common';
import { recogniseCopies, type JsonValue, type MediaPart } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { BOOLEAN, defineOptions, NOT_NEGATIVE, oneOf } from '../findings/options.js';

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

/**
 * A credential that a `ConnectionBroker` returned. `token` can be read only during the call;
 * afterwards it throws. The credential prints as `[secret]`, and if the token appears in the tool's
 * result, error or log, it is replaced by `[secret]`.
 */
export interface Credential {
  readonly connectionId: string;
  readonly token: string;
  readonly expiresAt?: Date;
}

/**
 * The port that turns a connection id into a credential for one tenant and actor. Throws if it is
 * not theirs.
 *
 * @example
 * class VaultBroker extends ConnectionBroker {
 *   async resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
 *     return { connectionId, token: await this.vault.read(tenant, connectionId) };
 *   }
 * }
 */
export abstract class ConnectionBroker {
  abstract resolve(connectionId: string, context: ToolCallContext): Promise<Credential>;
}

/**
 * Options for executing and reporting a call. Set for the application, a provider, a tool or a run,
 * each of which may leave options out; in that order, the later wins.
 */
export interface ExecutionOptions {
  /**
   * Checks the arguments against their schema and with class-validator. `false` is for tools that
   * check for themselves: they receive whatever JSON object the model sent, with the schema's
   * defaults filled in. Size, JSON, reserved names, guards, pipes and the check of the result
   * remain.
   * @default true
   */
  readonly validation: boolean;
  /**
   * Logs one line when a call is let in and one when it has ended: ids, duration, status and error
   * code, never a result. @default true
   */
  readonly logging: boolean;
  /** Adds the arguments to the first line, as the UI may see them. @default false */
  readonly logArguments: boolean;
  /** The most characters of each argument that are logged. @default 100 */
  readonly truncateLogs: number;
  /**
   * `inline` adds `_execution_metadata` to results that are JSON objects, for the model and the ui.
   * @default 'none'
   */
  readonly metadata: 'none' | 'inline';
  /**
   * `envelope` lets the model read `{ ok, type, result, human_readable? }`, or
   * `{ ok, type, errors }`; the ui reads the plain value. @default 'value'
   */
  readonly resultFormat: 'value' | 'envelope';
  /**
   * Adds `_availableOperations` to each entity in a result: the ids of the tools that can be called
   * on it now. Only the model reads it, and only if all of it fits into `limits.resultBytes`. It
   * repeats what the list of tools says and costs tokens: use it for models that lose sight of that
   * list. @default false
   */
  readonly availableOperations: boolean;
}

/** The execution options of a provider or a tool. */
export interface ToolExecutionOptions extends Partial<ExecutionOptions> {
  /**
   * The tool validates, logs and words its results itself, and nothing of that is done for it,
   * whatever the application or the run says. @default false
   */
  readonly selfManaged?: boolean;
}

export const DEFAULT_EXECUTION: ExecutionOptions = {
  validation: true,
  logging: true,
  logArguments: false,
  truncateLogs: 100,
  metadata: 'none',
  resultFormat: 'value',
  availableOperations: false,
};

const EXECUTION_WORDING = {
  unknown: 'There is no execution option "*" here.',
  option: 'The execution option "*"',
};

export const EXECUTION_OPTIONS = defineOptions<Partial<ExecutionOptions>>(
  {
    validation: BOOLEAN,
    logging: BOOLEAN,
    logArguments: BOOLEAN,
    truncateLogs: NOT_NEGATIVE,
    metadata: oneOf('none', 'inline'),
    resultFormat: oneOf('value', 'envelope'),
    availableOperations: BOOLEAN,
  },
  {
    wording: EXECUTION_WORDING,
    elsewhere: {
      selfManaged: { remedy: 'Say it where the tool is declared: on the tool or its provider.' },
    },
  },
);

export const TOOL_EXECUTION_OPTIONS = defineOptions<ToolExecutionOptions>(
  { ...EXECUTION_OPTIONS.rules, selfManaged: BOOLEAN },
  { wording: EXECUTION_WORDING },
);

/**
 * The port that loads the actor, as of now, when a run or a directive continues without a request:
 * in another process, or days later. The present roles of the actor decide what is permitted. One
 * class that extends it, a provider of any module, is found at the start.
 *
 * @example
 * class Staff extends ActorDirectory<User> {
 *   find(actorId: string, tenant: string): Promise<User | undefined> {
 *     return this.users.findOne({ id: actorId, tenant });
 *   }
 * }
 */
export abstract class ActorDirectory<Actor = unknown> {
  /** Returns the actor; undefined for one who is not there any more, or not in that tenant. */
  abstract find(actorId: string, tenant: string): Promise<Actor | undefined>;
}

/**
 * The port that says which tenants there are. With one, whatever acts for a tenant that it does not
 * know is `forbidden`: a run ends before its model is asked, a session is not opened, a call and a
 * directive are refused. Without one, every name is the name of a tenant. Provide it in
 * `forRoot({ providers })` or in a global module.
 *
 * A yes is believed for 60 s in each process, a no is asked again each time, so that a new tenant
 * is served at once. A directory that fails or hangs is treated as a store that does: nothing is
 * run for a tenant that cannot be looked up.
 *
 * @example
 * class Tenants extends TenantDirectory {
 *   async exists(tenant: string): Promise<boolean> {
 *     return (await this.accounts.count({ tenant, closedAt: null })) > 0;
 *   }
 * }
 */
export abstract class TenantDirectory {
  /** Returns whether there is such a tenant, and it may use the application. */
  abstract exists(tenant: string): Promise<boolean>;
}

/**
 * Types the actor once for the whole application:
 *
 * ```ts no-run
 * declare module '@toolloop/core' { interface Register { actor: User } }
 * ```
 */
export interface Register {}

/** The actor's type: what {@link Register} says, else `unknown`. */
export type RegisteredActor = Register extends { actor: infer Actor } ? Actor : unknown;

const SHOWN = '[secret]';

/**
 * A value that prints as `[secret]` wherever something prints it: in JSON, logs, templates, results
 * and events. Only `reveal()` gives it.
 *
 * It is for what the application knows, such as a field of an entity or of the request's `context`.
 * A tool's input cannot hold one: what a model sends is in the transcript. An idempotency key
 * cannot either: all of them would be the same.
 */
export class Secret<Value> {
  readonly #value: Value;

  constructor(value: Value) {
    this.#value = value;
  }

  reveal(): Value {
    return this.#value;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [Symbol.toPrimitive](): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}

/**
 * An addition to a tool's result that the model can look at: an `https:` or `data:` URL, or bytes
 * with their type.
 */
export type Attachment =
  | MediaPart
  | {
      readonly type: 'image' | 'file';
      readonly data: Uint8Array;
      readonly mediaType: string;
      readonly name?: string;
    };

/** A result with images or files beside it; made by {@link attach}. */
export class AttachedResult<Value = unknown> {
  constructor(
    /** The value that is projected, and from which injection starts. */
    readonly value: Value,
    readonly attachments: readonly Attachment[],
    /** The answer in words, see {@link sourceAnswer}. */
    readonly words?: string,
  ) {}
}

recogniseCopies('AttachedResult', AttachedResult);

/**
 * Returns images and files beside a tool's value: `return attach(chart, { type: 'image', data: png,
 * mediaType: 'image/png' })`. The value is checked and projected as ever; the attachments go to the
 * model behind it, and into the record for the ui, whatever `output` or `reveal` say.
 *
 * At most 32 are taken, and `limits.attachmentBytes` of content in all. One that is too large, has
 * another scheme than `https:` or `data:`, or is no image where it says so is left out, and the
 * model reads that: the tool has done its work, and a request that a provider refuses would end the
 * run.
 */
export function attach<Value>(
  value: Value,
  ...attachments: readonly Attachment[]
): AttachedResult<Value> {
  return new AttachedResult(value, attachments);
}

/**
 * An answer that was given elsewhere, beside the value that the tool's `outputSchema` describes.
 */
export interface SourceAnswerParts {
  /**
   * The answer in words. The model reads them if the value is not in the form that the tool
   * declares. @default the value
   */
  readonly words?: string;
  /** Images and files of the answer. @default none */
  readonly attachments?: readonly Attachment[];
}

/**
 * Returns the answer of a tool that was declared elsewhere. The tool has done its work when it
 * answers, so the answer of an untrusted source that is not in the declared form is no failure of
 * the call: the model reads its words, and that they are not in the declared form.
 *
 * @example
 * return sourceAnswer(answer.structured, { words: answer.text });
 */
export function sourceAnswer<Value>(
  value: Value,
  { words, attachments = [] }: SourceAnswerParts = {},
): AttachedResult<Value> {
  return new AttachedResult(value, attachments, words);
}

/** The value a tool returned, without what is attached to it. */
export function withoutAttachments(result: unknown): unknown {
  return result instanceof AttachedResult ? result.value : result;
}
