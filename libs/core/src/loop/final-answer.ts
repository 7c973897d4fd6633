import { Injectable } from '@nestjs/common';
import type { Message } from '@toolloop/protocol';
import type { LiveRun } from './live-run.js';
import { assistantMessage, type Finish, type LoopState, type StepAnswer } from './loop-state.js';
import { correctionFor, StructuredAnswers } from './structured-answer.js';

const MOST_CORRECTIONS = 1;
const MOST_EMPTY_ANSWERS = 1;

/** An answer without calls: the end of the run, unless it is empty, not what was asked for, or overtaken by another input. */
@Injectable()
export class FinalAnswer {
  constructor(private readonly structured: StructuredAnswers) {}

  async conclude(state: LoopState, answer: StepAnswer, live: LiveRun): Promise<LoopState> {
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
    const reading = await this.structured.read(answer, state.text);
    if ('output' in reading) return { ...state, output: reading, finish: { reason: 'stop' } };
    if (state.corrections >= MOST_CORRECTIONS) return { ...state, finish: INVALID_OUTPUT };
    const correction: Message = {
      role: 'user',
      content: correctionFor(reading.problems),
      labels: { returns: 'untrusted', reads: 'public' },
    };
    return { ...state, corrections: state.corrections + 1, messages: [...state.messages, correction] };
  }
}

const INCOMPLETE: Finish = {
  reason: 'error',
  error: { code: 'model_incomplete', message: 'The model ended before its answer was complete.' },
};
const INVALID_OUTPUT: Finish = {
  reason: 'error',
  error: { code: 'invalid_output', message: 'The model did not give the answer in the form that was asked for.' },
};

/** The state with an answer's text in its transcript, in which nothing blank may stand: some providers refuse it. */
export function withAnswer(state: LoopState, answer: StepAnswer): LoopState {
  const messages = isBlank(answer.text) ? state.messages : [...state.messages, assistantMessage(answer)];
  return { ...state, messages, text: answer.text, citations: answer.citations ?? [] };
}

function isBlank(text: string): boolean {
  return text.trim() === '';
}

async function retryEmpty(state: LoopState, live: LiveRun): Promise<LoopState> {
  if (state.emptyAnswers >= MOST_EMPTY_ANSWERS) return { ...state, finish: { reason: 'no_progress' } };
  await live.emit({
    type: 'warning',
    step: state.step,
    code: 'empty_answer',
    message: 'The model answered nothing; it is asked once more.',
  });
  return { ...state, emptyAnswers: state.emptyAnswers + 1 };
}
