import { Injectable } from '@nestjs/common';
import { AnswerAssembler, type ModelAnswer } from './answer.assembler.js';
import type { LiveRun } from './live.run.js';
import { readModel } from './read-model.js';
import type { PreparedStep } from './step.preparation.js';

/** Asks the model once. */
@Injectable()
export class ModelStep {
  /** Never throws: an answer that was cut short carries its failure, and what had come until then. */
  async ask({ step, model, toolset, request }: PreparedStep, live: LiveRun): Promise<ModelAnswer> {
    const assembler = new AnswerAssembler(step, toolset, live);
    const { modelIdleMs } = live.plan.execution.limits;
    const failure = await readModel(model, request, { signal: live.signal, modelIdleMs }, (event) => assembler.take(event));
    return assembler.answer(failure);
  }
}
