import { Logger } from '@nestjs/common';
import { Observable } from 'rxjs';
import { Toolset } from '../catalog/toolset.js';
import { selects } from '../catalog/tool.selection.js';
import { Interruption, linkSignal, untilAborted, withinTime, type LinkedSignal } from '../execution/interruption.js';
import { strictlyListed } from '../execution/tool-permission.js';
import type { ConversationKey, ConversationStore } from '../protocol/conversation-store.js';
import { InvalidRequestError, RunError } from '../protocol/errors.js';
import type { LoopEvent, LoopEventBody, LoopEventSink } from '../protocol/loop-event.js';
import type { LoopResult } from '../protocol/loop-result.js';
import type { Message } from '../protocol/message.js';
import type { Tool } from '../protocol/tool.js';
import type { RunHandle } from '../protocol/run-handle.js';
import { MessageFlow } from '../policy/message.flow.js';
import { assistantMessage } from './assistant-message.js';
import { toMessage } from './tool.step.js';
import { EventOutlet, type EventReader } from './event.outlet.js';
import { LiveRun } from './live.run.js';
import { FinishedRun } from './loop.result.js';
import { firstState, type LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import { PullQueue } from './pull.queue.js';
import { finishFor } from './run.failure.js';
import { RunInputs } from './run.inputs.js';
import type { RunPlan } from './run.plan.js';
import { remainsOf, resumedState, savedRun } from './saved-run.js';
import type { ResumedRun, SuspendedRuns } from './suspended.runs.js';
import type { ToolLoop } from './tool.loop.js';

/** A store that has not kept a conversation by then fails: it must not keep a run from ending. */
const LONGEST_APPEND_MS = 10_000;

/** What a run works with. */
export interface RunServices {
  readonly loop: ToolLoop;
  readonly conversations: ConversationStore;
  readonly sinks: readonly LoopEventSink[];
  readonly suspended: SuspendedRuns;
}

interface SuspendedAt {
  readonly past: number;
  readonly live: LiveRun;
}

/** One run, from its first reader to its `run-end`; or a part of it, where it waits for decisions and goes on later. */
export class LoopRun<Output> implements RunHandle<Output> {
  readonly runId: string;
  readonly events$: Observable<LoopEvent>;
  private readonly logger = new Logger(LoopRun.name);
  private readonly outlet: EventOutlet;
  private readonly inputs = new RunInputs();
  private readonly interruption = new AbortController();
  private running: Promise<LoopResult<Output>> | undefined;
  private hasEnded = false;
  private hasReader = false;

  constructor(
    private readonly plan: RunPlan<Output>,
    private readonly services: RunServices,
    private readonly resumed?: ResumedRun,
  ) {
    this.runId = plan.execution.run.runId;
    const onFailure = (cause: unknown): void => this.interrupt(new Interruption('failed', 'A critical sink failed.', { cause }));
    this.outlet = new EventOutlet(this.runId, services.sinks, onFailure, resumed?.saved.sequence);
    this.events$ = new Observable((subscriber) => {
      this.read({ next: (event) => subscriber.next(event), end: () => subscriber.complete() });
      return () => this.abandon();
    });
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
    if (this.inputs.isClosed) throw new InvalidRequestError('invalid_request', `The run ${this.runId} has ended; start another.`);
    if (message.trim() === '') throw new InvalidRequestError('invalid_request', 'The message is empty.');
    this.inputs.add(message);
  }

  cancel(reason = 'The run was cancelled.'): void {
    this.interrupt(new Interruption('aborted', reason));
  }

  /** Two readers would share one run's events, or run its tools twice; neither is what they want. */
  private read(reader: EventReader): void {
    if (this.hasReader)
      throw new Error(`The events of run ${this.runId} are read already; a run has one reader. Share them with RxJS share().`);
    if (this.running) throw new Error(`The run ${this.runId} has started; read its events before asking for its result.`);
    this.hasReader = true;
    this.outlet.attach(reader);
    void this.start();
  }

  private abandon(): void {
    if (this.hasEnded) return;
    this.outlet.detach();
    this.interrupt(new Interruption('aborted', 'Nobody reads the run any more.'));
  }

  private interrupt(interruption: Interruption): void {
    if (!this.hasEnded) this.interruption.abort(interruption);
  }

  private start(): Promise<LoopResult<Output>> {
    if (!this.running) {
      this.running = this.execute();
      // Whoever reads events only learns of a failure from `run-end`; the rejection must not end the process.
      this.running.catch(() => undefined);
    }
    return this.running;
  }

  private async execute(): Promise<LoopResult<Output>> {
    const { runMs } = this.plan.execution.limits;
    const outer = linkSignal(this.plan.options.signal, { ms: runMs, message: `The run took longer than ${runMs} ms.` });
    const follow = (): void => this.interrupt(Interruption.from(outer.signal));
    if (outer.signal.aborted) follow();
    outer.signal.addEventListener('abort', follow, { once: true });
    const listed = this.listed(); // a run whose tools are known at once starts at once
    const toolset = listed instanceof Promise ? await listed : listed;
    const first = this.resumed ? resumedState(this.resumed, toolset) : firstState(toolset);
    await this.emit(this.startEvent(toolset));
    const state = await this.drive(first).catch((error: unknown) => this.failed(first, error));
    return this.end(state, outer);
  }

  private async drive(first: LoopState): Promise<LoopState> {
    const { signal } = this.interruption;
    const { resumed, plan } = this;
    const instructions = await untilAborted(Promise.resolve(plan.instructions()), signal);
    if (resumed) await this.services.suspended.claim(resumed); // last: what fails before loses no decision
    const { past, history } = resumed ? { past: resumed.saved.past, history: resumed.saved.state.messages } : await this.loaded();
    const start = { instructions, history, inputs: this.inputs, ...(resumed && { resumed }) };
    const live = new LiveRun(plan, start, signal, (event) => this.emit(event));
    const last = await this.services.loop.drive({ ...first, messages: history }, live);
    if (last.pending && last.finish?.reason === 'waiting') return this.suspend(last, last.pending, { past, live });
    const state = last.pending ? closed(last, last.pending) : last;
    const hasAnswer = state.messages.slice(past).some(({ role }) => role === 'assistant');
    return plan.conversation && hasAnswer ? this.keep(plan.conversation, labelled(state.messages).slice(past), state) : state;
  }

  private async loaded(): Promise<{ readonly past: number; readonly history: readonly Message[] }> {
    const { conversation, messages } = this.plan;
    if (!conversation) return { past: 0, history: messages };
    const earlier = await untilAborted(this.services.conversations.load(conversation), this.interruption.signal);
    return { past: earlier.length, history: [...earlier, ...messages] };
  }

  /** A run that cannot be kept until somebody decides is an error: it would wait for ever. */
  private async suspend(state: LoopState, pending: PendingStep, { past, live }: SuspendedAt): Promise<LoopState> {
    const { execution, conversation } = this.plan;
    const { run, requestId, actorId } = execution;
    const owner = { runId: run.runId, tenant: run.tenant, ...(actorId !== undefined && { actorId }) };
    const about = { requestId, ...(conversation && { conversationId: conversation.conversationId }), past };
    // The run-end follows, and is the last event of this part of the run.
    const saved = savedRun(state, pending, live, { ...about, sequence: this.outlet.lastSequence + 1 });
    try {
      await this.services.suspended.keep(owner, saved, remainsOf(state, pending, live));
      return state;
    } catch (error) {
      return this.failed(closed(state, pending), new Error('The run could not be kept until it is decided.', { cause: error }));
    }
  }

  /** A conversation that cannot be kept makes the run an error; the transcript stays with the result. */
  private async keep(conversation: ConversationKey, added: readonly Message[], state: LoopState): Promise<LoopState> {
    try {
      await withinTime(this.services.conversations.append(conversation, added), LONGEST_APPEND_MS);
      return state;
    } catch (error) {
      return this.failed(state, new Error('The conversation could not be kept.', { cause: error }));
    }
  }

  private async end(state: LoopState, outer: LinkedSignal): Promise<LoopResult<Output>> {
    outer.release();
    this.inputs.close();
    const { answer } = this.plan;
    const instance = state.output?.output;
    const output = answer && instance instanceof answer.type ? instance : undefined;
    const result = new FinishedRun<Output>(this.runId, state, output);
    const { finishReason, text, steps, usage, error } = result;
    const shown = state.output && { output: state.output.json };
    await this.emit({ type: 'run-end', finishReason, text, ...shown, steps, usage, ...(error && { error }) });
    this.hasEnded = true;
    this.outlet.end();
    if (finishReason === 'error' || finishReason === 'aborted') throw new RunError(result, { cause: state.finish?.cause });
    return result;
  }

  private failed(state: LoopState, error: unknown): LoopState {
    return { ...state, finish: finishFor(error, 'internal', { runId: this.runId, logger: this.logger }) };
  }

  private emit(event: LoopEventBody): void | Promise<void> {
    return this.outlet.emit(event);
  }

  /** The tools it starts or goes on with. A run that ends before their hooks have answered has none. */
  private listed(): Toolset | Promise<Toolset> {
    const { toolset, strictListing, execution } = this.plan;
    const { exclude } = this.plan.injection;
    const { saved, remains } = this.resumed ?? {};
    const isLeft = (tool: Tool): boolean => !exclude.some((selector) => selects(selector, { tool }));
    const kept = toolset.with(remains?.injected.filter(isLeft) ?? [], remains?.behindSurfaces.filter(isLeft)).toolset;
    const known = kept.remembering(saved?.gone ?? []);
    if (!strictListing) return known;
    return strictlyListed(known, { ...execution, signal: this.interruption.signal }).catch(() => Toolset.of([]));
  }

  private startEvent(toolset: Toolset): LoopEventBody {
    const { model, conversation, execution } = this.plan;
    const tools = toolset.specs.map(({ id }) => id);
    return {
      type: 'run-start',
      requestId: execution.requestId,
      ...(conversation && { conversationId: conversation.conversationId }),
      model: model.modelId,
      tools,
    };
  }
}

/** A model's words are worth what it had read: a store that forgets what that was must not forget this. */
function labelled(messages: readonly Message[]): readonly Message[] {
  const { integrity, confidentiality } = MessageFlow.of(messages);
  return messages.map((message) =>
    message.role === 'assistant' ? { ...message, labels: { returns: integrity, reads: confidentiality } } : message,
  );
}

/** A run that waited and ended otherwise: what its last step did stays in the transcript, and what waited was not done. */
function closed(state: LoopState, { answer, outcomes }: PendingStep): LoopState {
  const aborted = { code: 'aborted', safeMessage: 'The run ended before anybody decided, so the call was not made.' } as const;
  const results = outcomes.map((outcome) => {
    if (!outcome.isPending) return outcome;
    return { ...outcome, content: aborted.safeMessage, record: { ...outcome.record, status: 'failed', error: aborted } as const };
  });
  return {
    ...state,
    pending: undefined,
    messages: [...state.messages, assistantMessage(answer), ...results.map((result) => toMessage(result, answer.calls))],
    records: [...state.records, ...results.map(({ record }) => record)],
  };
}
