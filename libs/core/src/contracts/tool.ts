import type { NestInterceptor, Type } from '@nestjs/common';
import {
  type ArgumentProblem,
  type Audience,
  type EntityReference,
  isObject,
  isRecord,
  type JsonObject,
  type JsonValue,
  PRESENTATION_TONES,
  RESULT_FORMS,
  type ToolNote,
  type ToolOrigin,
  type ToolPresentation,
  type ToolSpec,
} from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import {
  ABOVE_ZERO,
  BOOLEAN,
  defineOptions,
  FUNCTION,
  inWords,
  ITS,
  LABEL,
  listOf,
  needed,
  oneOf,
  optionsOf,
  type OptionRule,
  TEXT,
  WHOLE_ABOVE_ZERO,
} from '../findings/options.js';
import type { SubRun } from './loop-request.js';
import {
  type Question,
  type RegisteredActor,
  type RunContext,
  type Secret,
  TOOL_EXECUTION_OPTIONS,
  type ToolCallContext,
  type ToolExecutionOptions,
} from './tool-call.js';

/** Reserved argument names that a tool may declare nevertheless, and why. */
export interface ReservedAllowance {
  readonly arguments: readonly string[];
  readonly reason: string;
}

/** Leave for the patterns of a tool's arguments that the linear engine cannot run, and why. */
export interface PatternAllowance {
  readonly engine: 'backtracking';
  readonly reason: string;
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

/**
 * Under this name the model reads of an entity what can be called on it; see `availableOperations`
 * of the execution options.
 */
export const OPERATIONS_KEY = '_availableOperations';

/** Told of every object of a class in a result, and of the JSON that is shown of it. */
export type ProjectionObserver = (source: object, json: Record<string, JsonValue>) => void;

/**
 * Turns a tool's live result into the JSON one audience may see. Throws when the result is not what
 * the tool declared.
 */
export interface ResultProjector {
  /** The class whose exposed properties are all that leaves; absent where no class is declared. */
  readonly declared?: Type;
  /**
   * `shown` is told of every object of a class and the JSON that was made of it, which is its own
   * and may be added to.
   */
  project(value: unknown, audience: Audience, shown?: ProjectionObserver): JsonValue;
  /**
   * Projects for model and ui, of one value where no class in it shows them otherwise; absent where
   * each is projected by itself.
   */
  projectBoth?(value: unknown, shown?: ProjectionObserver): BothProjections;
}

/** The projections of a result for its two readers. */
export interface BothProjections {
  readonly model: JsonValue;
  readonly ui: () => JsonValue;
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

/** The choice among Nest's interceptors. */
export interface InterceptorOptions {
  /**
   * Classes of interceptors that are left out, such as one that wraps every response of HTTP:
   * `[ResponseWrapper]`. A subclass of one is left out with it.
   */
  readonly except: readonly Type<NestInterceptor>[];
}

/**
 * The range in which an idempotency key of a tool is shared: the same actor, or everybody of the
 * tenant.
 */
export type IdempotencyScope = 'actor' | 'tenant';

/** The settings of a tool for all its calls, independent of where it is declared. */
export interface ToolSettings {
  /**
   * Lists the tool only where it makes sense: returns whether it does in this run. @default always
   */
  readonly when?: (context: RunContext) => boolean;
  /**
   * Keeps the tool from models: it is in no list that a run offers, and is called by its id alone,
   * with `loop.call`, in a session or by a client of MCP. Policy decides on it as on any other
   * tool. Not for tools of entities, which come with a result. @default false
   */
  readonly unlisted?: boolean;
  /** Milliseconds that one attempt of a call may take. @default the `toolCallMs` limit */
  readonly timeoutMs?: number;
  /**
   * For a tool that changes things: returns the key by which two calls have the same effect, e.g.
   * `({ orderId }: Refund) => orderId`. Per tenant, actor, tool and instance the effect of a key
   * happens once: repeating the call, in another step or run, returns the stored outcome, and other
   * arguments under the same key are refused. It is called with validated input, once the call is
   * permitted, and returns 1 to 512 characters. To pass a key to another system, use
   * `context.idempotencyKey`.
   * @default the place of the call in its request
   */
  idempotencyKey?(this: void, input: unknown, context: RunContext): string;
  /**
   * For a tool that changes things: returns what a person is asked before the call is authorised,
   * e.g. the reason of a cancellation. The key of a question is the name of an argument, and the
   * answer takes its place: so policy, the approver, the audit and the method see it like any other
   * argument. Declare the argument as optional and ask where the model left it out, or always, so
   * that the person decides. It is called with its own copy of the validated input and must change
   * nothing; once all is answered it is not called again.
   * @default nothing is asked
   */
  questions?(
    this: void,
    input: unknown,
    context: ToolCallContext,
  ): readonly Question[] | Promise<readonly Question[]>;
  /**
   * The range in which an `idempotencyKey` is shared. With `tenant`, a colleague's call with the
   * same key is the same call, for example because an order is shipped once, no matter who asks.
   * The colleague then reads the first caller's result, so everybody who may call the tool must be
   * allowed to see it.
   * @default 'actor'
   */
  readonly idempotencyScope?: IdempotencyScope;
  /**
   * For a tool that changes things: whether making the same call twice has its effect once, because
   * the system behind it recognises `context.idempotencyKey`, or because everything happens in
   * `context.transaction`. A call whose process died is then made again by itself. Without this and
   * without an `idempotencyKey`, a person is asked first, and if no one can be asked the call ends
   * as `unknown_outcome`. @default false
   */
  readonly idempotent?: boolean;
  /**
   * For a `state_change` all of whose writes go through `context.transaction`: has a rehearsal make
   * the call and roll it back, so that later calls see what it changed.
   * @default it is previewed
   */
  readonly rehearse?: 'transaction';
  /**
   * For a tool with `rehearse`: returns the rows that a call would change as they are now, by names
   * for people, with their versions if they have some, e.g.
   * `{ 'Order 7': { version: 3, status: 'new' } }`. Where they have changed when the rehearsal is
   * approved, nothing of it is performed. @default only reads are compared
   */
  rowsBefore?(
    this: void,
    input: unknown,
    context: ToolCallContext,
  ): JsonObject | Promise<JsonObject>;
  /**
   * The most calls of the tool at once in the process, over all runs and tenants. Others wait their
   * turn, within their time. A method that still runs after its time is up no longer counts.
   * @default no limit
   */
  readonly concurrency?: number;
  /**
   * Validation, logging and result format of this tool; overrides its provider's and the
   * application's. The same object for every instance of an entity.
   */
  readonly execution?: ToolExecutionOptions;
  /**
   * Tells whether a result says that the call failed, for code that reports failures in what it
   * returns: `failed: (answer: Answer) => !answer.success`. A text is what the model reads; `true`
   * gives a fixed one. Asked once, of what the method returned. @default a result is never a
   * failure
   */
  failed?(this: void, result: unknown): boolean | string;
  /**
   * The words and looks with which people are shown the tool and its calls. No model reads them.
   * Ignored where the tool's source is not trusted. @default its id
   */
  readonly presentation?: ToolPresentation;
  /**
   * Puts a result into a sentence, for `resultFormat: 'envelope'`. It receives what the model may
   * see.
   */
  readonly humanReadable?: (result: JsonValue) => string;
  /**
   * Reserved argument names that this tool may declare nevertheless, and why; the audit records the
   * reason with every call.
   */
  readonly allowReserved?: ReservedAllowance;
  /**
   * Lets patterns of its arguments backtrack that the linear engine cannot run, such as those with
   * look-around, and says why: `{ engine: 'backtracking', reason: 'Short codes.' }`. Each such text
   * needs a `maxLength`; the audit records the reason with every call. Ignored in a tool of a
   * source. @default such a pattern stops the start
   */
  readonly patterns?: PatternAllowance;
  /**
   * Leaves interceptors of Nest out, beside those that `forRoot` leaves out of every tool. @default
   * all that apply to the method run
   */
  readonly interceptors?: InterceptorOptions;
}

const NO_REASON: OptionRule<string> = {
  ...TEXT,
  accept: (value) => typeof value === 'string' && value.trim() !== '',
  problem: () => 'It allows reserved arguments, but gives no reason.',
  remedy: () =>
    'Say why in @LlmTool({ allowReserved: { arguments, reason } }): the reason is kept for later reviews.',
};

const ALLOWANCE = defineOptions<ReservedAllowance>({
  arguments: needed(listOf(TEXT, 'a list of names')),
  reason: needed(NO_REASON),
});

const PATTERNS = defineOptions<PatternAllowance>({
  engine: needed(oneOf('backtracking')),
  reason: needed({
    ...NO_REASON,
    problem: () => 'It lets patterns backtrack, but gives no reason.',
    remedy: () =>
      "Say why: patterns: { engine: 'backtracking', reason }. The reason is kept for later reviews.",
  }),
});

const EXCEPT: OptionRule<InterceptorOptions['except']> = {
  wanted: 'a list of interceptor classes: [ResponseWrapper]',
  accept: (value) => Array.isArray(value) && value.every(isInterceptorOfNest),
  problem: (value) => {
    const others = Array.isArray(value) ? value.filter((one) => !isInterceptorOfNest(one)) : [];
    return others.length > 0
      ? `Its "except" has what is no class of an interceptor of Nest: ${others.map(nameOfAny).join(', ')}.`
      : undefined;
  },
};

export const INTERCEPTORS = defineOptions<InterceptorOptions>({ except: needed(EXCEPT) });

/** A `ToolInterceptor` is none: it is asked about every call. */
function isInterceptorOfNest(value: unknown): boolean {
  if (typeof value !== 'function') return false;
  const prototype: unknown = value.prototype;
  return (
    isObject(prototype) &&
    typeof prototype['intercept'] === 'function' &&
    !(prototype instanceof ToolInterceptor)
  );
}

function nameOfAny(value: unknown): string {
  return typeof value === 'function' && value.name !== '' ? value.name : inWords(value);
}

const PRESENTATION = defineOptions<ToolPresentation>(
  {
    label: LABEL,
    running: LABEL,
    done: LABEL,
    icon: LABEL,
    tone: oneOf(...PRESENTATION_TONES),
    confirm: LABEL,
    result: oneOf(...RESULT_FORMS),
  },
  {
    wording: {
      unknown: 'Its presentation has no option "*".',
      option: 'The * of its presentation',
    },
  },
);

/** A rule for each of them. */
export const TOOL_SETTINGS = defineOptions<ToolSettings>(
  {
    when: FUNCTION,
    unlisted: BOOLEAN,
    timeoutMs: { ...ABOVE_ZERO, wanted: 'milliseconds, more than 0' },
    idempotencyKey: { ...FUNCTION, wanted: 'a function: (input, context) => text' },
    questions: { ...FUNCTION, wanted: 'a function: (input, context) => questions' },
    idempotencyScope: oneOf('actor', 'tenant'),
    idempotent: BOOLEAN,
    rehearse: oneOf('transaction'),
    rowsBefore: { ...FUNCTION, wanted: 'a function: (input, context) => rows by their names' },
    concurrency: WHOLE_ABOVE_ZERO,
    execution: optionsOf(TOOL_EXECUTION_OPTIONS, { isHere: true, isMerged: true }),
    failed: FUNCTION,
    presentation: optionsOf(PRESENTATION, { isHere: true }),
    humanReadable: FUNCTION,
    allowReserved: optionsOf(ALLOWANCE, { isHere: true }),
    patterns: optionsOf(PATTERNS, { isHere: true }),
    interceptors: optionsOf(INTERCEPTORS),
  },
  { wording: ITS },
);

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

/** The part of a tool that the client does. */
export interface ClientSide {
  /** The schema of its result. @default any JSON */
  readonly resultSchema?: JSONSchema7;
  /** The milliseconds after which no result is taken any more. */
  readonly expiresAfterMs: number;
}

/** Told of what an interceptor answers, by the name of its class. */
export type InterceptorNote = (interceptor: string, answer: unknown) => void;

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

/** A call that passed validation, policy and approval and is about to reach the tool's method. */
export interface ToolInvocation {
  readonly tool: ToolSpec;
  /** The input of the method: the DTO, or the named arguments. */
  readonly input: unknown;
  readonly context: ToolCallContext;
}

/**
 * Wraps every tool's method, in the order of the providers. It may measure, wrap errors, or answer
 * itself by not calling `next`. What it returns is still checked and projected like any result. Of
 * a tool that changes things it decides nothing about the effect: `next` calls the method once and
 * while the call lasts, a call that it ends while the method runs has an unknown outcome, one that
 * fails after the method answered took place, and a method that threw has failed.
 *
 * @example
 * class Timing extends ToolInterceptor {
 *   async intercept({ tool }: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
 *     const stop = this.metrics.start(tool.declaredId);
 *     return next().finally(stop);
 *   }
 * }
 */
export abstract class ToolInterceptor {
  abstract intercept(invocation: ToolInvocation, next: () => Promise<unknown>): Promise<unknown>;
}

/**
 * When an entity's instance is loaded again by its resolver, instead of calling the one that a tool
 * returned.
 *
 * - `always`: before every call, so that no call sees stale data or outlives a permission. State
 *   that an instance keeps between calls is lost.
 * - `on-resume`: once, after a run was resumed, in whatever process.
 * - `never`: the instance that was returned is called for as long as the process has it.
 */
export type Rehydrate = 'never' | 'on-resume' | 'always';

/**
 * The run for which an entity is looked up. Calls that need the instance at the same time share one
 * look-up, so it contains nothing of a single call.
 */
export interface EntityContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** Aborted with the run, or when the look-up has taken longer than `limits.toolCallMs`. */
  readonly signal: AbortSignal;
}

/**
 * The port that loads an entity again by its id, for the run's actor as of now. A class marked
 * `@ToolEntityResolver(Customer)` is one; it need not extend this.
 *
 * @example
 * class CustomerResolver extends EntityResolver<Customer, User> {
 *   resolve(id: string, { tenant }: EntityContext<User>): Promise<Customer | undefined> {
 *     return this.customers.findOne({ id, tenant });
 *   }
 * }
 */
export abstract class EntityResolver<Entity extends object, Actor = RegisteredActor> {
  /**
   * Returns undefined or null if there is no such instance, or none that this actor may have: the
   * model reads the same for both (`tool_gone`). A Nest exception with status 403 becomes
   * `forbidden`; any other exception is a failure that may pass. `instanceId` is always a string,
   * whatever the property holds.
   */
  abstract resolve(
    instanceId: string,
    context: EntityContext<Actor>,
  ): Entity | null | undefined | Promise<Entity | null | undefined>;
}
