import type {
  JsonObject,
  JsonValue,
  RecordedAttachment,
  StorageUnavailableError,
  ToolFailure,
  ToolInvocationRecord,
} from '@toolloop/protocol';
import type { JournalOutcome } from '../contracts/stores.js';
import type { BegunSubRun, CallProgress, ToolOutcome } from './call.js';
import { toMediaPart } from './result-pages.js';
import { type DescribedResult, failureText } from './results.js';
import { closedSubRun } from './sub-run-call.js';

/** A call that succeeded just now. */
export function succeeded(progress: CallProgress, live: unknown, result: DescribedResult): ToolOutcome {
  const { content, ui, bytes, truncated, attachments, hinted } = result;
  const record: ToolInvocationRecord = {
    ...basicRecord(progress),
    status: 'succeeded',
    result: ui,
    ...(attachments && { attachments }),
    resultBytes: bytes,
    ...(truncated && { truncated }),
  };
  const withHints: ToolOutcome['hinted'] = hinted && ((operationsOn) => withParts(hinted(operationsOn) ?? content, attachments));
  return { record, content: withParts(content, attachments), live, ...(withHints && { hinted: withHints }), ...whatOf(progress) };
}

/** A call that had been performed before; its effect did not happen again. */
export function replayed(progress: CallProgress, outcome: JournalOutcome): ToolOutcome {
  if (outcome.status === 'failed') return failed(progress, outcome.failure);
  if (outcome.failure) return failed(progress, outcome.failure);
  const { content, ui, attachments } = outcome;
  return {
    record: { ...basicRecord(progress), status: 'succeeded', result: ui, ...(attachments && { attachments }) },
    content: withParts(content, attachments),
    ...(progress.tool && { tool: progress.tool }),
  };
}

function withParts(text: string, attachments: readonly RecordedAttachment[] = []): ToolOutcome['content'] {
  return attachments.length === 0 ? text : [{ type: 'text', text }, ...attachments.map(toMediaPart)];
}

/** A call that asked for its effect. The model and the ui read the same answer. */
export function requested(progress: CallProgress, directiveId: string, answer: JsonObject): ToolOutcome {
  const content = JSON.stringify(answer);
  const record: ToolInvocationRecord = {
    ...basicRecord(progress),
    status: 'succeeded',
    result: answer,
    directiveId,
    resultBytes: Buffer.byteLength(content),
  };
  return { record, content, ...(progress.tool && { tool: progress.tool }) };
}

const DENIED = new Set<ToolFailure['code']>(['forbidden', 'policy_denied', 'approval_denied', 'tenant_override']);

/** A call that was not made yet. Of it nothing is told but that it waits; its outcome follows when the run goes on. */
export function pending(progress: CallProgress, begun?: BegunSubRun): ToolOutcome {
  const record: ToolInvocationRecord = { ...basicRecord(progress), status: 'waiting' };
  return { record, content: '', isPending: true, ...(begun && { begun }), ...whatOf(progress) };
}

/** A call that a store kept from being made, or from being known. Its failure is told only where the run ends with it. */
export function unavailable(progress: CallProgress, cause: StorageUnavailableError, begun?: BegunSubRun): ToolOutcome {
  const outcome = pending(progress, begun);
  const error = progress.isInFlight && outcome.record.effect !== 'read_only' ? UNKNOWN : NOT_MADE;
  return { ...outcome, record: { ...outcome.record, error }, unavailable: cause };
}

const NOT_MADE: ToolFailure = { code: 'aborted', safeMessage: 'The run ended before this call was made.' };
const UNKNOWN: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage:
    'The run ended while this call was being made, and it is unknown whether its effect took place. Check before it is made again.',
};

/** A call that was refused or failed. A tool that policy denies reads like one that does not exist. */
export function failed(progress: CallProgress, failure: ToolFailure): ToolOutcome {
  const status = DENIED.has(failure.code) ? 'denied' : 'failed';
  const content = failureText(progress, failure);
  const subRun = progress.subRun && { subRun: closedSubRun(progress.subRun) };
  return { record: { ...basicRecord(progress), status, error: failure, ...subRun }, content, ...whatOf(progress) };
}

function whatOf({ tool, labels }: CallProgress): Pick<ToolOutcome, 'tool' | 'labels'> {
  return { ...(tool && { tool }), ...(labels && { labels }) };
}

/** A record as its event holds it: what a sub-run did was told as it happened. */
export function shownRecord(record: ToolInvocationRecord): ToolInvocationRecord {
  if (!record.subRun) return record;
  const { toolCalls: _told, ...subRun } = record.subRun;
  return { ...record, subRun };
}

/** Arguments as the ui may see them. */
export function shownArguments(args: JsonObject, hidden: readonly string[]): JsonObject {
  if (hidden.length === 0) return args;
  const entries = Object.entries(args).map(([name, value]): [string, JsonValue] => [name, hidden.includes(name) ? '[redacted]' : value]);
  return Object.fromEntries(entries);
}

function basicRecord({
  request,
  startedAt,
  tool,
  args,
  decision,
  attempt = 1,
  subRun,
}: CallProgress): Omit<ToolInvocationRecord, 'status'> {
  const endedAt = new Date();
  return {
    toolCallId: request.call.toolCallId,
    id: request.call.name,
    ...(tool && { declaredId: tool.spec.declaredId, effect: tool.spec.effect }),
    ...(tool?.entity && { entity: tool.entity }),
    step: request.step,
    index: request.index,
    ...(tool && args && { args: shownArguments(args, tool.input.hidden) }),
    ...(decision && { decision }),
    attempt,
    startedAt,
    endedAt,
    durationMs: endedAt.getTime() - startedAt.getTime(),
    ...(subRun && { subRun }),
  };
}
