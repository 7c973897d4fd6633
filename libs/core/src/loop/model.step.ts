import { Injectable } from '@nestjs/common';
import { Interruption, linkSignal, type LinkedSignal } from '../execution/interruption.js';
import type { ModelEvent, ModelRequest } from '../protocol/language-model.js';
import { AnswerAssembler, type ModelAnswer } from './answer.assembler.js';
import { InterruptibleIterator } from './interruptible.iterator.js';
import type { LiveRun } from './live.run.js';
import type { LoopState } from './loop.state.js';

/** Asks the model once. */
@Injectable()
export class ModelStep {
  /** Never throws: an answer that was cut short carries its failure, and what had come until then. */
  async ask(state: LoopState, step: number, live: LiveRun): Promise<ModelAnswer> {
    const assembler = new AnswerAssembler(step, state.toolset, live);
    const link = linkSignal(live.signal);
    const silence = new SilenceWatch(link, live.plan.execution.limits.modelIdleMs);
    try {
      const events = new InterruptibleIterator(live.plan.model.stream(toRequest(state, step, live), link.signal), link.signal);
      await readAll(events, assembler, silence).finally(() => events.close());
      return assembler.answer(link.signal.aborted ? Interruption.from(link.signal) : undefined);
    } catch (error) {
      return assembler.answer(link.signal.aborted ? Interruption.from(link.signal) : error);
    } finally {
      silence.stop();
      link.release();
    }
  }
}

async function readAll(events: InterruptibleIterator<ModelEvent>, assembler: AnswerAssembler, silence: SilenceWatch): Promise<void> {
  for (;;) {
    silence.listen();
    const next = await events.next();
    silence.pause();
    if (next.done) return;
    const slowReader = assembler.take(next.value);
    if (slowReader) await slowReader;
  }
}

/** Interrupts a model that stays silent for too long. The time in which the reader of the events makes the run wait does not count. */
class SilenceWatch {
  private timer: NodeJS.Timeout;
  private isListening = false;
  private since = 0;

  constructor(
    private readonly link: LinkedSignal,
    private readonly ms: number,
  ) {
    this.timer = setTimeout(() => this.check(), ms);
  }

  listen(): void {
    this.since = performance.now();
    this.isListening = true;
  }

  pause(): void {
    this.isListening = false;
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private check(): void {
    const silentFor = this.isListening ? performance.now() - this.since : 0;
    if (this.isListening && silentFor >= this.ms) this.link.abort(new Interruption('timeout', `The model was silent for ${this.ms} ms.`));
    else this.timer = setTimeout(() => this.check(), this.ms - silentFor);
  }
}

function toRequest(state: LoopState, step: number, live: LiveRun): ModelRequest {
  const { plan, start } = live;
  const { toolChoice, modelOptions } = plan.options;
  return {
    ...(start.instructions !== undefined && { instructions: start.instructions }),
    messages: state.messages,
    tools: state.toolset.specs,
    // A forced tool would be forced again after its own result: the choice holds for the first step only.
    ...(toolChoice !== undefined && step === 1 && { toolChoice }),
    ...(plan.answer && { answerFormat: plan.answer.format }),
    ...(modelOptions && { options: modelOptions }),
  };
}
