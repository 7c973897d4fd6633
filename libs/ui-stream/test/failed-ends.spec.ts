import { describe, expect, it } from '@jest/globals';
import type { LoopEvent, LoopEventOf } from '@toolloop/protocol';
import {
  agUiEncoder,
  assistantTransportEncoder,
  chatCompletionsEncoder,
  dataStreamEncoder,
  type EventEncoder,
  uiMessageEncoder,
} from '@toolloop/ui-stream';

const STAMP = { runId: 'r1', timestamp: '2026-01-01T00:00:00.000Z' };
const START: LoopEvent = { type: 'run-start', requestId: 'q1', tools: [], ...STAMP, sequence: 1 };

function ended(more: Partial<LoopEventOf<'run-end'>>): LoopEvent {
  const usage = { inputTokens: 1, outputTokens: 1 };
  const end = { type: 'run-end', finishReason: 'aborted', text: '', steps: 1, usage } as const;
  return { ...end, ...STAMP, sequence: 2, ...more };
}

const ENCODERS: readonly (readonly [string, () => EventEncoder, RegExp])[] = [
  ['AI SDK', () => uiMessageEncoder(), /"type":"error"/],
  ['AG-UI', () => agUiEncoder({ threadId: 't', runId: 'r' }), /"type":"RUN_ERROR"/],
  ['the assistant transport', () => assistantTransportEncoder(), /"type":"error"/],
  ['the data stream', () => dataStreamEncoder(), /^3:/m],
  ['chat completions', () => chatCompletionsEncoder({ model: 'm', created: 0 }), /"error":\{/],
];

describe('the end of a run of which it is unknown whether a call took place', () => {
  it.each(ENCODERS)('is told as an error, with its words: %s', (_name, encoder, isError) => {
    for (const finishReason of ['aborted', 'timeout', 'budget', 'tool_error'] as const) {
      const encoding = encoder();
      const finishDetail = `It ended. It is unknown whether pay took place.`;
      const end = ended({ finishReason, finishDetail, unknownOutcomes: ['pay'] });
      const told = [START, end].map((event) => encoding.encode(event)).join('');
      expect(told).toContain(finishDetail);
      expect(told).toMatch(isError);
    }
  });

  it.each(ENCODERS)('is no error if a limit alone ended it: %s', (_name, encoder, isError) => {
    const encoding = encoder();
    const end = ended({ finishReason: 'timeout', finishDetail: 'It took too long.' });
    expect([START, end].map((event) => encoding.encode(event)).join('')).not.toMatch(isError);
  });
});
