import type { MessageEvent } from '@nestjs/common';
import type {
  ApprovalRequest,
  FinishReason,
  JsonObject,
  LoopEvent,
  LoopEventOf,
  RehearsalReport,
  RehearsalRequest,
  ShownCall,
} from '@toolloop/protocol';
import type { OperatorFunction } from 'rxjs';
import { readFailedEnd } from './failed-end.js';
import { COMMENT, type EventEncoder, frame, SSE_HEADERS } from './encoder.js';
import { type SseOptions, toFrames } from './to-sse.js';

/**
 * Writes the same stream as text, for an answer that Nest does not frame.
 *
 * @example
 * const encoder = uiMessageEncoder();
 */
export function uiMessageEncoder({
  shownCalls = [],
}: Pick<UiMessageStreamOptions, 'shownCalls'> = {}): EventEncoder {
  const encoder = new UiMessageEncoder(new Set(shownCalls));
  return {
    headers: { ...SSE_HEADERS, ...UI_MESSAGE_STREAM_HEADERS },
    keepAlive: COMMENT,
    encode: (event) => encoder.chunks(event).map(frame).join(''),
    end: () => 'data: [DONE]\n\n',
  };
}

/** The headers of the answer to an AI SDK client. */
export const UI_MESSAGE_STREAM_HEADERS: Readonly<Record<string, string>> = {
  'x-vercel-ai-ui-message-stream': 'v1',
};

/** Options of {@link toUiMessageStream}. */
export interface UiMessageStreamOptions extends SseOptions {
  /**
   * The ids of the calls that the client's message already shows, which a run that is resumed does
   * not send again. @default none
   */
  readonly shownCalls?: Iterable<string>;
}

/**
 * Converts a run's events into the UI message stream of AI SDK 7, for `useChat` and all that is
 * built on it. The assistant's message has the id of the run, so that a client that answers an
 * approval names the run it continues. What the protocol has no chunk for is sent as `data-…`:
 * injected and removed tools, questions, directives, rehearsals and the structured answer as it
 * grows.
 *
 * @example
 * response.setHeaders(new Headers(UI_MESSAGE_STREAM_HEADERS));
 * return this.loop.stream({ prompt, actor, tenant }).pipe(toUiMessageStream());
 */
export function toUiMessageStream({
  shownCalls = [],
  ...options
}: UiMessageStreamOptions = {}): OperatorFunction<LoopEvent, MessageEvent> {
  return (events$) => {
    const encoder = new UiMessageEncoder(new Set(shownCalls));
    return events$.pipe(
      toFrames((event) => encoder.chunks(event).map((data) => ({ data })), options, [
        { data: '[DONE]' },
      ]),
    );
  };
}

/** A chunk of the protocol. */
type Chunk = Readonly<Record<string, unknown>> & { readonly type: string };

const FINISH_REASONS: Readonly<Partial<Record<FinishReason, string>>> = {
  stop: 'stop',
  length: 'length',
  content_filter: 'content-filter',
  waiting: 'tool-calls',
  error: 'error',
};

const UNREADABLE = 'The arguments of this call could not be read.';

/**
 * The state of one stream: the parts that are open, and the calls that the client knows. The client
 * refuses a chunk for a part it does not know.
 */
class UiMessageEncoder {
  private hasBegun = false;
  private isStepOpen = false;
  private open: { readonly type: 'text' | 'reasoning'; readonly id: string } | undefined;
  private readonly streamed = new Set<string>();

  constructor(private readonly shown: Set<string>) {}

  chunks(event: LoopEvent): Chunk[] {
    const begin = this.hasBegun ? [] : [beginning(event)];
    this.hasBegun = true;
    return [
      ...begin,
      ...(this.ofText(event) ??
        this.ofCall(event) ??
        this.ofRun(event) ??
        ofAnswer(event) ??
        toData(event)),
    ];
  }

  private ofText(event: LoopEvent): Chunk[] | undefined {
    if (event.type === 'text-delta') return this.delta('text', event);
    if (event.type === 'reasoning-delta') return this.delta('reasoning', event);
    return undefined;
  }

  private delta(
    type: 'text' | 'reasoning',
    { step, sequence, text }: LoopEventOf<'text-delta'> | LoopEventOf<'reasoning-delta'>,
  ): Chunk[] {
    if (this.open?.type === type) return [{ type: `${type}-delta`, id: this.open.id, delta: text }];
    const closed = this.close();
    this.open = { type, id: `${type}-${step}-${sequence}` };
    return [
      ...closed,
      { type: `${type}-start`, id: this.open.id },
      { type: `${type}-delta`, id: this.open.id, delta: text },
    ];
  }

  private close(): Chunk[] {
    if (!this.open) return [];
    const { type, id } = this.open;
    this.open = undefined;
    return [{ type: `${type}-end`, id }];
  }

  private ofCall(event: LoopEvent): Chunk[] | undefined {
    if (event.type === 'tool-call-delta') return this.argumentsDelta(event);
    if (event.type === 'tool-call') return [...this.close(), ...this.called(event)];
    if (event.type === 'tool-progress')
      return [
        {
          type: 'tool-output-available',
          toolCallId: event.toolCallId,
          output: event.value,
          preliminary: true,
        },
      ];
    if (event.type === 'tool-result') return this.result(event.record);
    if (event.type === 'call-stands') return this.result(event.call);
    if (event.type === 'approval-request') return this.asked(event.approval);
    if (event.type === 'pending-request' && event.kind === 'client')
      return this.introduced(event.request);
    if (event.type === 'sub-run') return this.ofSubRun(event.event);
    return undefined;
  }

  /** A call of a sub-run is shown only if a person was asked about it. */
  private ofSubRun(event: LoopEvent): Chunk[] {
    return event.type === 'tool-result' && this.shown.has(event.record.toolCallId)
      ? this.result(event.record)
      : [];
  }

  private argumentsDelta({
    toolCallId,
    tool: toolName,
    argumentsDelta,
  }: LoopEventOf<'tool-call-delta'>): Chunk[] {
    const begin = this.streamed.has(toolCallId)
      ? []
      : [...this.close(), { type: 'tool-input-start', toolCallId, toolName }];
    this.streamed.add(toolCallId);
    return [...begin, { type: 'tool-input-delta', toolCallId, inputTextDelta: argumentsDelta }];
  }

  private called({ toolCallId, tool: toolName, args }: LoopEventOf<'tool-call'>): Chunk[] {
    if (this.shown.has(toolCallId)) return []; // a run that is resumed says once more what it calls
    this.shown.add(toolCallId);
    if (args) return [{ type: 'tool-input-available', toolCallId, toolName, input: args }];
    return [{ type: 'tool-input-error', toolCallId, toolName, input: {}, errorText: UNREADABLE }];
  }

  /** Shows a call that the client does not know yet, such as one of a sub-run. */
  private introduced({ toolCallId, tool: toolName, args: input = {} }: Introduction): Chunk[] {
    if (this.shown.has(toolCallId)) return [];
    this.shown.add(toolCallId);
    return [{ type: 'tool-input-available', toolCallId, toolName, input }];
  }

  private asked(approval: ApprovalRequest): Chunk[] {
    const { approvalId, toolCallId, reason, preview } = approval;
    const request = {
      type: 'tool-approval-request',
      approvalId,
      toolCallId,
      reason: preview?.sentence ?? reason,
    };
    return [...this.introduced(approval), request];
  }

  private result(record: ShownCall): Chunk[] {
    const { toolCallId, status, error } = record;
    if (status === 'waiting') return [];
    const known = this.introduced({
      toolCallId,
      tool: record.id,
      ...(record.args && { args: record.args }),
    });
    // It was made on the server: a client that sends its messages by itself once its own calls are
    // made does not do so for this one.
    const made = { toolCallId, providerExecuted: true };
    if (status === 'succeeded')
      return [...known, { type: 'tool-output-available', ...made, output: record.result ?? null }];
    if (error?.code === 'approval_denied')
      return [...known, { type: 'tool-output-denied', toolCallId }];
    return [
      ...known,
      { type: 'tool-output-error', ...made, errorText: error?.safeMessage ?? 'The call failed.' },
    ];
  }

  private ofRun(event: LoopEvent): Chunk[] | undefined {
    if (event.type === 'step-start') {
      const closed = this.endStep();
      this.isStepOpen = true;
      return [...closed, { type: 'start-step' }];
    }
    if (event.type === 'run-end') return [...this.endStep(), ...ending(event)];
    return undefined;
  }

  private endStep(): Chunk[] {
    const finished = this.isStepOpen ? [{ type: 'finish-step' }] : [];
    this.isStepOpen = false;
    return [...this.close(), ...finished];
  }
}

interface Introduction {
  readonly toolCallId: string;
  readonly tool: string;
  readonly args?: JsonObject;
}

/**
 * The first chunk. That nothing is kept of what the calls of a rehearsal return belongs to the
 * whole message.
 */
function beginning(event: LoopEvent): Chunk {
  const { runId } = event;
  const isRehearsal = event.type === 'run-start' && event.isRehearsal;
  return {
    type: 'start',
    messageId: runId,
    messageMetadata: { runId, ...(isRehearsal && { isRehearsal }) },
  };
}

/**
 * The last chunks. The client stops reading at `error` and at `abort`, so nothing comes behind
 * those.
 */
function ending(event: LoopEventOf<'run-end'>): Chunk[] {
  const { rehearsal } = event;
  const report =
    rehearsal && rehearsal.status !== 'waiting'
      ? [rehearsalChunk(rehearsal.rehearsalId ?? event.runId, rehearsal)]
      : [];
  return [...report, finishing(event)];
}

function finishing(event: LoopEventOf<'run-end'>): Chunk {
  const { finishReason, finishDetail, usage, steps, runId } = event;
  const failed = readFailedEnd(event);
  if (failed) return { type: 'error', errorText: failed.message };
  if (finishReason === 'aborted')
    return { type: 'abort', reason: finishDetail ?? 'The run was stopped.' };
  const { inputTokens, outputTokens } = usage;
  const messageMetadata = {
    runId,
    finishReason,
    stepCount: steps, // assistant-ui takes `steps` of the metadata for a list of its own
    usage: { inputTokens, outputTokens },
    ...(finishDetail !== undefined && { finishDetail }),
  };
  return { type: 'finish', finishReason: FINISH_REASONS[finishReason] ?? 'other', messageMetadata };
}

/** The list of a rehearsal, which what became of it replaces. */
function rehearsalChunk(id: string, data: RehearsalRequest | RehearsalReport): Chunk {
  return { type: 'data-rehearsal', id, data };
}

const SENT_AS_DATA: ReadonlySet<LoopEvent['type']> = new Set([
  'tools-injected',
  'tools-removed',
  'source-changed',
  'warning',
]);

/** The chunk of an event that the protocol does not know, as data of ours. */
function toData(event: LoopEvent): Chunk[] {
  if (SENT_AS_DATA.has(event.type)) return [{ type: `data-${event.type}`, data: event }];
  if (event.type === 'directive-request' || event.type === 'directive-update')
    return [{ type: 'data-directive', id: event.directive.directiveId, data: event.directive }];
  if (event.type === 'pending-request' && event.kind === 'question')
    return [{ type: 'data-question', id: event.request.questionId, data: event.request }];
  if (event.type === 'pending-request' && event.kind === 'rehearsal')
    return [rehearsalChunk(event.request.rehearsalId, event.request)];
  return [];
}

/** The chunk of a part of the model's answer that is neither a text nor a call of ours. */
function ofAnswer(event: LoopEvent): Chunk[] | undefined {
  if (event.type === 'citation') return [sourceChunk(event)];
  if (event.type === 'output-delta')
    return [{ type: 'data-output', id: 'output', data: event.output }];
  if (event.type !== 'provider-tool') return undefined;
  const { id, name, status } = event;
  return [{ type: 'data-provider-tool', id, data: { name, status } }];
}

/** The source of a citation; the passages that it is about are in its metadata. */
function sourceChunk({ sequence, citation }: LoopEventOf<'citation'>): Chunk {
  const { url, title, source } = citation;
  const about = { sourceId: `source-${sequence}`, providerMetadata: { toolloop: citation } };
  if (url !== undefined)
    return { type: 'source-url', ...about, url, ...(title !== undefined && { title }) };
  return {
    type: 'source-document',
    ...about,
    mediaType: 'text/plain',
    title: title ?? source ?? 'A document',
  };
}
