import {
  InvalidRequestError,
  type LoopEvent,
  type LoopEventBody,
  type LoopEventSink,
  type LoopResult,
  type Message,
  RunElsewhereError,
  RunError,
} from '@toolloop/protocol';
import { Observable } from 'rxjs';
import { Toolset } from '../catalog/toolset.js';
import type { RunHandle } from '../contracts/loop-request.js';
import type { RunJournal } from '../contracts/run-log.js';
import type { TenantDirectory } from '../contracts/tenant-directory.js';
import type { Told } from '../call/emit-event.js';
import {
  Interruption,
  type LinkedSignal,
  linkSignal,
  untilAborted,
} from '../contracts/interruption.js';
import { Logger } from '../findings/logger.js';
import { offeredBy, withOffered } from '../plugins/entities/conversation-entities.js';
import { toolNotes } from '../plugins/injection/tool-notes.js';
import { strictlyListed, UNKNOWN_TENANT } from '../call/resolve-tool.js';
import { isStanding } from '../plugins/conversations/standing-calls.js';
import { asRun } from '../call/store-calls.js';
import {
  RunConversation,
  type ConversationServices,
} from '../plugins/conversations/run-conversation.js';
import { EventOutlet, type EventReader, isForPeople } from './event-outlet.js';
import { PullQueue } from './pull-queue.js';
import { RunInputs } from './run-inputs.js';
import { LiveRun } from './live-run.js';
import { FinishedRun } from './finished-run.js';
import { finishFor, isUnavailable } from './run-fault.js';
import {
  firstState,
  labelledMessages,
  type LoopState,
  type PendingStep,
  waitingForIn,
} from '../loop/loop-state.js';
import {
  processStateOf,
  type ResumedRun,
  resumedState,
  type SavedPlace,
  savedRun,
} from './saved-run.js';
import { identityOf, type RunPlan, startEvent, type SubRunsWithin } from './run-plan.js';
import { withoutShownCalls, withShownCalls } from '../plugins/rehearsals/shown-calls.js';
import { CHANGES_STAND } from '../plugins/conversations/standing-changes.js';
import type { HeldSuspension } from './held-suspension.js';
import type { SuspendedRuns } from './suspended-runs.js';
import type { Plugins } from '../plugin/plugins.js';
import type { ToolLoop } from '../loop/tool-loop.js';
import { abandonStep, waitingMessages } from '../loop/tool-message.js';

/**
 * One run, from its first reader to its `run-end`; or a part of it, where it waits for decisions
 * and is resumed later.
 */
export class LoopRun<Output> implements RunHandle<Output> {
  readonly runId: string;
  readonly events$: Observable<LoopEvent>;
  private readonly logger = new Logger(LoopRun.name);
  private readonly outlet: EventOutlet;
  private readonly inputs: RunInputs;
  private readonly interruption = new AbortController();
  private running: Promise<LoopResult<Output>> | undefined;
  /** Set where the run was suspended, and this process has taken it out of the log. */
  private held: HeldSuspension | undefined;
  /** Absent outside of a conversation. */
  readonly conversation: RunConversation | undefined;
  private hasEnded = false;
  private hasReader = false;
  /** True while a person may still be asked to approve one of its calls. */
  private mayHaveAsked: boolean;

  constructor(
    private readonly plan: RunPlan<Output>,
    private readonly services: RunParts,
    private readonly resumed?: ResumedRun,
    private readonly journal?: RunJournal,
    lastSequence = resumed?.saved.sequence,
  ) {
    this.runId = plan.execution.run.runId;
    this.inputs = new RunInputs(resumed?.saved.inputs, plan.options);
    this.mayHaveAsked = resumed !== undefined;
    this.conversation = this.conversationOf(plan);
    const onFailure = (cause: unknown, sink: LoopEventSink): boolean => {
      const isSlow =
        sink === journal?.sink && cause instanceof Interruption && this.interruption.signal.aborted;
      if (sink === journal?.sink) journal.handOver(cause); // what is not kept by now is not told here
      this.interrupt(new Interruption('failed', 'A critical sink failed.', { cause }));
      return isSlow;
    };
    const sinks = [...services.sinks, ...(journal ? [journal.sink] : [])];
    this.outlet = new EventOutlet(
      identityOf(plan),
      sinks,
      onFailure,
      lastSequence,
      () => !this.isElsewhere,
    );
    this.events$ = new Observable((subscriber) => {
      this.read({
        next: (event) => subscriber.next(event),
        end: () => subscriber.complete(),
        refuse: (error) => subscriber.error(error),
      });
      return () => this.abandon();
    });
  }

  private conversationOf({
    conversation,
    options,
    messages,
  }: RunPlan): RunConversation | undefined {
    if (!conversation) return undefined;
    const { runId, inputs, interruption } = this;
    const run = {
      runId,
      plan: { options, messages },
      inputs,
      isDurable: this.journal !== undefined,
      isContinued: this.resumed !== undefined,
      signal: interruption.signal,
      isElsewhere: () => this.isElsewhere,
      cancel: (reason?: string) => this.cancel(reason),
      emit: (event: LoopEventBody) => this.emit(event),
    };
    return new RunConversation(conversation, run, this.services);
  }

  get result(): Promise<LoopResult<Output>> {
    return this.start();
  }

  [Symbol.asyncIterator](): AsyncIterator<LoopEvent, undefined> {
    const queue = new PullQueue();
    this.interruption.signal.addEventListener('abort', () => queue.release(), { once: true });
    this.read(queue);
    return {
      next: () => queue.pull(),
      return: () => {
        queue.leave();
        this.abandon();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  addInput(message: string): void {
    if (this.inputs.isClosed)
      throw new InvalidRequestError(
        'invalid_request',
        `The run ${this.runId} has ended; start another.`,
      );
    if (this.isElsewhere) throw new RunElsewhereError(this.runId);
    this.inputs.add(message);
  }

  cancel(reason = 'The run was cancelled.'): void {
    this.interrupt(new Interruption('aborted', reason));
  }

  /**
   * Two readers would share one run's events, or run its tools twice; neither is what they want.
   */
  read(reader: EventReader): void {
    if (this.hasReader)
      throw new Error(
        `The events of run ${this.runId} are being read already; a run has one reader. Share them with RxJS share().`,
      );
    if (this.running)
      throw new Error(
        `The run ${this.runId} has started; read its events before asking for its result.`,
      );
    this.hasReader = true;
    this.outlet.attach(reader);
    void this.start();
  }

  private abandon(): void {
    if (this.hasEnded) return;
    this.outlet.detach();
    if (!this.journal)
      this.interrupt(new Interruption('aborted', 'The reader of the run has left.'));
  }

  private interrupt(interruption: Interruption): void {
    if (this.hasEnded) return;
    if (interruption.kind === 'aborted') this.journal?.cancel(interruption.message);
    this.interruption.abort(interruption);
  }

  private start(): Promise<LoopResult<Output>> {
    if (!this.running) {
      const { signal } = this.interruption;
      this.running = asRun(signal, () => this.execute(), this.journal?.closingMs);
      // A reader of events alone learns of a failure from `run-end`; the rejection must not end the
      // process.
      this.running.catch(() => undefined);
      // another process continues a durable one
      if (!this.journal) this.services.open.add(this, this.running);
    }
    return this.running;
  }

  private async execute(): Promise<LoopResult<Output>> {
    const { runMs } = this.plan.execution.limits;
    const outer = linkSignal(this.plan.options.signal, {
      ms: runMs,
      message: `The run took longer than ${runMs} ms.`,
    });
    const follow = (): void => this.interrupt(Interruption.from(outer.signal));
    if (outer.signal.aborted) follow();
    outer.signal.addEventListener('abort', follow, { once: true });
    const toolset = await this.listed();
    const first = this.resumed
      ? resumedState(this.resumed, toolset)
      : { ...firstState(toolset), messages: this.plan.messages };
    const instruct = this.mustBeClaimed
      ? await this.instructThenClaim(first).catch((error: unknown) => this.refuse(error, outer))
      : this.instructed;
    await this.emit(startEvent(this.plan, toolset));
    for (const message of this.plan.declared.refusals)
      await this.emit({ type: 'warning', code: 'client_tool_refused', message });
    const state = await this.drive(first, instruct).catch((error: unknown) =>
      this.failed(first, error),
    );
    this.handOver(state);
    return this.end(state, outer);
  }

  private async drive(first: LoopState, instruct: Instructing): Promise<LoopState> {
    const instructions = await instruct();
    const addedTo = await this.conversation?.enter();
    if (addedTo !== undefined) return { ...first, finish: { reason: 'stop', addedTo } };
    const { past, history } = await this.before();
    const live = this.liveRun(instructions, history);
    live.stand(history.slice(past));
    const begun = this.resumed
      ? { ...first, messages: history }
      : await this.begin(first, { past, history }, live);
    live.recordTo(this.journal, begun, () => this.placeAfter(past));
    await live.recorder?.start(this.inputs, this.resumed ? undefined : begun);
    const last = (await this.refused(begun)) ?? (await this.services.loop.drive(begun, live));
    this.handOver(last);
    return this.isElsewhere || live.isElsewhere
      ? last
      : this.concluded({ ...last, read: live.flow.readIn(last.messages) }, { past, live });
  }

  /** Gives the run to another process if a store failed. */
  private handOver({ finish }: LoopState): void {
    if (isUnavailable({ finish })) this.journal?.handOver(finish?.cause);
  }

  /**
   * Returns the end of a run whose tenant does not exist, or cannot be looked up. A sub-run has the
   * tenant of the run around it.
   */
  private async refused(begun: LoopState): Promise<LoopState | undefined> {
    const { execution, within } = this.plan;
    try {
      const isKnown =
        within !== undefined ||
        (await this.services.tenants?.exists(execution.run.tenant)) !== false;
      return isKnown
        ? undefined
        : { ...begun, finish: { reason: 'forbidden', detail: UNKNOWN_TENANT } };
    } catch (error) {
      return this.failed(begun, error);
    }
  }

  private readonly instructed: Instructing = async () =>
    untilAborted(this.plan.instructions(), this.interruption.signal);

  /**
   * Returns whether the run was suspended in the log, where another caller may claim it as well.
   */
  private get mustBeClaimed(): boolean {
    return this.resumed !== undefined && !this.journal && !this.plan.within;
  }

  /**
   * Asks for the instructions, then claims the run: instructions that fail lose no decision. No
   * event of the run is shown before.
   */
  private async instructThenClaim(first: LoopState): Promise<Instructing> {
    const instructions = await this.instructed().catch((error: unknown) =>
      this.reject(this.failed(first, error)),
    );
    if (this.resumed) this.held = await this.services.suspended.claim(this.resumed, this);
    return () => Promise.resolve(instructions);
  }

  /**
   * Refuses a run that waits on, or that another caller has claimed: an end told here would be told
   * of theirs.
   */
  private refuse(error: unknown, outer: LinkedSignal): never {
    outer.release();
    this.inputs.close();
    this.hasEnded = true;
    this.outlet.refuse(error);
    throw error;
  }

  private liveRun(instructions: string | undefined, history: readonly Message[]): LiveRun {
    const { plan, inputs, resumed } = this;
    const start = {
      instructions,
      history,
      inputs,
      subRuns: this.services.subRuns,
      plugins: this.services.plugins,
      ...(resumed && { resumed }),
    };
    return new LiveRun(plan, start, this.interruption.signal, (event) => this.tell(event));
  }

  /** The messages there were before the run, or before this part of it. */
  private async before(): Promise<Beginning> {
    if (this.resumed)
      return { past: this.resumed.saved.past, history: this.resumed.saved.state.messages };
    const { messages } = this.plan;
    if (!this.conversation) return { past: 0, history: messages };
    const { earlier, standing } = await this.conversation.read();
    return {
      past: earlier.length,
      history: [...withoutShownCalls(earlier), ...messages, ...standing],
    };
  }

  /**
   * The state before the first step: with the entities that the conversation holds, and the notes
   * about tools before the words of the user.
   */
  private async begin(
    first: LoopState,
    { past, history }: Beginning,
    live: LiveRun,
  ): Promise<LoopState> {
    const standing = history.slice(past).filter(isStanding);
    for (const { shown } of standing)
      if (shown) await this.emit({ type: 'call-stands', step: 0, call: shown });
    const told = standing.length > 0 ? [CHANGES_STAND] : [];
    if (past === 0)
      return { ...first, messages: [...toolNotes(history, first.toolset), ...told, ...history] };
    const earlier = history.slice(0, past);
    const { toolset, events, note } = await this.services.loop.offerAgain(
      first.toolset,
      earlier,
      live,
    );
    for (const event of events) await this.emit(event);
    const notes = [...(note ? [note] : []), ...toolNotes(earlier, toolset)];
    return { ...first, toolset, messages: [...earlier, ...notes, ...told, ...history.slice(past)] };
  }

  private async concluded(last: LoopState, { past, live }: SuspendedAt): Promise<LoopState> {
    const { conversation } = this;
    if (last.pending && (last.finish?.reason === 'waiting' || isUnavailable(last)))
      return this.suspend(last, last.pending, { past, live });
    const state = last.pending ? abandonStep(last, last.pending, this.inputs.take()) : last;
    this.mayHaveAsked ||= last.pending !== undefined;
    const hasAnswer = state.messages.slice(past).some(({ role }) => role === 'assistant');
    if (!conversation || !hasAnswer || live.rehearsal) return state;
    return this.keep(conversation, this.addedBy(state, past, live), state);
  }

  /** The messages that the run adds to its conversation. */
  private addedBy(
    { messages, toolset, records }: AddedState,
    past: number,
    live: LiveRun,
  ): readonly Message[] {
    const labelled = labelledMessages(messages.slice(past), live.flow.readIn(messages));
    const shown = withShownCalls(
      labelled,
      { runId: this.runId, records },
      (id) => toolset.findCallable(id)?.presentation,
    );
    return withOffered(shown, messages.slice(0, past), offeredBy(toolset, live.instances));
  }

  private placeAfter(past: number): SavedPlace {
    const { execution, conversation } = this.plan;
    const { requestId } = execution;
    return {
      requestId,
      ...(conversation && { conversationId: conversation.conversationId }),
      past,
      sequence: this.outlet.lastSequence,
    };
  }

  /**
   * Keeps a run that waits. One that cannot be kept until a person decides is an error: it would
   * wait for ever.
   */
  private async suspend(
    state: LoopState,
    pending: PendingStep,
    { past, live }: SuspendedAt,
  ): Promise<LoopState> {
    const { run } = this.plan.execution;
    const { sequence, ...about } = this.placeAfter(past);
    // The run-end follows, and is the last event of this part of the run.
    const saved = savedRun(state, pending, live, { ...about, sequence: sequence + 1 });
    try {
      const processState = processStateOf(state, pending, live);
      if (!isUnavailable(state)) await this.keepWaiting(state, pending, { past, live });
      if (this.journal) this.services.suspended.remember(run.runId, processState);
      else
        await this.services.suspended.suspend(
          { ...identityOf(this.plan), ...waitingForIn(state) },
          saved,
          processState,
          this.held,
        );
      return isUnavailable(state) ? abandonStep(state, pending, this.inputs.take()) : state;
    } catch (error) {
      const closed = abandonStep(state, pending, this.inputs.take());
      return this.failed(
        closed,
        error instanceof Interruption
          ? error
          : new Error('The waiting run could not be stored.', { cause: error }),
      );
    }
  }

  /**
   * Lets the conversation continue with what waits in it. The end of the run takes the place of it,
   * so what cannot be told meanwhile is not lost.
   */
  private async keepWaiting(
    state: LoopState,
    pending: PendingStep,
    { past, live }: SuspendedAt,
  ): Promise<void> {
    const { conversation } = this;
    if (!conversation || live.rehearsal) return;
    try {
      const asked = await this.services.suspended.asked(this.plan.execution.run);
      const messages = [...state.messages, ...waitingMessages(pending, asked)];
      const records = [...state.records, ...pending.outcomes.map(({ record }) => record)];
      const added = this.addedBy({ ...state, messages, records }, past, live);
      await conversation.append(added);
    } catch (error) {
      this.logger.warn(
        `The conversation of run ${this.runId} does not tell what waits in it.`,
        error,
      );
    }
  }

  /**
   * A conversation that cannot be kept makes the run an error; the transcript stays with the
   * result.
   */
  private async keep(
    conversation: RunConversation,
    added: readonly Message[],
    state: LoopState,
  ): Promise<LoopState> {
    try {
      await conversation.append(added);
      return state;
    } catch (error) {
      // it is being kept, but the run may not wait for it
      if (error instanceof Interruption) return state;
      return this.failed(
        state,
        new Error('The conversation could not be stored.', { cause: error }),
      );
    }
  }

  private async end(state: LoopState, outer: LinkedSignal): Promise<LoopResult<Output>> {
    this.inputs.close();
    await this.conversation?.leave();
    const result = new FinishedRun<Output>(this.runId, state, this.outputOf(state));
    if (this.held) await this.services.suspended.end(this.held, result.finishReason);
    outer.release();
    if (this.isElsewhere) return this.leave();
    await this.emit(result.end);
    if (this.isElsewhere) return this.leave(); // its end was refused, or is not kept yet
    await this.withdraw(state);
    this.hasEnded = true;
    this.outlet.end();
    const { finishReason } = result;
    return finishReason === 'error' || finishReason === 'aborted'
      ? this.reject(state, result)
      : result;
  }

  /**
   * Withdraws the questions of a waiting run, to a person or a store, which may be answered yet.
   */
  private async withdraw(state: LoopState): Promise<void> {
    const isOver = state.finish?.reason !== 'waiting' && !isUnavailable(state);
    if (isOver && this.mayHaveAsked)
      await this.services.suspended.withdrawPending(this.plan.execution.run);
  }

  private reject(state: LoopState, result = new FinishedRun<Output>(this.runId, state)): never {
    throw new RunError(result, { cause: state.finish?.cause });
  }

  private get isElsewhere(): boolean {
    return this.journal?.isOurs === false || this.held?.isOurs === false;
  }

  private outputOf({ output }: LoopState): Output | undefined {
    const { answer } = this.plan;
    const instance = output?.output;
    return answer && instance instanceof answer.type ? instance : undefined;
  }

  /** The run continues elsewhere: its end is told there. */
  private leave(): never {
    this.hasEnded = true;
    this.outlet.end();
    throw new RunElsewhereError(this.runId);
  }

  private failed(state: LoopState, error: unknown): LoopState {
    return {
      ...state,
      finish: finishFor(error, 'internal', { runId: this.runId, logger: this.logger }),
    };
  }

  /** Emits an event that a person acts on where they look for it: in the root run. */
  private tell(event: LoopEventBody): Told {
    const { within } = this.plan;
    return within && isForPeople(event)
      ? within.live.emit({ ...event, step: within.step })
      : this.emit(event);
  }

  private emit(event: LoopEventBody): Told {
    return this.outlet.emit(event);
  }

  /**
   * The tools it starts or continues with. A run that ends before their hooks have answered has
   * none.
   */
  private async listed(): Promise<Toolset> {
    const { toolset, strictListing, execution } = this.plan;
    if (!strictListing) return toolset;
    return strictlyListed(toolset, { ...execution, signal: this.interruption.signal }).catch(() =>
      Toolset.of([]),
    );
  }
}

/** The services that one run uses. A sub-run is told and kept by the run around it. */
export interface RunParts extends ConversationServices {
  readonly loop: Pick<
    ToolLoop,
    | 'drive'
    | 'callOnce'
    | 'offerAgain'
    | 'followSources'
    | 'isBehind'
    | 'sourceChanges$'
    | 'stateAfter'
    | 'endStep'
    | 'leave'
  >;
  readonly tenants: TenantDirectory | undefined;
  readonly sinks: readonly LoopEventSink[];
  readonly subRuns: SubRunsWithin;
  readonly plugins: Plugins;
  readonly suspended: Pick<
    SuspendedRuns,
    'suspend' | 'claim' | 'end' | 'asked' | 'remember' | 'withdrawPending'
  >;
  readonly open: { add(run: Pick<RunHandle, 'cancel'>, end: Promise<unknown>): void };
}

/** The messages of a run and before it; `past`: how many of them are not the run's own. */
interface Beginning {
  readonly past: number;
  readonly history: readonly Message[];
}

/** The part of a state that a conversation keeps. */
type AddedState = Pick<LoopState, 'messages' | 'toolset' | 'records'>;

interface SuspendedAt {
  readonly past: number;
  readonly live: LiveRun;
}

type Instructing = () => Promise<string | undefined>;
