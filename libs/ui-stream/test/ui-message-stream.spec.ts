import { describe, expect, it } from '@jest/globals';
import type { MessageEvent } from '@nestjs/common';
import type {
  ApprovalRequest,
  JsonValue,
  LoopEvent,
  LoopEventBody,
  LoopEventOf,
  RehearsalReport,
  RehearsedCall,
  ToolInvocationRecord,
} from '@toolloop/protocol';
import {
  readUiMessageRequest,
  toUiMessageStream,
  type UiMessageStreamOptions,
} from '@toolloop/ui-stream';
import { from } from 'rxjs';

const TIME = '2026-01-01T00:00:00.000Z';
const USAGE = { inputTokens: 10, outputTokens: 5 };
const START: LoopEventBody = { type: 'run-start', requestId: 'q1', tools: ['mail'] };
const STEP: LoopEventBody = { type: 'step-start', step: 1, tools: 1 };
const CALL: LoopEventBody = {
  type: 'tool-call',
  step: 1,
  toolCallId: 'c1',
  tool: 'mail',
  args: { to: 'ann' },
};
const SHOWN_CALL = {
  type: 'tool-input-available',
  toolCallId: 'c1',
  toolName: 'mail',
  input: { to: 'ann' },
};
const ASKED: ApprovalRequest = {
  approvalId: 'a1',
  runId: 'r1',
  step: 1,
  toolCallId: 'c1',
  tool: 'mail',
  declaredId: 'mail',
  args: { to: 'ann' },
  reason: 'Mail leaves the company.',
  mayEdit: false,
  mayRemember: false,
  expiresAt: '2026-01-02T00:00:00.000Z',
};

function stamped(bodies: readonly LoopEventBody[], runId = 'r1'): LoopEvent[] {
  return bodies.map((body, index) => ({ ...body, runId, sequence: index + 1, timestamp: TIME }));
}

/** The data of the frames that a client receives. */
function framesOf(
  bodies: readonly LoopEventBody[],
  options?: UiMessageStreamOptions,
): MessageEvent['data'][] {
  const frames: MessageEvent['data'][] = [];
  from(stamped(bodies))
    .pipe(toUiMessageStream(options))
    .subscribe(({ data }) => frames.push(data));
  return frames;
}

/** The chunks between the first one, `start`, and the last frame, `[DONE]`. */
function chunksOf(
  bodies: readonly LoopEventBody[],
  options?: UiMessageStreamOptions,
): MessageEvent['data'][] {
  return framesOf(bodies, options).slice(1, -1);
}

function resultOf(record: Partial<ToolInvocationRecord>): LoopEventBody {
  const at = new Date(TIME);
  const call = { toolCallId: 'c1', id: 'mail', args: { to: 'ann' }, step: 1, index: 0, attempt: 1 };
  return {
    type: 'tool-result',
    step: 1,
    record: { ...call, status: 'succeeded', startedAt: at, endedAt: at, durationMs: 0, ...record },
  };
}

function ended(end: Partial<LoopEventOf<'run-end'>>): LoopEventBody {
  return { type: 'run-end', finishReason: 'stop', text: '', steps: 1, usage: USAGE, ...end };
}

function says(text: string, type: 'text-delta' | 'reasoning-delta' = 'text-delta'): LoopEventBody {
  return { type, step: 1, text };
}

describe('toUiMessageStream', () => {
  it('gives the message the id of the run, and ends with the usage and [DONE]', () => {
    const messageMetadata = { runId: 'r1', finishReason: 'stop', stepCount: 1, usage: USAGE };
    expect(framesOf([START, STEP, ended({})])).toEqual([
      { type: 'start', messageId: 'r1', messageMetadata: { runId: 'r1' } },
      { type: 'start-step' },
      { type: 'finish-step' },
      { type: 'finish', finishReason: 'stop', messageMetadata },
      '[DONE]',
    ]);
  });

  it('puts successive pieces of text in one part, and closes it before the reasoning that follows', () => {
    expect(
      chunksOf([STEP, says('He'), says('llo'), says('Hm', 'reasoning-delta'), ended({})]).slice(
        1,
        -2,
      ),
    ).toEqual([
      { type: 'text-start', id: 'text-1-2' },
      { type: 'text-delta', id: 'text-1-2', delta: 'He' },
      { type: 'text-delta', id: 'text-1-2', delta: 'llo' },
      { type: 'text-end', id: 'text-1-2' },
      { type: 'reasoning-start', id: 'reasoning-1-4' },
      { type: 'reasoning-delta', id: 'reasoning-1-4', delta: 'Hm' },
      { type: 'reasoning-end', id: 'reasoning-1-4' },
    ]);
  });

  it('closes the text before a call, and streams the arguments, the call, its progress and its result', () => {
    const piece = { type: 'tool-call-delta', step: 1, toolCallId: 'c1', tool: 'mail' } as const;
    const progress: LoopEventBody = {
      type: 'tool-progress',
      step: 1,
      toolCallId: 'c1',
      tool: 'mail',
      value: 50,
    };
    const pieces = [
      { ...piece, argumentsDelta: '{"to":' },
      { ...piece, argumentsDelta: '"ann"}' },
    ];
    expect(
      chunksOf([says('a'), ...pieces, CALL, progress, resultOf({ result: { sent: true } })]).slice(
        2,
      ),
    ).toEqual([
      { type: 'text-end', id: 'text-1-1' },
      { type: 'tool-input-start', toolCallId: 'c1', toolName: 'mail' },
      { type: 'tool-input-delta', toolCallId: 'c1', inputTextDelta: '{"to":' },
      { type: 'tool-input-delta', toolCallId: 'c1', inputTextDelta: '"ann"}' },
      SHOWN_CALL,
      { type: 'tool-output-available', toolCallId: 'c1', output: 50, preliminary: true },
      {
        type: 'tool-output-available',
        toolCallId: 'c1',
        providerExecuted: true,
        output: { sent: true },
      },
    ]);
  });

  it('says that the arguments of a call could not be read', () => {
    const unreadable: LoopEventBody = {
      type: 'tool-call',
      step: 1,
      toolCallId: 'c1',
      tool: 'mail',
    };
    const errorText = 'The arguments of this call could not be read.';
    expect(chunksOf([unreadable])).toEqual([
      { type: 'tool-input-error', toolCallId: 'c1', toolName: 'mail', input: {}, errorText },
    ]);
  });

  it('shows the safe message of a call that failed, and marks one that a person denied', () => {
    const failed = resultOf({
      status: 'failed',
      error: { code: 'timeout', safeMessage: 'The mailer is slow.' },
    });
    const denied = resultOf({
      status: 'denied',
      error: { code: 'approval_denied', safeMessage: 'Not today.' },
    });
    expect(chunksOf([CALL, failed])).toEqual([
      SHOWN_CALL,
      {
        type: 'tool-output-error',
        toolCallId: 'c1',
        providerExecuted: true,
        errorText: 'The mailer is slow.',
      },
    ]);
    expect(chunksOf([CALL, denied])).toEqual([
      SHOWN_CALL,
      { type: 'tool-output-denied', toolCallId: 'c1' },
    ]);
  });

  it('asks for an approval, sends no result of the call that waits, and finishes so that the client answers', () => {
    const asks: LoopEventBody = { type: 'approval-request', step: 1, approval: ASKED };
    expect(
      chunksOf([CALL, asks, resultOf({ status: 'waiting' }), ended({ finishReason: 'waiting' })]),
    ).toEqual([
      SHOWN_CALL,
      {
        type: 'tool-approval-request',
        approvalId: 'a1',
        toolCallId: 'c1',
        reason: 'Mail leaves the company.',
      },
      expect.objectContaining({ type: 'finish', finishReason: 'tool-calls' }),
    ]);
  });

  it('shows the call of a sub-run before it asks about it, and its result, but no other call of the sub-run', () => {
    const asks: LoopEventBody = {
      type: 'approval-request',
      step: 1,
      approval: { ...ASKED, preview: { sentence: 'Mails Ann.' } },
    };
    const inner = stamped([resultOf({ toolCallId: 'c2' }), resultOf({ result: 'sent' })], 'r2');
    const wrapped = inner.map((event): LoopEventBody => ({
      type: 'sub-run',
      path: ['r1', 'r2'],
      event,
    }));
    expect(chunksOf([asks, ...wrapped])).toEqual([
      SHOWN_CALL,
      { type: 'tool-approval-request', approvalId: 'a1', toolCallId: 'c1', reason: 'Mails Ann.' },
      { type: 'tool-output-available', toolCallId: 'c1', providerExecuted: true, output: 'sent' },
    ]);
  });

  it('does not send a call again that the message of the client shows', () => {
    expect(chunksOf([CALL, resultOf({ result: 'sent' })], { shownCalls: ['c1'] })).toEqual([
      { type: 'tool-output-available', toolCallId: 'c1', providerExecuted: true, output: 'sent' },
    ]);
  });

  it('closes what is open before an error or an abort, which is the last chunk', () => {
    const failed = ended({
      finishReason: 'error',
      error: { code: 'model_error', message: 'The model failed.' },
    });
    const closed = [{ type: 'text-end', id: 'text-1-2' }, { type: 'finish-step' }];
    expect(chunksOf([STEP, says('a'), failed]).slice(3)).toEqual([
      ...closed,
      { type: 'error', errorText: 'The model failed.' },
    ]);
    expect(chunksOf([STEP, says('a'), ended({ finishReason: 'aborted' })]).slice(3)).toEqual([
      ...closed,
      { type: 'abort', reason: 'The run was stopped.' },
    ]);
  });

  it('marks the message of a rehearsal, and shows its list, which what became of it replaces', () => {
    const call: RehearsedCall = {
      toolCallId: 'c1',
      step: 1,
      tool: 'mail',
      declaredId: 'mail',
      effect: 'state_change',
      as: 'rehearsed',
      args: {},
    };
    const request = { rehearsalId: 'reh_1', runId: 'r1', step: 2, expiresAt: TIME, calls: [call] };
    const asks: LoopEventBody = { type: 'pending-request', step: 2, kind: 'rehearsal', request };
    const waits = ended({
      finishReason: 'waiting',
      waitingFor: 'rehearsal',
      rehearsal: { status: 'waiting', calls: [call] },
    });
    const [start, list, end] = framesOf([{ ...START, isRehearsal: true }, asks, waits]);
    expect(start).toEqual({
      type: 'start',
      messageId: 'r1',
      messageMetadata: { runId: 'r1', isRehearsal: true },
    });
    expect([list, end]).toEqual([
      { type: 'data-rehearsal', id: 'reh_1', data: request },
      expect.objectContaining({ type: 'finish', finishReason: 'tool-calls' }),
    ]);
    const performed: RehearsalReport = {
      rehearsalId: 'reh_1',
      status: 'performed',
      calls: [{ ...call, outcome: 'performed' }],
    };
    expect(chunksOf([ended({ rehearsal: performed })])).toEqual([
      { type: 'data-rehearsal', id: 'reh_1', data: performed },
      expect.objectContaining({ type: 'finish', finishReason: 'stop' }),
    ]);
  });

  it('sends injected tools as data, and nothing for an event that the client has no use for', () => {
    const injected: LoopEventBody = {
      type: 'tools-injected',
      step: 1,
      provider: 'Order',
      tools: ['order__ship'],
    };
    const usage: LoopEventBody = { type: 'usage', step: 1, usage: USAGE, total: USAGE };
    expect(chunksOf([injected, usage])).toEqual([
      { type: 'data-tools-injected', data: stamped([injected])[0] },
    ]);
  });
});

/** The replies in a message with one part of ours. */
function repliesTo(type: string, id: JsonValue, data: JsonValue) {
  return readUiMessageRequest({
    id: 'chat',
    messages: [{ id: 'r1', role: 'assistant', parts: [{ type, id, data }] }],
  }).replies;
}

describe('what a client of the AI SDK puts into parts of ours', () => {
  it('answers questions and decides rehearsals where it says so, and only there', () => {
    expect(repliesTo('data-question', 'qst_1', { question: 'Which?', answer: false })).toEqual([
      { questionId: 'qst_1', answer: false },
    ]);
    expect(repliesTo('data-question', 'qst_1', { decision: 'deny' })).toEqual([
      { questionId: 'qst_1', decision: 'deny' },
    ]);
    const withdrawn = { decision: 'withdraw', reason: 'Too many.' };
    expect(repliesTo('data-rehearsal', 'reh_1', { calls: [], ...withdrawn })).toEqual([
      { rehearsalId: 'reh_1', ...withdrawn },
    ]);
    const silent: readonly Parameters<typeof repliesTo>[] = [
      ['data-question', 'qst_1', { question: 'Which?', decision: 'approve' }],
      ['data-rehearsal', 'reh_1', { status: 'performed' }],
      ['data-rehearsal', 'reh_1', { decision: 'answer' }],
      ['data-rehearsal', 7, { decision: 'approve' }],
      ['data-directive', 'dir_1', { decision: 'approve' }],
    ];
    expect(silent.flatMap((part) => repliesTo(...part))).toEqual([]);
  });
});
