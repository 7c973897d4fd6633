import { describe, expect, it } from '@jest/globals';
import type { LoopEvent, LoopEventBody } from '@toolloop/protocol';
import { ChatView } from '../src/chat-view.js';

/** The text that a chat without colours shows of these events. */
function shownOf(...bodies: readonly LoopEventBody[]): string {
  let shown = '';
  const view = new ChatView((text) => (shown += text), false);
  for (const [index, body] of bodies.entries()) {
    const event: LoopEvent = { ...body, runId: 'r1', sequence: index + 1, timestamp: '' };
    view.show(event);
  }
  return shown;
}

const says = (text: string): LoopEventBody => ({ type: 'text-delta', step: 1, text });
const ends: LoopEventBody = { type: 'step-end', step: 1, modelFinishReason: 'stop', toolCalls: 0 };

describe('a chat at a terminal', () => {
  it('shows the sources that a model names below its text, each once, and as text', () => {
    const weather: LoopEventBody = {
      type: 'citation',
      step: 1,
      citation: { url: 'https://weather.example/', title: 'The \u001b[31mweather' },
    };
    const rules: LoopEventBody = {
      type: 'citation',
      step: 1,
      citation: { source: 'rules.pdf', quote: 'Rain.' },
    };
    expect(shownOf(says('It rains'), weather, says(' today.'), weather, rules, ends)).toBe(
      'It rains today.\n↗ The \\u{1b}[31mweather https://weather.example/\n↗ rules.pdf\n',
    );
  });

  it('tells what ended a run that has no error, with the calls whose outcome is unknown', () => {
    const usage = { inputTokens: 1, outputTokens: 1 };
    const finishDetail = 'The run was stopped. It is unknown whether pay took place.';
    const unknownOutcomes = ['pay'];
    const end = { finishReason: 'aborted', text: '', steps: 1, usage } as const;
    expect(shownOf({ type: 'run-end', ...end, finishDetail, unknownOutcomes })).toBe(
      `The run ended: aborted: ${finishDetail}\n`,
    );
    expect(shownOf({ type: 'run-end', ...end })).toBe('The run ended: aborted\n');
  });
});
