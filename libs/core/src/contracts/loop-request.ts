import type { Type } from '@nestjs/common';
import {
  type DeclaredTool,
  type Finding,
  type LanguageModel,
  type LoopEvent,
  type LoopResult,
  type Message,
  type MessageLabels,
  type ModelOptions,
  TOOL_EFFECTS,
  type ToolChoice,
  type ToolEffect,
} from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import {
  BOOLEAN,
  CLASS,
  FUNCTION,
  TEXT,
  WHOLE_ABOVE_ZERO,
  either,
  listOf,
  needed,
  oneOf,
  optionsOf,
  whatCan,
} from '../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions, type OptionRule } from '../findings/options.js';
import type { ConversationCut } from './conversation.js';
import { EXECUTION_OPTIONS, type ExecutionOptions } from './execution-options.js';
import type { HistoryPolicy } from './history.js';
import { HOOKS, type LoopHooks } from './hooks.js';
import { PLUGIN_VALUES, type PluginValue } from './plugin-value.js';
import type { RegisteredActor } from './registered-actor.js';
import type { EntitySurface, ToolInjectionStrategy } from './injection.js';
import { LIMITS, type Limits } from './limits.js';
import type { Policy } from './policy.js';
import { OF_A_STEP } from './step-options.js';
import type { PrepareStep } from './prepare-step.js';
import type { StopCondition } from './stop-condition.js';
import type { RunContext } from './tool-call.js';
import { SELECTORS, type ToolSelector } from './tool-selector.js';

/** One use of the loop. Give `prompt` or `messages`, and always `actor` and `tenant`. */
export interface LoopRequest<Output = unknown, Actor = RegisteredActor> {
  readonly prompt?: string;
  /**
   * The conversation so far. It is checked and carries no authority: `system` ranks as user, and
   * tool results count as untrusted. Use `instructions` to instruct the model. With a
   * `conversationId`, only the newest user message is read.
   */
  readonly messages?: readonly Message[];
  /**
   * The confidentiality of the user's messages and the instructions. While it is `private`, a run
   * that has read untrusted content asks before a call that can carry it out. @default { reads:
   * 'private' }
   */
  readonly labels?: Pick<MessageLabels, 'reads'>;
  /** @default the module's instructions */
  readonly instructions?: string | ((context: RunContext<Actor>) => string | Promise<string>);
  /** A model, or a name from the module's `models`. @default the module's model */
  readonly model?: LanguageModel | string;
  /** The tools of the catalog to offer; policy still decides. @default all */
  readonly tools?: readonly ToolSelector[];
  /** The tools not to offer, injected ones included. */
  readonly exclude?: readonly ToolSelector[];
  /** The actor of the run; an application without users passes a constant. */
  readonly actor: Actor;
  /** The tenant whose data the run is about; a single-tenant application passes a constant. */
  readonly tenant: string;
  /** Handed to tools as `context.context`; the model never sees it. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Narrows the module's policy for this run; it can never widen it. */
  readonly policy?: Policy;
  readonly limits?: Partial<Limits>;
  /**
   * Execution options for the calls of this run; they override those of the application and the
   * tools.
   */
  readonly execution?: Partial<ExecutionOptions>;
  /**
   * Strategies that run after the one for entity tools; `false` turns injection off, for entity
   * tools as well.
   */
  readonly injection?: readonly ToolInjectionStrategy[] | false;
  /** The way entity tools are presented to the model. @default the module's, else 'auto' */
  readonly surface?: EntitySurface;
  /** The class of the final answer; its class-validator decorators give the schema. */
  readonly output?: Type<Output>;
  /**
   * The consequence of a failed tool for the run. `retry` is like `continue`, but first attempts
   * reads, and tools that are `idempotent` or have an `idempotencyKey`, up to `limits.attempts`
   * times: after a timeout, an unknown exception, a `ToolError` with `retryable`, or Nest's 408,
   * 429 and 5xx.
   * @default 'continue'
   */
  readonly onToolError?: 'continue' | 'halt' | 'retry';
  /** The consequence of a refused call for the run. @default 'continue' */
  readonly onForbidden?: 'continue' | 'halt';
  /**
   * Decides how much of the conversation is sent to the model. @default the module's, else all of
   * it
   */
  readonly history?: HistoryPolicy;
  /** Sees every step before its model call, and may change it. @default the module's */
  readonly prepareStep?: PrepareStep<Actor>;
  /**
   * The treatment of a call that needs approval. `suspend`: the run ends as `waiting`, and
   * `ToolLoopService.resume` continues it. `wait`: the run stays open until a person answers, the
   * approval expires or the run's time (`limits.runMs`) is up. `deny`: the call is refused.
   * @default 'suspend'
   */
  readonly approvals?: 'suspend' | 'wait' | 'deny';
  /** Called beside those of the application and the loop. */
  readonly hooks?: LoopHooks;
  /**
   * The values with which slots of plugins begin in this run: `[URGENT.of(true)]`. A run that is
   * resumed keeps those that it has. @default those that the plugins declare
   */
  readonly plugins?: readonly PluginValue[];
  /**
   * Makes a repeated request recognisable, so that the effects of its calls happen once; over HTTP,
   * the `Idempotency-Key`. @default the run's id
   */
  readonly requestId?: string;
  /**
   * Loads the history from the `ConversationStore` and adds the run to it, per tenant and actor.
   * @default the run stands alone
   */
  readonly conversationId?: string;
  /**
   * The client's own id of the user's message, under which `cut` finds it when the user changes the
   * words. Needs a `conversationId`. @default none
   */
  readonly messageId?: string;
  /**
   * Has the conversation end before the place at which it is cut, and puts the run in the place of
   * what was said from there on. A run that is under way there is cancelled, what it asked is
   * withdrawn, and its directives that have not begun are cancelled. A change that was performed
   * stands: the model reads its result, the same call is answered with it and not made again, and
   * the person is shown it (`call-stands`). Of equal requests one answers, and the others end with
   * `addedTo`. Needs a `conversationId`, and is no rehearsal. @default nothing is cut
   */
  readonly cut?: ConversationCut;
  /**
   * The treatment of a message that comes while another run of its conversation is under way, since
   * a conversation has one run at a time. `queue`: the run begins after that one, within its own
   * time. `addInput`: the message goes in to that one, under its options, where it still takes
   * messages; the run itself ends with `addedTo`. What is to be rehearsed is queued, and so is what
   * comes during a rehearsal. @default 'queue'
   */
  readonly whenBusy?: 'queue' | 'addInput';
  /**
   * The tools that the client says it has, as it sent them; anything may be among them. Each is
   * offered only under an id that `clientTools` of the loop lists and no other tool has, as a tool
   * of an untrusted source: policy must name it exactly, its effect is external, its schema is
   * narrowed, and its description is shown only where the policy pins it
   * (`vouched: { [id]: { schemaHash } }`). What is left out is told by a `warning`. @default none
   */
  readonly declaredTools?: readonly DeclaredTool[];
  readonly signal?: AbortSignal;
  /**
   * Writes the run to storage as it proceeds, so that it outlives its process; needs
   * `@toolloop/durable`. The request must then be JSON, except for actor and signal: classes and
   * functions belong in a named loop. Unsubscribing does not stop the run. @default false
   */
  readonly durable?: boolean;
  /**
   * Makes the run a rehearsal: tools that say `rehearse` change things in transactions that are
   * rolled back, other changes are previewed, and the list of all of them is performed once people
   * have approved it. @default false
   */
  readonly rehearse?: boolean;
  /**
   * Ends the run with `stop` after a step if one of these conditions holds; all that are given add
   * up. @default none: the model decides when it is done
   */
  readonly stopWhen?: StopCondition | readonly StopCondition[];
  /** Applies to the first step only, so that a forced tool cannot loop. @default 'auto' */
  readonly toolChoice?: ToolChoice;
  /**
   * Applies `toolChoice` to every step. A forced tool is then called until `stopWhen` or a limit
   * ends the run, or the tool is gone. @default false
   */
  readonly keepToolChoice?: boolean;
  readonly modelOptions?: ModelOptions;
}

/**
 * A request to resume a run that waited. The question is kept; everything else is given again, and
 * policy decides again.
 */
export type ResumeRequest<Output = unknown, Actor = RegisteredActor> = Omit<
  LoopRequest<Output, Actor>,
  'prompt' | 'messages' | 'requestId' | 'conversationId' | 'messageId' | 'cut' | 'declaredTools'
>;

/**
 * The options that only a run can set, since they say what is asked, for whom, and which request it
 * is.
 */
export const SAID_BY_THE_RUN = [
  'prompt',
  'messages',
  'actor',
  'tenant',
  'context',
  'requestId',
  'conversationId',
  'messageId',
  'cut',
  'declaredTools',
  'signal',
] as const satisfies readonly (keyof LoopRequest)[];

/**
 * The options of a named loop for its runs. `policy`, `tools` and `exclude` narrow, as they do in a
 * request: application, loop and run must all let a tool in. Injection strategies and stop
 * conditions add up; `injection: false` turns injection off. In all else the run wins over the
 * loop, and the loop over the application; `limits` and `execution` do so option by option.
 */
export type LoopProfile<Actor = RegisteredActor> = Omit<
  LoopRequest<unknown, Actor>,
  (typeof SAID_BY_THE_RUN)[number] | 'output'
> & {
  /**
   * A class the final answers must be; of which type a result is then, its caller says. A durable
   * run has it from nowhere else. @default none
   */
  readonly output?: Type;
  /**
   * The ids under which a client may declare tools of its own in its request. @default those of the
   * application, else none
   */
  readonly clientTools?: readonly string[];
};

/**
 * A run that starts when it is first read: by subscribing to `events$`, by iterating, or by asking
 * for `result`. Its events have one reader.
 *
 * Iterating is pull-driven: a slow reader slows down the reading from the provider. Unsubscribing,
 * or leaving the iteration, aborts the run; a durable run continues.
 */
export interface RunHandle<Output = unknown> extends AsyncIterable<LoopEvent> {
  readonly runId: string;
  /**
   * Cold, with one subscriber: a second one gets an error. After `run-start` it never errors,
   * failures are a `run-end`; before that it errors if a run that waited cannot be resumed.
   */
  readonly events$: Observable<LoopEvent>;
  /**
   * Rejects with a `RunError`, which carries the partial result, when the run ends in `error` or
   * `aborted`; with an `InvalidRequestError` (`unknown_run`) if another caller has resumed the run.
   */
  readonly result: Promise<LoopResult<Output>>;
  /**
   * Gives the model another user message before its next answer; for a durable run it is stored at
   * once. Throws if the run has ended or another process runs it.
   */
  addInput(message: string): void;
  /** Ends the run as `aborted`; as always, a `run-end` is its last event. */
  cancel(reason?: string): void;
}
export const STRATEGIES: OptionRule<readonly object[]> = listOf(
  whatCan('evaluate', ''),
  'a list of strategies, such as unlock(…)',
);
export const SURFACE = oneOf('auto', 'named', 'grouped', 'dispatcher');
const OFF: OptionRule<false> = { wanted: 'false', accept: (value) => value === false };
const PROMPT_LABELS = defineOptions<NonNullable<LoopRequest['labels']>>({
  reads: oneOf('public', 'private'),
});

/** The options of a run that the application can set for all runs as well. */
export const OF_ALL_RUNS = {
  instructions: either(TEXT, FUNCTION),
  policy: CHECKED_BY_USE,
  limits: optionsOf(LIMITS, { isMerged: true }),
  execution: optionsOf(EXECUTION_OPTIONS, { isMerged: true }),
  history: whatCan('cut', 'a HistoryPolicy, such as slidingWindow(…)'),
  prepareStep: FUNCTION,
  stopWhen: CHECKED_BY_USE,
} as const;

/** The rule of `clientTools`, of a loop and of the application. */
export const CLIENT_TOOLS = listOf(TEXT, 'a list of ids');

export const PROFILE = defineOptions<LoopProfile>(
  {
    ...OF_A_STEP,
    ...OF_ALL_RUNS,
    clientTools: CLIENT_TOOLS,
    exclude: SELECTORS,
    injection: either(STRATEGIES, OFF),
    surface: SURFACE,
    output: CLASS,
    labels: optionsOf(PROMPT_LABELS),
    hooks: optionsOf(HOOKS),
    plugins: PLUGIN_VALUES,
    approvals: oneOf('suspend', 'wait', 'deny'),
    whenBusy: oneOf('queue', 'addInput'),
    onToolError: oneOf('continue', 'halt', 'retry'),
    onForbidden: oneOf('continue', 'halt'),
    keepToolChoice: BOOLEAN,
    durable: BOOLEAN,
    rehearse: BOOLEAN,
  },
  { elsewhere: Object.fromEntries(SAID_BY_THE_RUN.map(onlyOfARun)) },
);

function onlyOfARun(name: string): [string, Pick<Finding, 'problem' | 'remedy'>] {
  return [
    name,
    { problem: `It sets "${name}", which only a run can set.`, remedy: 'Give it in the request.' },
  ];
}

/**
 * The options of a request. Values that a client may have sent are checked where they are used, and
 * refused as the client's.
 */
export const REQUEST = defineOptions<LoopRequest>({
  ...PROFILE.rules,
  prompt: CHECKED_BY_USE,
  messages: CHECKED_BY_USE,
  actor: CHECKED_BY_USE,
  tenant: CHECKED_BY_USE,
  context: CHECKED_BY_USE,
  requestId: CHECKED_BY_USE,
  conversationId: CHECKED_BY_USE,
  messageId: CHECKED_BY_USE,
  cut: CHECKED_BY_USE,
  declaredTools: CHECKED_BY_USE,
  signal: CHECKED_BY_USE,
});

/**
 * The options that a sub-run shares with a loop. All of them narrow what the run around it may do.
 */
export interface SubRunProfile extends Pick<
  LoopProfile,
  | 'model'
  | 'instructions'
  | 'exclude'
  | 'policy'
  | 'limits'
  | 'history'
  | 'prepareStep'
  | 'stopWhen'
  | 'toolChoice'
  | 'keepToolChoice'
  | 'modelOptions'
> {
  /**
   * The tools that it may use, among those of the run around it; tools that entities bring are
   * named as well.
   */
  readonly tools: NonNullable<LoopProfile['tools']>;
  /** A class the answer must be; the result holds it as `output`. */
  readonly output?: Type;
  /** The size of the summary in the result, in bytes. @default 4,096 */
  readonly summaryBytes?: number;
}

/** A tool whose call is a run. */
export interface SubRun extends SubRunProfile {
  /** Makes the sub-run's prompt of the tool's input. */
  prompt(this: void, input: unknown): string;
  /** The strongest effect that its tools may have. @default the strongest of its tools */
  readonly effect?: ToolEffect;
}

const { execution: _execution, ...OF_SUB_RUNS } = OF_ALL_RUNS;

export const SUB_RUN = defineOptions<SubRun>({
  ...OF_A_STEP,
  ...OF_SUB_RUNS,
  tools: needed({
    ...SELECTORS,
    remedy: () =>
      "List the tools of the outer run that it may use: ['crm__*']; an empty list for none.",
  }),
  prompt: FUNCTION,
  effect: oneOf(...TOOL_EFFECTS),
  exclude: SELECTORS,
  keepToolChoice: BOOLEAN,
  output: CLASS,
  summaryBytes: WHOLE_ABOVE_ZERO,
});
