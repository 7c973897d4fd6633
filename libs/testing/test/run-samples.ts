import type {
  LoopEvent,
  LoopResult,
  Message,
  ToolInvocationRecord,
  ToolSpec,
} from '@toolloop/core';
import type { LoopEventBody } from '@toolloop/protocol';

function stamp(body: LoopEventBody, index: number): LoopEvent {
  return { ...body, runId: 'r1', sequence: index + 1, timestamp: '2026-01-01T00:00:00.000Z' };
}

/** Stamps bodies as a run does. */
export function stamped(...bodies: readonly LoopEventBody[]): LoopEvent[] {
  return bodies.map(stamp);
}

export const RUN_START: LoopEventBody = {
  type: 'run-start',
  requestId: 'r1',
  model: 'script',
  tools: [],
};
export const STEP_START: LoopEventBody = { type: 'step-start', step: 1, tools: 0 };
export const RUN_END: LoopEventBody = {
  type: 'run-end',
  finishReason: 'stop',
  text: '',
  steps: 1,
  usage: { inputTokens: 0, outputTokens: 0 },
};

export function record(fields: Partial<ToolInvocationRecord> = {}): ToolInvocationRecord {
  return {
    toolCallId: 'c1',
    id: 'crm__find',
    declaredId: 'crm__find',
    step: 1,
    index: 0,
    status: 'succeeded',
    attempt: 1,
    startedAt: new Date(0),
    endedAt: new Date(0),
    durationMs: 0,
    ...fields,
  };
}

export function spec(id: string, declaredId = id): ToolSpec {
  return {
    id,
    declaredId,
    description: '',
    inputSchema: {},
    effect: 'read_only',
    labels: { returns: 'untrusted', reads: 'private', egress: false },
    redaction: { kind: 'reveal', fields: 'all' },
    schemaHash: '',
  };
}

export function result(fields: Partial<LoopResult> = {}): LoopResult {
  return {
    runId: 'r1',
    text: '',
    finishReason: 'stop',
    steps: 1,
    toolCalls: [],
    injectedTools: [],
    usage: { inputTokens: 0, outputTokens: 0 },
    messages: [],
    toJSON: () => null,
    ...fields,
  };
}

/** An assistant message that makes calls, each given as `[id, arguments]`. */
export function asks(...wanted: readonly (readonly [id: string, json?: string])[]): Message {
  return {
    role: 'assistant',
    content: '',
    toolCalls: wanted.map(([toolCallId, json = '{}']) => ({
      toolCallId,
      name: 'crm__find',
      arguments: json,
    })),
  };
}

export function answers(
  toolCallId: string,
  fields: { readonly toolName?: string; readonly isError?: boolean } = {},
): Message {
  return { role: 'tool', toolCallId, toolName: 'crm__find', content: '[]', ...fields };
}
