import type {
  JsonObject,
  RecordedAttachment,
  StorageUnavailableError,
  ToolFailure,
  ToolInvocationRecord,
  ToolMessage,
} from '@toolloop/protocol';
import type { JournalOutcome } from '../contracts/call-journal.js';
import { toMediaPart } from '../plugins/pages/result-pages.js';
import { closedSubRun } from '../plugins/sub-runs/closed-records.js';
import type { SubRunCheckpoint } from '../plugins/sub-runs/sub-runs.js';
import { hiddenFailure, toldAnswer } from '../plugins/values/hide-values.js';
import { advance, type Call, MOST_OF_A_NAME, type ReadCall } from './call.js';
import { toJsonApi } from './json-api-error.js';
import type { CallPending, ToolOutcome } from './outcome.js';
import type { DescribedResult } from './result-describer.js';
import { shownArguments } from './shown-arguments.js';

/** A call that succeeded just now. */
export function succeeded(call: Call, live: unknown, result: DescribedResult): ToolOutcome {
  const { content, ui, bytes, truncated, attachments, hinted } = result;
  const record: ToolInvocationRecord = {
    ...basicRecord(call),
    status: 'succeeded',
    result: ui,
    ...(attachments && { attachments }),
    resultBytes: bytes,
    ...(truncated && { truncated }),
  };
  const withHints: ToolOutcome['hinted'] =
    hinted && ((operationsOn) => withParts(hinted(operationsOn) ?? content, attachments));
  return {
    record,
    content: withParts(content, attachments),
    live,
    ...(withHints && { hinted: withHints }),
    ...whatOf(call),
  };
}

/**
 * Returns the text of a failure that the model reads. A tool that policy denies reads like one that
 * does not exist, its type included.
 */
function failureText({ request, tool, options }: Call, failure: ToolFailure): string {
  const shownAs = failure.code === 'policy_denied' ? 'unknown_tool' : failure.code;
  const { errors } = toJsonApi(failure, shownAs);
  if (options.resultFormat === 'value') return JSON.stringify({ errors });
  const known = shownAs === 'unknown_tool' ? undefined : tool?.spec.declaredId;
  return JSON.stringify({
    ok: false,
    type: known ?? request.call.name.slice(0, MOST_OF_A_NAME),
    errors,
  });
}

/** A call that had been performed before; its effect did not happen again. */
export function replayed(call: Call, outcome: JournalOutcome): ToolOutcome {
  if (outcome.status === 'failed') return failed(call, outcome.failure);
  if (outcome.failure) return failed(call, outcome.failure);
  const { content, ui, attachments, labels } = outcome;
  return {
    record: {
      ...basicRecord(call),
      status: 'succeeded',
      result: ui,
      ...(attachments && { attachments }),
    },
    content: withParts(content, attachments),
    ...(call.tool && { tool: call.tool }),
    ...(labels && { labels }),
  };
}

const MADE_BEFORE =
  'This call was made before, in an answer that the user took back. What it did stands, and it was not made again; only a later message of the user can ask for that. Its result was:';

/**
 * A call that an answer which has given way to this one had made: it is answered with what it did
 * then.
 */
export function madeBefore(
  call: ReadCall,
  { toolCallId, content, labels, hidden, shown }: ToolMessage,
): ToolOutcome {
  const { status = 'succeeded', result, error } = shown ?? {};
  const told = { status, ...(result !== undefined && { result }), ...(error && { error }) };
  const before =
    typeof content === 'string'
      ? `${MADE_BEFORE}\n${content}`
      : [{ type: 'text' as const, text: MADE_BEFORE }, ...content];
  return {
    record: { ...basicRecord(call), ...told, madeBefore: toolCallId },
    content: before,
    tool: call.tool,
    ...(labels && { labels }),
    ...(hidden && { hidden }),
  };
}

function withParts(
  text: string,
  attachments: readonly RecordedAttachment[] = [],
): ToolOutcome['content'] {
  return attachments.length === 0
    ? text
    : [{ type: 'text', text }, ...attachments.map(toMediaPart)];
}

/**
 * A call that was answered without being made now: its directive, an equal call that waits or an
 * approved rehearsal is to have the effect. The model and the ui read the same, but for texts that
 * the model knows by reference.
 */
export function answeredFor(
  call: Call,
  by: Pick<ToolInvocationRecord, 'directiveId' | 'pendingId'>,
  answer: JsonObject,
): ToolOutcome {
  const { shown, labels } = toldAnswer(call, answer);
  const content = JSON.stringify(shown);
  const resultBytes = Buffer.byteLength(content);
  const record: ToolInvocationRecord = {
    ...basicRecord(call),
    status: 'succeeded',
    result: answer,
    ...by,
    resultBytes,
  };
  return { record, content, ...(call.tool && { tool: call.tool }), ...(labels && { labels }) };
}

const DENIED = new Set<ToolFailure['code']>([
  'forbidden',
  'policy_denied',
  'approval_denied',
  'tenant_override',
]);

/** The reason why a call is not made yet. */
type Pause = Partial<Pick<CallPending, 'checkpoint' | 'waitingFor'>>;

/**
 * Describes a call that was not made yet. The model reads only that it waits; its outcome follows
 * when the run is resumed.
 */
export function pending(call: Call, { checkpoint, waitingFor }: Pause = {}): ToolOutcome {
  const asked = { ...(waitingFor && { waitingFor }), ...(checkpoint && { checkpoint }) };
  return {
    record: { ...basicRecord(call), status: 'waiting' },
    content: '',
    isPending: true,
    ...asked,
    ...whatOf(call),
  };
}

/**
 * A call that a store kept from being made, or from being known. Its failure is told only where the
 * run ends with it.
 */
export function unavailable(
  call: Call,
  cause: StorageUnavailableError,
  checkpoint?: SubRunCheckpoint,
): ToolOutcome {
  const outcome = pending(call, checkpoint && { checkpoint });
  const error = call.isInFlight && outcome.record.effect !== 'read_only' ? UNKNOWN : NOT_MADE;
  return { ...outcome, record: { ...outcome.record, error }, unavailable: cause };
}

const NOT_MADE: ToolFailure = {
  code: 'aborted',
  safeMessage: 'The run ended before this call was made.',
};
const UNKNOWN: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage:
    'The run ended while this call was being made, and it is unknown whether its effect took place. Check before it is made again.',
};

/**
 * A call that was refused or failed. A tool that policy denies reads like one that does not exist.
 */
export function failed(call: Call, failure: ToolFailure): ToolOutcome {
  const status = DENIED.has(failure.code) ? 'denied' : 'failed';
  const { failure: told, labels } = hiddenFailure(call, failure);
  if (labels) advance(call, { labels });
  const content = failureText(call, told);
  const subRun = call.subRun && { subRun: closedSubRun(call.subRun) };
  return {
    record: { ...basicRecord(call), status, error: failure, ...subRun },
    content,
    ...whatOf(call),
  };
}

function whatOf({ tool, labels }: Call): Pick<ToolOutcome, 'tool' | 'labels'> {
  return { ...(tool && { tool }), ...(labels && { labels }) };
}

function basicRecord({ attempt = 1, ...call }: Call): Omit<ToolInvocationRecord, 'status'> {
  const { request, startedAt, tool, input, decision, subRun, rehearsal } = call;
  const endedAt = new Date();
  return {
    toolCallId: request.call.toolCallId,
    id: request.call.name,
    ...(tool && { declaredId: tool.spec.declaredId, effect: tool.spec.effect }),
    ...(tool?.entity && { entity: tool.entity }),
    step: request.step,
    index: request.index,
    ...(tool && input && { args: shownArguments(input.args, tool.input.hidden) }),
    ...(decision && { decision }),
    ...(rehearsal && { rehearsal }),
    attempt,
    startedAt,
    endedAt,
    durationMs: endedAt.getTime() - startedAt.getTime(),
    ...(subRun && { subRun }),
  };
}
