import type {
  CallChange,
  HiddenValue,
  MessageLabels,
  StorageUnavailableError,
  ToolFailure,
  ToolInvocationRecord,
  ToolMessage,
  WaitingFor,
} from '@toolloop/protocol';
import type { Attachment } from '../contracts/attachment.js';
import type { EntityKey, MatchedTriggers } from '../contracts/injection.js';
import type { Pending, PendingOf } from '../contracts/pending.js';
import type { Tool } from '../contracts/tool.js';
import type { OperationsOn } from '../plugins/entities/shown-objects.js';
import type { SubRunCheckpoint } from '../plugins/sub-runs/sub-runs.js';
import type { MethodState } from './call-failure.js';
import type { AuthorisedCall, ReadCall } from './call.js';

export interface ToolOutcome {
  readonly record: ToolInvocationRecord;
  /** The model's projection: text, and behind it what is attached. */
  readonly content: ToolMessage['content'];
  readonly tool?: Tool;
  /**
   * The value that the tool's method returned, before any projection. Absent if it failed or was
   * answered from the journal.
   */
  readonly live?: unknown;
  /**
   * The model's projection once more, with what can be called on the entities in it by now. Set
   * where the model is to be told.
   */
  readonly hinted?: (operationsOn: OperationsOn) => ToolMessage['content'];
  /** The entities in `live` that a resolver finds again, of a call whose run waits. */
  readonly entities?: readonly EntityKey[];
  /** The triggers that strategies matched in `live`. */
  readonly matchedTriggers?: MatchedTriggers;
  /** Set where the call was not made yet, for want of a decision. */
  readonly isPending?: true;
  /**
   * The kind of answer that the call waits for; absent where it waits for an earlier call of its
   * step.
   */
  readonly waitingFor?: WaitingFor;
  /**
   * Set if a store does not answer, so that the call was not made, or that is unknown. The run ends
   * or is handed over, and nothing is told to the model.
   */
  readonly unavailable?: StorageUnavailableError;
  /** Set where it is a run that waits. */
  readonly checkpoint?: SubRunCheckpoint;
  /** In the place of the tool's own. */
  readonly labels?: MessageLabels;
  /** The values for which references stand in the content. */
  readonly hidden?: readonly HiddenValue[];
  /** The change that the call made, or may have made. */
  readonly change?: CallChange;
}

/** The return value of a method. */
export interface MethodAnswer {
  readonly live: unknown;
  readonly attachments: readonly Attachment[];
  /** The answer in words, if it came from elsewhere and had some. */
  readonly words?: string;
}

/** A result, before and after the interceptors. */
export interface InvokedResult extends MethodAnswer {
  /** The value after the interceptors. */
  readonly result: unknown;
  /** `not_called` where an interceptor answered in the method's place. */
  readonly method: MethodState;
  /** The answers of interceptors, the innermost first. @default none */
  readonly answers?: readonly InterceptorAnswer[];
}

/** The answer of an interceptor, by the name of its class. */
export interface InterceptorAnswer {
  readonly interceptor: string;
  readonly answer: unknown;
}

/** The port by which effects happen later than their calls. */
export abstract class Effects {
  /**
   * The effect of a call that only asks for it.
   *
   * @throws {CallFailure} `invalid_args` where the arguments do not say what the effect is for.
   */
  abstract request(call: ReadCall): Promise<RequestedEffect>;
}

/** An effect that is asked for now and happens later. */
export interface RequestedEffect {
  /** Set where it was asked for before: asking again needs no approval. */
  readonly isKnown: boolean;
  /** Keeps the request, with the use of its approval, and answers with it. */
  keep(call: AuthorisedCall): Promise<ToolOutcome>;
}

/** One attempt at an effect that was asked for before. */
export interface EffectAttempt {
  readonly idempotencyKey: string;
  /** Rejects where another process has the effect by now, so that nothing happens. */
  begin(): Promise<void>;
  /**
   * Returns whether the tool may be called again although an earlier attempt may have had the
   * effect.
   */
  mayRepeat(tool: Tool): boolean;
  /** The failure to keep for what was thrown, by how far the method had come. */
  read(error: unknown, tool: Tool, signal: AbortSignal): ToolFailure;
}

/**
 * Thrown to say that a call was not made yet: a signal, no failure. It passes every filter and
 * every retry, and only the runner takes it.
 */
export class CallPending extends Error {
  override readonly name = 'CallPending';

  /** Without anything that it waits for, the call waits for an earlier one of its step. */
  constructor(
    readonly waitingFor?: WaitingFor,
    /** Set where the call is a run that has begun, and waits for one of its own. */
    readonly checkpoint?: SubRunCheckpoint,
    /** Set where it waits for a store that does not answer for now, not for a person. */
    readonly unavailable?: StorageUnavailableError,
    /** The question that it asked while it ran. */
    readonly asked?: PendingOf<'question'>,
  ) {
    super('The call waits for a decision.');
  }
}

/**
 * Thrown to say that a call is not made, since an equal one of the same conversation waits already.
 * The model reads so as the call's result.
 */
export class CallWaitsElsewhere extends Error {
  override readonly name = 'CallWaitsElsewhere';

  constructor(readonly record: Pick<Pending, 'id' | 'expiresAt'>) {
    super('An equal call of this conversation waits already.');
  }
}
