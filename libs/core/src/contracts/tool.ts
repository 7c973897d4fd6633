import {
  type ArgumentProblem,
  type EntityReference,
  isRecord,
  type JsonObject,
  type JsonValue,
  type ToolNote,
  type ToolOrigin,
  type ToolSpec,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { EntityContext } from './entity.js';
import type { InterceptorNote } from './interceptor.js';
import type { SubRun } from './loop-request.js';
import type { ResultProjector } from './result-projector.js';
import type { Secret } from './secret.js';
import type { RunContext, ToolCallContext } from './tool-call.js';
import type { ToolSettings } from './tool-settings.js';

/**
 * A tool that can be run. Only `ToolRunner.exec` calls {@link invoke}; everything else goes by
 * {@link spec}.
 */
export interface Tool extends ToolSettings {
  readonly spec: ToolSpec;
  readonly origin: ToolOrigin;
  readonly input: ToolInputCodec;
  readonly output: ResultProjector;
  /** Set on entity tools. */
  readonly entity?: EntityReference;
  /**
   * Set on tools of a class that has instructions. Ignored where the tool's source is not trusted.
   */
  readonly instructions?: ToolInstructions;
  /**
   * Set on a tool over which others are called; a call of it is a call of one of them, and it is
   * never invoked itself.
   */
  readonly surface?: ToolSurface;
  /** Set on entity tools whose instance is found anew before each call. */
  readonly rehydration?: ToolRehydration;
  /** The tool whose result brought it, as the model called it. Set on entity tools. */
  readonly givenBy?: string;
  /**
   * Decides whether the actor of a run may call it, in addition to policy; called for every call.
   * Any answer but `true` denies.
   */
  readonly canCall?: (run: RunContext) => ToolWord | Promise<ToolWord>;
  /**
   * Decides on one call by its input, which is a copy of the method's; see `preflight` of
   * `@LlmTool`.
   */
  readonly preflight?: (input: unknown, context: ToolCallContext) => ToolWord | Promise<ToolWord>;
  /**
   * Describes the effect of a call to its approver: a sentence or a `ToolPreview`. It receives the
   * method's input.
   */
  readonly preview?: (input: unknown, context: ToolCallContext) => unknown;
  /** Set where a call asks for the effect, and the directive runner has it later. */
  readonly directive?: ToolDirective;
  /**
   * Nest's own layers round the method, where there are any; of a request-scoped provider, those of
   * the run.
   */
  readonly layers?: (run: RunContext) => ToolLayers | undefined | Promise<ToolLayers | undefined>;
  /**
   * Guards of the route that are not asked, since the run knows who asks; the audit records it with
   * every call.
   */
  readonly replacedGuards?: readonly string[];
  /** Set where a call is a run: the loop performs it in the place of {@link invoke}. */
  readonly subRun?: SubRun;
  /**
   * Set where the client makes the call: its result stands in the place of what {@link invoke}
   * returns.
   */
  readonly client?: ClientSide;
  /**
   * Texts that go out with each call and that no one is shown: what a call tells has `[secret]` in
   * their place, as in that of a credential. It is read anew for each text, so that it may grow
   * while a call is made.
   */
  readonly secrets?: Iterable<Secret<string>>;
  /** Calls the user's code. May return a value, a Promise, an Observable or an AsyncIterable. */
  invoke(input: unknown, context: ToolCallContext): unknown;
}

/**
 * The meaning of a call over a surface: a method of one instance, and the arguments for its own
 * tool.
 */
export interface MeantCall {
  readonly declaredId: string;
  /** The real id, as the model said it. */
  readonly instanceId: string;
  readonly args: JsonValue;
}

/** A way to offer the model the tools of many instances as one. */
export interface ToolSurface {
  /**
   * `grouped`: one method of all instances of a class. `dispatcher`: every method of every
   * instance.
   */
  readonly kind: 'grouped' | 'dispatcher';
  /** Declared ids of the tools that may be called over it. */
  readonly offers: ReadonlySet<string>;
  /** Undefined for arguments that mean no call, whatever instances there are. */
  meant(args: JsonValue): MeantCall | undefined;
}

/** The input of a tool's method, or the problems that the model has to mend. */
export type InputReading =
  { readonly value: unknown } | { readonly problems: readonly ArgumentProblem[] };

/**
 * The way from JSON arguments to what a tool's method receives: {@link normalize}, the schema,
 * {@link read}.
 */
export interface ToolInputCodec {
  readonly schema: JSONSchema7;
  /** Names of top-level arguments that the ui and the audit may not see. */
  readonly hidden: readonly string[];
  /**
   * Argument names at any depth that no model may send; see
   * {@link ToolLoopOptions.reservedArguments}.
   */
  readonly reserved: readonly string[];
  /**
   * Leaves out the nulls that mean "not given", so that defaults apply; what it is handed is never
   * changed.
   */
  normalize(args: JsonObject): JsonObject;
  /**
   * Makes what {@link Tool.invoke} receives of arguments that fit the schema, and checks what a
   * schema cannot say. The JSON is never changed.
   */
  read(args: JsonObject): InputReading | Promise<InputReading>;
  /**
   * Makes the same without a check, for tools that check for themselves; absent where making and
   * checking are one.
   */
  build?(args: JsonObject): unknown;
}

/** The way an entity tool finds its instance before a call. */
export interface ToolRehydration {
  /**
   * The same for all tools of the instance: calls that need it at the same time look it up once.
   */
  readonly key: string;
  /**
   * Undefined if it is gone, or the run's actor may not have it. Rejects if that cannot be found
   * out.
   */
  readonly lookUp: (context: EntityContext) => Promise<object | undefined>;
  /** The tool on what was found, for one call. */
  on(instance: object): Tool;
}

/** A performed directive, for the method that undoes it. */
export interface PerformedDirective {
  readonly directiveId: string;
  /** The `context.idempotencyKey` of the effect; the undoing has its own. */
  readonly idempotencyKey: string;
  /** In the ui projection. */
  readonly result?: JsonValue;
}

/**
 * The declaration of a tool that requests its effect, to be performed later; see `directive` of
 * `@LlmTool()`.
 */
export interface ToolDirective {
  readonly type: string;
  readonly preview: 'required' | 'optional';
  readonly maybeRan: 'ask' | 'repeat';
  readonly attempts: number;
  /** Returns the subject of canonical arguments. */
  subjectOf(args: JsonObject): string;
  /**
   * Returns the key of canonical arguments; absent if the request's id is what makes two requests
   * one.
   */
  keyOf?(args: JsonObject): string;
  /** Undoes what {@link Tool.invoke} did; it is handed the same input. */
  compensate?(input: unknown, performed: PerformedDirective, context: ToolCallContext): unknown;
}

/** The instructions of a class for its tools; see `instructions` of `@ToolProvider()`. */
export interface ToolInstructions extends Pick<ToolNote, 'id' | 'tools'> {
  readonly text: string;
}

/**
 * A refusal by the tool itself. It is a decision like that of a policy: the record and the audit
 * have its rule and its version, and the model reads the text of a tool that it may not call.
 */
export interface ToolRefusal {
  /** The rule that refuses, for the record: `orders: own rows`. */
  readonly rule: string;
  /** For people, in the record; no model reads it. */
  readonly reason: string;
  /** The version of the rules that refuse. @default that of the policy which let the call pass */
  readonly version?: string;
}

/** The tool's own word on a call: anything but `true` denies. */
export type ToolWord = boolean | ToolRefusal;

/** Tells whether an answer, which may be anything, names a rule and a reason. */
export function isRefusal(answer: unknown): answer is ToolRefusal {
  return (
    isRecord(answer) && typeof answer['rule'] === 'string' && typeof answer['reason'] === 'string'
  );
}

/** The part of a tool that the client does. */
export interface ClientSide {
  /** The schema of its result. @default any JSON */
  readonly resultSchema?: JSONSchema7;
  /** The milliseconds after which no result is taken any more. */
  readonly expiresAfterMs: number;
}

/**
 * Nest's own layers round one tool method: what its handlers have in controllers, its tools have
 * here.
 */
export interface ToolLayers {
  /**
   * Guards, then pipes. Resolves with the input the pipes made; rejects with what a guard or a pipe
   * threw.
   */
  readonly admit: (input: unknown, context: ToolCallContext) => Promise<unknown>;
  /** Interceptors. What they make of the result is still checked and projected like any result. */
  readonly around: (
    input: unknown,
    context: ToolCallContext,
    call: () => Promise<unknown>,
    note: InterceptorNote,
  ) => Promise<unknown>;
  /**
   * Returns an exception filter's description of an error; undefined if no filter is responsible.
   * Never a success.
   */
  readonly explain: (error: unknown, input: unknown, context: ToolCallContext) => Promise<unknown>;
}
