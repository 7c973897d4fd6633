import { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { expectTranscriptValid } from '@toolloop/testing';
import { callIdOf, kindAt, placeOf, planOf } from './plan.js';

/**
 * Answers by looking at the transcript only, so that any process can go on with any run: after so
 * many results the next call, and then a text.
 */
export class PlannedModel extends LanguageModel {
  override readonly provider = 'planned';
  override readonly modelId = 'planned';

  override async *stream({ messages }: ModelRequest): AsyncIterable<ModelEvent> {
    await Promise.resolve();
    // a run that has to say this ends as an error, which is a violation
    expectTranscriptValid(messages);
    const asked = messages.find(({ role }) => role === 'user')?.content;
    const plan = planOf(typeof asked === 'string' ? asked : '');
    const step = messages.filter(({ role }) => role === 'tool').length;
    yield { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } };
    if (step >= plan.steps) {
      yield { type: 'text-delta', text: 'Done.' };
      yield { type: 'finish', finishReason: 'stop' };
      return;
    }
    const args = JSON.stringify({ place: placeOf(plan, step) });
    yield {
      type: 'tool-call',
      toolCallId: callIdOf(step),
      name: `world__${kindAt(plan, step)}`,
      arguments: args,
    };
    yield { type: 'finish', finishReason: 'tool_calls' };
  }
}
