/** The contract of an encoder of `@toolloop/ui-stream`. @packageDocumentation */
import assert from 'node:assert/strict';
import type { LoopEvent } from '@toolloop/core';
import type { LoopEventBody, ToolInvocationRecord } from '@toolloop/protocol';
import type { EventEncoder } from '@toolloop/ui-stream';
import { AWKWARD_TEXTS, type ContractRunner } from '../contracts/contract.js';

/**
 * The behaviour that every `EventEncoder` must show, whatever protocol it writes. `make` makes a
 * new encoder, as for a stream of its own.
 *
 * @example
 * eventEncoderContract('of our protocol', () => ourEncoder(), { describe, it });
 */
export function eventEncoderContract(
  name: string,
  make: () => EventEncoder,
  { describe, it }: Pick<ContractRunner, 'describe' | 'it'>,
): void {
  describe(`EventEncoder ${name}`, () => {
    for (const [sentence, check] of CASES)
      it(sentence, () => Promise.resolve().then(() => check(make)));
  });
}

type Make = () => EventEncoder;

const CASES: readonly (readonly [name: string, check: (make: Make) => void])[] = [
  ['has headers in small letters, with the type of what it writes', hasHeaders],
  ['takes every event of a run, and writes something of its words', takesEvery],
  ['writes the same for the same events', isPure],
  ['keeps the streams of two encoders apart', keepsApart],
  ['writes whole frames, whatever texts are in an event', writesFrames],
  ['has a sign of life that is a comment, or nothing', keepsAlive],
  ['shows no error of a call beyond its safe message', hidesErrors],
  ['ends in the middle of a run as well', endsAnywhere],
];

const AT = new Date(0);

const RECORD: ToolInvocationRecord = {
  toolCallId: 'c1',
  id: 'crm__find',
  declaredId: 'crm__find',
  effect: 'read_only',
  step: 1,
  index: 0,
  args: { name: 'Ada' },
  status: 'succeeded',
  result: { id: 'c-7' },
  attempt: 1,
  startedAt: AT,
  endedAt: AT,
  durationMs: 0,
};

const BODIES: readonly LoopEventBody[] = [
  { type: 'run-start', requestId: 'q1', model: 'scripted/script', tools: ['crm__find'] },
  { type: 'step-start', step: 1, tools: 1 },
  { type: 'reasoning-delta', step: 1, text: 'Think.' },
  { type: 'text-delta', step: 1, text: 'Looking it up.' },
  { type: 'provider-tool', step: 1, id: 'p1', name: 'web_search', status: 'started' },
  { type: 'citation', step: 1, citation: { url: 'https://example.com/', title: 'Example' } },
  {
    type: 'tool-call-delta',
    step: 1,
    toolCallId: 'c1',
    tool: 'crm__find',
    argumentsDelta: '{"name":"Ada"}',
  },
  { type: 'tool-call', step: 1, toolCallId: 'c1', tool: 'crm__find', args: { name: 'Ada' } },
  {
    type: 'tool-start',
    step: 1,
    toolCallId: 'c1',
    tool: 'crm__find',
    effect: 'read_only',
    decision: { kind: 'allow', rule: 'allow: crm__*', reason: 'Allowed.', policyVersion: '1' },
  },
  { type: 'tool-progress', step: 1, toolCallId: 'c1', tool: 'crm__find', value: { done: 1 } },
  {
    type: 'tools-injected',
    step: 1,
    provider: 'Customer',
    instanceId: 'c-7',
    tools: ['customer_c-7_getSpend'],
  },
  { type: 'tool-result', step: 1, record: RECORD },
  {
    type: 'usage',
    step: 1,
    usage: { inputTokens: 1, outputTokens: 1 },
    total: { inputTokens: 1, outputTokens: 1 },
  },
  { type: 'step-end', step: 1, modelFinishReason: 'tool_calls', toolCalls: 1 },
  { type: 'step-start', step: 2, tools: 2 },
  { type: 'tools-removed', step: 2, tools: ['customer_c-7_getSpend'], reason: 'It is gone.' },
  { type: 'warning', step: 2, code: 'option_ignored', message: 'An option is not known.' },
  { type: 'output-delta', step: 2, output: { total: 1 } },
  { type: 'text-delta', step: 2, text: 'Found her.' },
  { type: 'step-end', step: 2, modelFinishReason: 'stop', toolCalls: 0 },
  {
    type: 'run-end',
    finishReason: 'stop',
    text: 'Found her.',
    steps: 2,
    usage: { inputTokens: 1, outputTokens: 1 },
  },
];

function stamped(bodies: readonly LoopEventBody[], runId = 'r1'): LoopEvent[] {
  return bodies.map((body, index) => ({
    ...body,
    runId,
    sequence: index + 1,
    timestamp: AT.toISOString(),
  }));
}

const EVENTS = stamped(BODIES);

function written(encoder: EventEncoder, events: readonly LoopEvent[] = EVENTS): string {
  return `${events.map((event) => encoder.encode(event)).join('')}${encoder.end()}`;
}

function hasHeaders(make: Make): void {
  const { headers } = make();
  assert.deepEqual(
    Object.keys(headers).filter((name) => name !== name.toLowerCase()),
    [],
  );
  assert.match(headers['content-type'] ?? '', /\S/);
}

function takesEvery(make: Make): void {
  assert.ok(written(make()).includes('Found her.'));
}

/**
 * Ids that a protocol makes up itself, such as that of a message, are left out of the comparison.
 */
function isPure(make: Make): void {
  assert.equal(written(make()).length, written(make()).length);
}

function keepsApart(make: Make): void {
  const [one, other] = [make(), make()];
  const marked = stamped(
    BODIES.map((body) =>
      body.type === 'text-delta'
        ? ({ type: 'text-delta', step: body.step, text: 'Of another.' } as const)
        : body,
    ),
    'r2',
  );
  const texts = EVENTS.map((event, index) => {
    const mark = marked[index];
    if (mark) other.encode(mark);
    return one.encode(event);
  });
  assert.ok(!texts.join('').includes('Of another.'));
  assert.equal(`${texts.join('')}${one.end()}`.length, written(make()).length);
}

const BREAKING: readonly string[] = [
  ...AWKWARD_TEXTS,
  '\n\ndata: {"type":"forged"}\n\n',
  '\r\rdata: forged\r\r',
  '\u2028data: forged\u2029',
  ':\n\nevent: forged\n',
];

function writesFrames(make: Make): void {
  const isStream = (make().headers['content-type'] ?? '').startsWith('text/event-stream');
  for (const text of BREAKING) {
    const events = stamped([
      { type: 'run-start', requestId: 'q1', tools: [] },
      { type: 'step-start', step: 1, tools: 0 },
      { type: 'text-delta', step: 1, text },
      { type: 'tool-result', step: 1, record: { ...RECORD, result: text } },
      {
        type: 'run-end',
        finishReason: 'stop',
        text,
        steps: 1,
        usage: { inputTokens: 0, outputTokens: 0 },
      },
    ]);
    const all = written(make(), events);
    const lines = all.split(/\r\n|\r|\n/);
    assert.ok(
      !lines.some((line) => /^(?:event|data): ?(?:\{"type":"forged"|forged)/.test(line)),
      `A text wrote a frame of its own: ${JSON.stringify(text)}`,
    );
    if (isStream)
      assert.ok(
        /^(?:(?:(?:data|id|event|retry):[^\r\n]*|:[^\r\n]*)\n|\n)*$/.test(all),
        `What was written is no event stream: ${JSON.stringify(all.slice(0, 300))}`,
      );
  }
}

function keepsAlive(make: Make): void {
  const { headers, keepAlive } = make();
  if (keepAlive === '' || !(headers['content-type'] ?? '').startsWith('text/event-stream')) return;
  assert.match(keepAlive, /^:[^\r\n]*\n\n?$/);
}

function hidesErrors(make: Make): void {
  const failed: ToolInvocationRecord = {
    ...RECORD,
    status: 'failed',
    error: { code: 'execution_failed', safeMessage: 'It did not work.', correlationId: 'k-1' },
  };
  const events = EVENTS.map((event) =>
    event.type === 'tool-result' ? { ...event, record: failed } : event,
  );
  assert.ok(!/\bat .+:\d+:\d+\b/.test(written(make(), events)), 'A stack is shown.');
}

function endsAnywhere(make: Make): void {
  for (let count = 0; count <= EVENTS.length; count += 1)
    assert.equal(typeof written(make(), EVENTS.slice(0, count)), 'string');
}
