import { Injectable, Logger } from '@nestjs/common';
import { Interruption, linkSignal, untilAborted } from '../../execution/interruption.js';
import { ModelError } from '../../protocol/errors.js';
import type { LanguageModel, ModelEvent, ModelFinishReason, ModelRequest } from '../../protocol/language-model.js';
import { NO_USAGE, addUsage, type Usage } from '../../protocol/usage.js';
import type { LiveRun } from '../live.run.js';
import type { LoopState } from '../loop.state.js';
import { LoopSettings } from '../loop.settings.js';
import { readModel } from '../read-model.js';
import { finishFor } from '../run.failure.js';
import { applyCut, type AppliedCut } from './sent-history.js';

/** Asks the run's history policy how much of the transcript to send, before every model call, and keeps what it says valid. */
@Injectable()
export class HistoryStep {
  private readonly logger = new Logger(HistoryStep.name);

  constructor(private readonly settings: LoopSettings) {}

  /** The state with the cut that holds from now on, and with what finding it cost. Never throws: a run that ends meanwhile has its `finish`. */
  async apply(state: LoopState, live: LiveRun): Promise<LoopState> {
    const { history, execution } = live.plan;
    if (!history) return state;
    const link = linkSignal(live.signal);
    const questions = new HistoryQuestions(state, live, link.signal);
    const { run } = execution;
    const { step, messages } = state;
    const ask = (request: ModelRequest, model?: LanguageModel): Promise<string> =>
      questions.ask(request, model ? this.settings.modelFor(model) : live.plan.model);
    try {
      const proposing = history.cut({ run, step, messages, cut: state.cut, signal: link.signal, ask });
      const proposed = await untilAborted(Promise.resolve(proposing), live.signal);
      if (!proposed) return { ...state, usage: questions.total };
      if (proposed.warning !== undefined) await warn(live, step, proposed.warning);
      return { ...state, usage: questions.total, cut: moved(state.cut, applyCut(messages, proposed)) };
    } catch (error) {
      return await this.unchanged({ ...state, usage: questions.total }, error, live);
    } finally {
      link.abort(new Interruption('aborted', 'The history policy has answered.'));
      link.release();
    }
  }

  private async unchanged(state: LoopState, error: unknown, live: LiveRun): Promise<LoopState> {
    const { runId } = live.plan.execution.run;
    if (live.signal.aborted)
      return { ...state, finish: finishFor(Interruption.from(live.signal), 'internal', { runId, logger: this.logger }) };
    this.logger.error(`The history policy failed (run ${runId}).`, error);
    await warn(live, state.step, 'The history policy failed; as much is sent as before.');
    return state;
  }
}

/** What a policy asks models while it decides, counted as the run's. */
class HistoryQuestions {
  total: Usage;

  constructor(
    private readonly state: LoopState,
    private readonly live: LiveRun,
    private readonly signal: AbortSignal,
  ) {
    this.total = state.usage;
  }

  async ask(request: ModelRequest, model: LanguageModel): Promise<string> {
    const { modelIdleMs } = this.live.plan.execution.limits;
    const answer: TextAnswer = { text: '', usage: NO_USAGE, finishReason: 'incomplete' };
    const failure = await readModel(model, request, { signal: this.signal, modelIdleMs }, (event) => take(event, answer));
    if (this.signal.aborted) throw Interruption.from(this.signal);
    await this.count(answer.usage);
    if (failure !== undefined) throw failure;
    if (answer.finishReason !== 'stop' || answer.text.trim() === '')
      throw new ModelError(`${model.modelId} did not finish its text; it ended with "${answer.finishReason}".`);
    return answer.text;
  }

  private async count(usage: Usage): Promise<void> {
    this.total = addUsage(this.total, usage);
    this.live.use.heard(usage);
    await this.live.emit({ type: 'usage', step: this.state.step, usage, total: this.total });
  }
}

interface TextAnswer {
  text: string;
  usage: Usage;
  finishReason: ModelFinishReason;
}

function take(event: ModelEvent, answer: TextAnswer): void {
  if (event.type === 'text-delta') answer.text += event.text;
  if (event.type === 'usage') answer.usage = event.usage;
  if (event.type === 'finish') answer.finishReason = event.finishReason;
}

/** The very same cut where nothing changed, and with it the very same messages. */
function moved(before: AppliedCut | undefined, after: AppliedCut | undefined): AppliedCut | undefined {
  return before?.from === after?.from && before?.summary === after?.summary ? before : after;
}

async function warn(live: LiveRun, step: number, message: string): Promise<void> {
  await live.emit({ type: 'warning', step, code: 'history_failed', message });
}
