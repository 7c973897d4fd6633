import { describe, expect, it } from '@jest/globals';
import {
  type FinishReason,
  StorageUnavailableError,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import { tellEnd } from '../../src/run/told-end.js';

function record(id: string, more: Partial<ToolInvocationRecord> = {}): ToolInvocationRecord {
  const base = { id, declaredId: id, toolCallId: id, effect: 'state_change', status: 'succeeded' };
  return { ...base, ...more } as ToolInvocationRecord;
}

const UNKNOWN: Partial<ToolInvocationRecord> = {
  status: 'failed',
  error: { code: 'unknown_outcome', safeMessage: 'It may have taken place.' },
};
const USAGE = { inputTokens: 0, outputTokens: 0 };

/** A call that made these within a sub-run. */
function within(toolCalls: readonly ToolInvocationRecord[]): ToolInvocationRecord {
  const subRun = {
    runId: 's',
    finishReason: 'aborted',
    steps: 1,
    usage: USAGE,
    toolCalls,
  } as const;
  return record('research', { ...UNKNOWN, subRun });
}

const records = [record('look', { effect: 'read_only' }), record('book'), record('pay', UNKNOWN)];
const run = { runId: 'r', records };
const SENTENCE = 'It is unknown whether pay took place: check before you call it again.';

describe('the end of a run whose write may have taken place', () => {
  it.each<readonly [FinishReason, string | undefined, string]>([
    ['aborted', undefined, 'The run was stopped.'],
    ['timeout', 'The run took longer than 5 ms.', 'The run took longer than 5 ms.'],
    ['tool_error', undefined, 'A tool of the run failed.'],
    ['forbidden', undefined, 'The run was refused what it asked for.'],
    ['budget', 'The limit "calls" is 2.', 'The limit "calls" is 2.'],
    ['no_progress', undefined, 'It ended: no_progress.'],
  ])('names the call behind what ended it: %s', (reason, detail, told) => {
    const finish = { reason, ...(detail !== undefined && { detail }) };
    expect(tellEnd(finish, run)).toEqual({
      finishDetail: `${told} ${SENTENCE}`,
      unknownOutcomes: ['pay'],
    });
    expect(tellEnd(finish, { ...run, records: records.slice(0, 2) })).toEqual(
      detail === undefined ? {} : { finishDetail: detail },
    );
  });

  it('names it in the message of an error, and beside what stands after that of a store', () => {
    const failed = { code: 'internal', message: 'The run failed.' } as const;
    expect(tellEnd({ reason: 'error', error: failed }, run)).toEqual({
      error: { ...failed, message: `The run failed. ${SENTENCE}` },
      unknownOutcomes: ['pay'],
    });
    const gone = { code: 'storage_unavailable', message: 'Gone.' } as const;
    const cause = new StorageUnavailableError();
    expect(tellEnd({ reason: 'error', error: gone, cause }, run).error?.message).toMatch(
      /1 call was made and stands: book\. It is unknown whether pay took place\. Do not send/,
    );
  });

  it('names it within a sub-run, and the sub-run if its calls are known', () => {
    for (const [calls, told] of [
      [records, 'pay'],
      [[record('book')], 'research'],
    ] as const)
      expect(
        tellEnd({ reason: 'aborted' }, { runId: 'r', records: [within(calls)] }),
      ).toMatchObject({ unknownOutcomes: [told] });
  });

  it('is left to the model that has answered, and to what a run waits for', () => {
    for (const reason of ['stop', 'length', 'content_filter', 'waiting'] as const)
      expect(tellEnd({ reason }, run)).toEqual({});
  });
});
