import { Injectable } from '@nestjs/common';
import {
  addUsage,
  type Message,
  type ModelFinishReason,
  StorageUnavailableError,
  type ToolCall,
} from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import type { Toolset } from '../catalog/toolset.js';
import { Interruption } from '../contracts/interruption.js';
import { Logger } from '../findings/logger.js';
import type { LiveRun } from '../run/live-run.js';
import {
  assistantMessage,
  type Finish,
  type LoopState,
  type PendingStep,
  type PreparedStep,
  type StepAnswer,
} from './loop-state.js';
import { type FailedRun, finishFor, INCOMPLETE } from '../run/run-fault.js';
import { type AskedModel, askModel } from './model-step.js';
import { nameOfModel } from '../models/model-name.js';
import { HistoryStep } from '../plugins/history/history-step.js';
import { isOfNoModel, RehearsalStep } from '../plugins/rehearsals/rehearsal-step.js';
import { StepPreparation } from './step-preparation.js';
import { stopFor } from './run-stop.js';
import { withAuthorityOfNow, withSourcesOfNow, withToolNotes } from './refreshed-tools.js';
import { correctionFor } from '../plugins/structured-output/structured-answer.js';
import { ResultInjection } from '../plugins/injection/result-injection.js';
import { ToolStep, type ToolStepContext, type ToolStepResult } from './tool-step.js';
import { LoopSettings } from '../run/loop-settings.js';
import { DirectiveUpdates } from '../plugins/directives/directive-updates.js';
import { BoundedStores } from '../call/bounded-stores.js';
import { offerAgain, type OfferedAgain } from '../plugins/entities/conversation-entities.js';
import { ToolProviderExtractor } from '../plugins/entities/entity-extraction.js';
import type { RunRehearsal } from '../plugins/rehearsals/run-rehearsal.js';
import { ToolRunner } from '../call/tool-runner.js';
import { ToolCatalog } from '../catalog/tool-catalog.js';

/**
 * The loop: ask the model, run its calls, again, until a finish reason holds. There is no other.
 */
@Injectable()
export class ToolLoop {
  private readonly logger = new Logger(ToolLoop.name);

  private readonly history: HistoryStep;
  private readonly preparation: StepPreparation;
  private readonly tools: ToolStep;
  private readonly rehearsals: RehearsalStep;

  constructor(
    private readonly settings: LoopSettings,
    private readonly catalog: ToolCatalog,
    private readonly runner: ToolRunner,
    entities: ToolProviderExtractor,
    private readonly stores: BoundedStores,
  ) {
    this.history = new HistoryStep(settings);
    this.preparation = new StepPreparation(settings, catalog);
    const updates = new DirectiveUpdates(stores.directives);
    this.tools = new ToolStep(runner, entities, updates, new ResultInjection(settings));
    this.rehearsals = new RehearsalStep(runner, updates, settings.answers);
  }

  /** The last state; it has a `finish`, unless the run continues elsewhere. Never rejects. */
  drive(first: LoopState, live: LiveRun): Promise<LoopState> {
    const { hooks, view } = live.plugins;
    const drive = (): Promise<LoopState> => this.driven(first, live);
    return hooks.aroundRun ? hooks.aroundRun(view, drive) : drive();
  }

  private async driven(first: LoopState, live: LiveRun): Promise<LoopState> {
    let state = first.pending ? first : withLimit(first, live);
    while (!state.finish && !live.isElsewhere) state = await this.step(state, live);
    this.leave(live.plan.execution.run.runId);
    return state;
  }

  /**
   * Makes one call without a model, as a step of the loop makes it. Rejects where a store does not
   * answer before the call is begun.
   */
  callOnce(call: ToolCall, context: ToolStepContext): Promise<ToolStepResult> {
    return this.tools.callOnce(call, context);
  }

  /** Offers the entities that the conversation of a run holds. */
  offerAgain(toolset: Toolset, earlier: readonly Message[], live: LiveRun): Promise<OfferedAgain> {
    const isOff = live.plan.injection.strategies.length === 0;
    if (isOff) return Promise.resolve({ toolset, events: [] });
    return offerAgain(toolset, earlier, {
      catalog: this.catalog,
      handles: live.handles,
      rules: live.injectionRules(),
    });
  }

  /** Stops telling a run of what continues without it. */
  leave(runId: string): void {
    this.tools.leave(runId);
  }

  /**
   * Emits whenever a source has changed its tools, for sessions that are watched between their
   * calls.
   */
  get sourceChanges$(): Observable<unknown> {
    return this.catalog.changes$;
  }

  /** Tells whether a source has changed its tools since those of a run were listed. */
  isBehind({ listedAt }: Pick<LiveRun, 'listedAt'>): boolean {
    return listedAt !== this.catalog.version;
  }

  /** Returns the state with the tools of sources as they are by now. */
  followSources(state: LoopState, live: LiveRun): Promise<LoopState> {
    return withSourcesOfNow(state, live, this.catalog);
  }

  private async step(state: LoopState, live: LiveRun): Promise<LoopState> {
    const { rehearsal, recorder } = live;
    const next = await (rehearsal
      ? this.rehearsed(state, live, rehearsal)
      : this.stepped(state, live));
    recorder?.stepped(next);
    return next;
  }

  private stepped(state: LoopState, live: LiveRun): Promise<LoopState> {
    return state.pending ? this.resume(state, state.pending, live) : this.nextStep(state, live);
  }

  /**
   * A step of a rehearsal, behind the last of which people are asked and its changes are performed.
   */
  private async rehearsed(
    state: LoopState,
    live: LiveRun,
    rehearsal: RunRehearsal,
  ): Promise<LoopState> {
    const isOver = state.pending && isOfNoModel(state.pending);
    const ended = isOver ? state : await this.stepped(state, live);
    return isOver || ended.finish
      ? this.rehearsals.conclude(ended, { live, rehearsal, failed: this.failedRun(live) })
      : ended;
  }

  /**
   * Runs the calls of a step whose answer is there, as may be some of its results: it has waited,
   * or its calls were made without a model. Never rejects.
   */
  async resume(waiting: LoopState, pending: PendingStep, live: LiveRun): Promise<LoopState> {
    const state = { ...waiting, pending: undefined };
    try {
      const next = await this.runCalls(state, pending, live, pending);
      return await this.settled(
        withoutModel(await this.concluded(next, pending, live), live),
        live,
      );
    } catch (error) {
      return settle({ ...state, finish: finishFor(error, 'internal', this.failedRun(live)) }, live);
    }
  }

  private async nextStep(state: LoopState, live: LiveRun): Promise<LoopState> {
    let begun: LoopState = { ...state, messages: [...state.messages, ...live.inputs.take()] };
    try {
      const { hooks, view } = live.plugins;
      const finish = await hooks.stepping?.(view);
      if (finish) return settle({ ...begun, finish }, live);
      const listed = await this.followSources(begun, live);
      begun = { ...(await withAuthorityOfNow(listed, live)), step: state.step + 1 };
      live.use.beginStep();
      const tools = begun.toolset.specs.length;
      await live.emit({ type: 'step-start', step: begun.step, tools });
      if (live.plan.history) begun = await this.history.apply(begun, live);
      live.use.spend(begun.usage);
      if (begun.finish) return settle(begun, live);
      begun = withToolNotes(begun);
      const prepared = await this.preparation.prepare(begun, live);
      return await this.settled(await this.answerAndCalls(begun, prepared, live), live);
    } catch (error) {
      return settle({ ...begun, finish: finishFor(error, 'internal', this.failedRun(live)) }, live);
    }
  }

  private async answerAndCalls(
    state: LoopState,
    prepared: PreparedStep,
    live: LiveRun,
  ): Promise<LoopState> {
    const tools = live.sentTools.send(prepared.request.tools);
    const { answer, failure } = await this.asked(prepared, live);
    const asked = { ...state, usage: addUsage(state.usage, answer.usage) };
    const counting = live.answered(answer.usage, answer.answeredBy ?? nameOfModel(prepared.model));
    live.use.spend(asked.usage);
    await counting;
    await live.emit({
      type: 'usage',
      step: state.step,
      usage: answer.usage,
      total: asked.usage,
      tools,
    });
    if (failure !== undefined) {
      const partial = answer.text === '' ? asked : withAnswer(asked, withoutCalls(answer));
      return { ...partial, finish: finishFor(failure, 'model_error', this.failedRun(live)) };
    }
    const isRunnable = answer.toolCalls.length > 0 && RUNNABLE.has(answer.finishReason);
    const step = { answer, offered: prepared.toolset };
    const next = await (isRunnable
      ? this.runCalls(asked, step, live)
      : this.conclude(asked, withoutCalls(answer), live));
    return this.concluded(next, step, live);
  }

  private asked(prepared: PreparedStep, live: LiveRun): Promise<AskedModel> {
    const { hooks, view } = live.plugins;
    const ask = (): Promise<AskedModel> => askModel(prepared, live);
    if (!hooks.aroundModel) return ask();
    const { step, request, model } = prepared;
    const { provider, modelId } = model;
    return hooks.aroundModel({ step, provider, modelId, request }, view, ask);
  }

  /**
   * An answer without calls: the end of the run, unless it is empty, not what was asked for, or
   * overtaken by another input.
   */
  private async conclude(state: LoopState, answer: StepAnswer, live: LiveRun): Promise<LoopState> {
    const next = withAnswer(state, answer);
    switch (answer.finishReason) {
      case 'length':
      case 'content_filter':
        return { ...next, finish: { reason: answer.finishReason } };
      case 'incomplete':
        return { ...next, finish: INCOMPLETE };
      case 'stop':
      case 'tool_calls':
        return this.accept(next, live);
    }
  }

  private async accept(state: LoopState, live: LiveRun): Promise<LoopState> {
    if (isBlank(state.text)) return retryEmpty(state, live);
    if (!live.inputs.isEmpty) return state;
    const { answer } = live.plan;
    if (!answer) return { ...state, finish: { reason: 'stop' } };
    const reading = await this.settings.answers.read(answer, state.text, live.hiddenTexts);
    if ('output' in reading) return { ...state, output: reading, finish: { reason: 'stop' } };
    if (state.corrections >= MOST_CORRECTIONS) return { ...state, finish: INVALID_OUTPUT };
    const correction: Message = {
      role: 'user',
      content: correctionFor(reading.problems),
      labels: { returns: 'untrusted', reads: 'public' },
    };
    return {
      ...state,
      corrections: state.corrections + 1,
      messages: [...state.messages, correction],
    };
  }

  private async concluded(state: LoopState, step: AnsweredStep, live: LiveRun): Promise<LoopState> {
    const finish = state.pending ? undefined : await this.endStep(state, step, live);
    if (!live.signal.aborted) return finish && !state.finish ? { ...state, finish } : state;
    const interruption = Interruption.from(live.signal);
    return { ...state, finish: finishFor(interruption, 'internal', this.failedRun(live)) };
  }

  /** @param before the state of a step that was begun before */
  private async runCalls(
    state: LoopState,
    step: AnsweredStep,
    live: LiveRun,
    before?: PendingStep,
  ): Promise<LoopState> {
    const { answer, offered } = step;
    const history = [...state.messages, assistantMessage(answer)];
    if (!before)
      await live.recorder?.answered(state, { answer, offered, outcomes: [], isPlanned: false });
    const { step: number, toolset: given } = state;
    const { session } = live.plan;
    const context = {
      step: number,
      toolset: given,
      offered,
      history: () => history,
      live,
      session,
      ...(before && { pending: before }),
    };
    return this.stateAfter(state, step, this.tools.run(answer.toolCalls, context), {
      live,
      ...(before && { before }),
    });
  }

  /**
   * The state after the calls of an answer. Appends the answer and their results as one unit, so
   * that no call ever stands without its result.
   */
  async stateAfter(
    state: LoopState,
    { answer, offered }: AnsweredStep,
    made: Promise<ToolStepResult>,
    { live, before }: { readonly live: LiveRun; readonly before?: PendingStep },
  ): Promise<LoopState> {
    const result = await made.catch((error: unknown) => unbegun(error, before));
    const usage = live.use.includeSubRuns(state.usage);
    const { text, citations = [] } = answer;
    if ('unavailable' in result) {
      const finish = finishFor(result.unavailable, 'internal', this.failedRun(live));
      return {
        ...state,
        usage,
        text,
        citations,
        pending: { answer, offered, ...result.pending },
        finish,
      };
    }
    const { messages, records, toolset, finish, pending } = result;
    if (pending?.outcomes.some(({ record }) => record.decision?.isStopped)) this.hold(live);
    if (pending)
      return {
        ...state,
        usage,
        text,
        citations,
        pending: { answer, offered, ...pending },
        finish: this.waitingFor(pending, live),
      };
    return {
      ...state,
      usage,
      messages: [...state.messages, assistantMessage(answer), ...messages],
      records: [...state.records, ...records],
      toolset,
      text,
      citations,
      ...(finish && { finish }),
    };
  }

  /** A step that ends no run by itself may be the one that its stop conditions wait for. */
  private async settled(state: LoopState, live: LiveRun): Promise<LoopState> {
    const next = overtaken(state, live);
    if (next.finish || live.plan.stopWhen.length === 0) return settle(next, live);
    try {
      const stopped = await stopFor(next, live);
      return settle(stopped ? { ...next, finish: stopped } : next, live);
    } catch (error) {
      return settle({ ...next, finish: finishFor(error, 'internal', this.failedRun(live)) }, live);
    }
  }

  /**
   * Tells that a step has ended, and what became of it. Returns the end that a plugin gives the run
   * for it; a plugin that fails here ends the run as well.
   */
  async endStep(
    state: LoopState,
    { answer, offered }: AnsweredStep,
    live: LiveRun,
  ): Promise<Finish | undefined> {
    const toolCalls = state.records.filter(({ step }) => step === state.step);
    const { finishReason: modelFinishReason, answeredBy, response } = answer;
    const by = {
      ...(answeredBy !== undefined && { model: answeredBy }),
      ...(response && { response }),
    };
    await live.emit({
      type: 'step-end',
      step: state.step,
      modelFinishReason,
      toolCalls: toolCalls.length,
      ...by,
    });
    const { hooks, view } = live.plugins;
    if (!hooks.stepped) return undefined;
    const { step, usage, messages } = state;
    const ids = offered.specs.map(({ id }) => id);
    const ended = { step, usage, records: toolCalls, offered: ids, messageCount: messages.length };
    return hooks
      .stepped(ended, view)
      .catch((error: unknown) => finishFor(error, 'internal', this.failedRun(live)));
  }

  /**
   * A step whose calls wait for a person waits; one whose calls wait for a store ends the run here.
   */
  private waitingFor({ outcomes }: Pick<PendingStep, 'outcomes'>, live: LiveRun): Finish {
    const { unavailable } = outcomes.find((outcome) => outcome.unavailable) ?? {};
    if (unavailable) return finishFor(unavailable, 'internal', this.failedRun(live));
    const { waitingFor } = outcomes.find((outcome) => outcome.waitingFor) ?? {};
    return { reason: 'waiting', ...(waitingFor && { waitingFor }) };
  }

  /**
   * A run of which an operator has stopped something that waits is looked at again once it was
   * released; by any process some time, since this one may be gone then.
   */
  private hold({ plan }: LiveRun): void {
    const { runId, path = [runId] } = plan.execution.run;
    const root = path[0] ?? runId;
    this.settings.inForce.heldRuns.add(root);
    const looking = this.stores.runs.wakeAt(root, new Date(Date.now() + LOOK_AT_HELD_MS));
    looking.catch((error: unknown) =>
      this.logger.warn(`The run ${root} is held, and may have to be resumed by hand.`, error),
    );
  }

  private failedRun(live: LiveRun): FailedRun {
    return { runId: live.plan.execution.run.runId, logger: this.logger };
  }
}

/** A model's answer, and the tools it was given for it. */
export interface AnsweredStep {
  readonly answer: StepAnswer;
  readonly offered: Toolset;
}

interface UnbegunStep {
  readonly unavailable: StorageUnavailableError;
  readonly pending: Pick<PendingStep, 'outcomes' | 'isPlanned' | 'checkpoints' | 'limit'>;
}

/** More often would write a run's end again and again. */
const LOOK_AT_HELD_MS = 300_000;
const MOST_CORRECTIONS = 1;
const MOST_EMPTY_ANSWERS = 1;

const INVALID_OUTPUT: Finish = {
  reason: 'error',
  error: {
    code: 'invalid_output',
    message: 'The model did not give the answer in the form that was asked for.',
  },
};

/**
 * The state with an answer's text in its transcript, in which nothing blank may stand: some
 * providers refuse it.
 */
function withAnswer(state: LoopState, answer: StepAnswer): LoopState {
  const messages = isBlank(answer.text)
    ? state.messages
    : [...state.messages, assistantMessage(answer)];
  return { ...state, messages, text: answer.text, citations: answer.citations ?? [] };
}

function isBlank(text: string): boolean {
  return text.trim() === '';
}

async function retryEmpty(state: LoopState, live: LiveRun): Promise<LoopState> {
  if (state.emptyAnswers >= MOST_EMPTY_ANSWERS)
    return { ...state, finish: { reason: 'no_progress' } };
  await live.emit({
    type: 'warning',
    step: state.step,
    code: 'empty_answer',
    message: 'The model answered nothing; it is asked once more.',
  });
  return { ...state, emptyAnswers: state.emptyAnswers + 1 };
}

/** A step of which no call could be made, since a store does not answer for now. */
function unbegun(error: unknown, before: PendingStep | undefined): UnbegunStep {
  const unavailable = StorageUnavailableError.in(error);
  if (!unavailable) throw error;
  return { unavailable, pending: { outcomes: [], isPlanned: false, ...before } };
}

/** A model that was cut off, or filtered, may have made half a call: nothing of it is run. */
const RUNNABLE = new Set<ModelFinishReason>(['stop', 'tool_calls']);

/**
 * Removes the calls of an answer. The provider's opaque data may refer to them, so it is removed
 * with them.
 */
function withoutCalls(answer: StepAnswer): StepAnswer {
  const { providerData: _ofCalls, ...rest } = answer;
  return answer.toolCalls.length === 0 ? answer : { ...rest, toolCalls: [] };
}

/** An input overtakes a final answer. */
function overtaken(state: LoopState, live: LiveRun): LoopState {
  const isOvertaken = state.finish?.reason === 'stop' && !live.inputs.isEmpty;
  return isOvertaken ? { ...state, finish: undefined, output: undefined } : state;
}

/**
 * The last word on a step: a limit ends a run that would continue, and a run that is over takes no
 * more inputs. Those that came during a step that waits stay behind its calls, which are not in the
 * transcript yet.
 */
function settle(state: LoopState, live: LiveRun): LoopState {
  const settled = state.finish ? state : withLimit(state, live);
  if (!settled.finish) return settled;
  live.inputs.close();
  return settled.pending
    ? settled
    : { ...settled, messages: [...settled.messages, ...live.inputs.take()] };
}

/** A run of one call ends with the call: there is no model to read its result. */
function withoutModel(state: LoopState, { plan }: LiveRun): LoopState {
  return plan.isOneCall && !state.finish ? { ...state, finish: { reason: 'stop' } } : state;
}

function withLimit(state: LoopState, live: LiveRun): LoopState {
  const finish = live.use.limitReached();
  return finish ? { ...state, finish } : state;
}
