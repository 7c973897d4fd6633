import type { NestInterceptor, Type } from '@nestjs/common';
import {
  isObject,
  type JsonObject,
  type JsonValue,
  PRESENTATION_TONES,
  RESULT_FORMS,
  type ToolPresentation,
} from '@toolloop/protocol';
import {
  ABOVE_ZERO,
  BOOLEAN,
  FUNCTION,
  LABEL,
  TEXT,
  WHOLE_ABOVE_ZERO,
  listOf,
  needed,
  oneOf,
  optionsOf,
} from '../findings/option-rules.js';
import { defineOptions, inWords, ITS, type OptionRule } from '../findings/options.js';
import { TOOL_EXECUTION_OPTIONS, type ToolExecutionOptions } from './execution-options.js';
import { ToolInterceptor } from './interceptor.js';
import type { PatternAllowance } from './pattern-allowance.js';
import type { Question, RunContext, ToolCallContext } from './tool-call.js';

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

/** Reserved argument names that a tool may declare nevertheless, and why. */
export interface ReservedAllowance {
  readonly arguments: readonly string[];
  readonly reason: string;
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
