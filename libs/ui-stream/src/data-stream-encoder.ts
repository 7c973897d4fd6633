import type { JsonObject, JsonValue, LoopEvent, LoopEventOf, ShownCall } from '@toolloop/protocol';
import { isGiven } from './declared-client-tool.js';
import type { EventEncoder } from './encoder.js';
import { readFailedEnd } from './failed-end.js';
import { namedCall, type ShownResults } from './named-answer.js';

/**
 * Writes events in the data stream protocol of assistant-stream, one line each. The protocol has no
 * approvals: a run that waits for one ends with `tool-calls`, and is resumed over the routes of
 * runs.
 *
 * @example
 * const encoder = dataStreamEncoder();
 */
export function dataStreamEncoder(results: ShownResults = {}): EventEncoder {
  const shown = new Set<string>();
  const isAnswered = (toolCallId: string): boolean =>
    results.given?.some(({ id }) => id === toolCallId) ?? false;
  const isShown = (event: LoopEvent): boolean =>
    event.type === 'tool-result' &&
    isGiven(results, namedCall(event.runId, event.record.toolCallId), event.record.result ?? null);
  const call = (event: LoopEvent): string => {
    const made = callIn(event);
    if (!made || shown.has(made.toolCallId) || (!endedIn(event) && isAnswered(made.toolCallId)))
      return '';
    shown.add(made.toolCallId);
    return line('9', made);
  };
  return {
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      'x-vercel-ai-data-stream': 'v1',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    },
    keepAlive: '',
    encode: (event) => (isShown(event) ? '' : call(event) + dataLine(event)),
    end: () => '',
  };
}

/** The end of a message as assistant-stream says it. */
export function finishOf({ finishReason }: LoopEventOf<'run-end'>): string {
  if (finishReason === 'stop' || finishReason === 'length') return finishReason;
  if (finishReason === 'content_filter') return 'content-filter';
  return finishReason === 'waiting' ? 'tool-calls' : 'other';
}

export function usageOf({ usage: { inputTokens, outputTokens } }: LoopEventOf<'run-end'>): object {
  return { inputTokens, outputTokens };
}

export function callIn(event: LoopEvent): WholeCall | undefined {
  const shown = (toolCallId: string, toolName: string, args: JsonObject = {}): WholeCall => {
    return { toolCallId: namedCall(event.runId, toolCallId), toolName, args };
  };
  if (event.type === 'tool-call') return shown(event.toolCallId, event.tool, event.args);
  if (event.type === 'approval-request')
    return shown(event.approval.toolCallId, event.approval.tool, event.approval.args);
  if (event.type === 'pending-request' && event.kind === 'client')
    return shown(event.request.toolCallId, event.request.tool, event.request.args);
  const ended = endedIn(event);
  return ended && shown(ended.toolCallId, ended.id, ended.args);
}

/** A call that is over: one of this run, or one that an earlier answer had made and that stands. */
export function endedIn(event: LoopEvent): ShownCall | undefined {
  if (event.type === 'call-stands') return event.call;
  return event.type === 'tool-result' ? event.record : undefined;
}

/** The source of a citation, which these protocols know by its address alone. */
export function sourceIn(event: LoopEvent): object | undefined {
  if (event.type !== 'citation' || event.citation.url === undefined) return undefined;
  const { url, title } = event.citation;
  return {
    sourceType: 'url',
    id: `${event.runId}-source-${event.sequence}`,
    url,
    ...(title !== undefined && { title }),
  };
}

export function resultIn({ status, result = null, error }: ShownCall): ShownResult | undefined {
  if (status === 'waiting') return undefined;
  return status === 'succeeded'
    ? { result }
    : { result: error?.safeMessage ?? 'The call failed.', isError: true };
}

/** A call as these protocols show it: at once and whole. */
interface WholeCall {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly args: JsonObject;
}

interface ShownResult {
  readonly result: JsonValue;
  readonly isError?: true;
}

function line(code: string, value: unknown): string {
  return `${code}:${JSON.stringify(value)}\n`;
}

function dataLine(event: LoopEvent): string {
  if (event.type === 'text-delta') return line('0', event.text);
  if (event.type === 'reasoning-delta') return line('g', event.text);
  const ended = endedIn(event);
  if (ended) return resultLine(event.runId, ended);
  const source = sourceIn(event);
  if (source) return line('h', source);
  if (event.type === 'step-start') return line('f', { messageId: `${event.runId}-${event.step}` });
  if (event.type === 'step-end')
    return line('e', {
      finishReason: event.toolCalls > 0 ? 'tool-calls' : 'stop',
      usage: NO_TOKENS,
      isContinued: false,
    });
  return event.type === 'run-end' ? endLine(event) : '';
}

function resultLine(runId: string, record: ShownCall): string {
  const result = resultIn(record);
  return result ? line('a', { toolCallId: namedCall(runId, record.toolCallId), ...result }) : '';
}

function endLine(event: LoopEventOf<'run-end'>): string {
  const failed = readFailedEnd(event);
  if (failed) return line('3', failed.message);
  return line('d', { finishReason: finishOf(event), usage: usageOf(event) });
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0 };
