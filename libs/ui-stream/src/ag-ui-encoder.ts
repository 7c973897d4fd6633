import type {
  ApprovalRequest,
  JsonObject,
  LoopEvent,
  LoopEventOf,
  QuestionRequest,
  RehearsalRequest,
  ShownCall,
  Usage,
} from '@toolloop/protocol';
import { isGiven } from './declared-client-tool.js';
import { COMMENT, type EventEncoder, frame, SSE_HEADERS } from './encoder.js';
import { readFailedEnd } from './failed-end.js';
import { namedCall, rehearsalSentence, type ShownResults } from './named-answer.js';

/**
 * Writes events in AG-UI 1.0. Approvals, questions and rehearsals end the run as interrupts, which
 * the client's next request answers in `resume`; a call of a client tool is left open for the
 * client. What the protocol has no event for is sent as `CUSTOM`, first of all the id of our run.
 *
 * @example
 * const encoder = agUiEncoder({ threadId, runId });
 */
export function agUiEncoder(ids: AgUiOptions): EventEncoder {
  const stream = new AgUiStream(ids);
  return {
    headers: SSE_HEADERS,
    keepAlive: COMMENT,
    encode: (event) => stream.events(event).map(frame).join(''),
    end: () => '', // the client takes no `[DONE]`
  };
}

/** Options of {@link agUiEncoder}: the ids of the client's request, which its answer repeats. */
export interface AgUiOptions extends ShownResults {
  readonly threadId: string;
  readonly runId: string;
  /**
   * The ids of the calls that the client's messages already show, which a run that is resumed does
   * not send again. @default none
   */
  readonly shownCalls?: Iterable<string>;
  /**
   * The client's messages, for a stream that repeats an answer from its beginning: those which the
   * client has of that answer are taken from it. @default none, nothing is repeated
   */
  readonly repeatsAfter?: readonly JsonObject[];
}

/** An event of the protocol. */
type AgUiEvent = Readonly<Record<string, unknown>> & { readonly type: string };

interface OpenMessage {
  readonly kind: 'text' | 'reasoning';
  readonly messageId: string;
}

/** Something that the client is asked before the run continues. */
interface Interrupt {
  readonly id: string;
  readonly reason: string;
  readonly message: string;
  readonly toolCallId?: string;
  readonly responseSchema: object;
  readonly expiresAt: string;
  readonly metadata?: object;
}

const DECISION = {
  type: 'object',
  properties: { approved: { type: 'boolean' }, reason: { type: 'string' } },
  required: ['approved'],
};

/**
 * The state of one stream: what is open, since the client refuses an end that leaves something
 * open, and a result of an unknown call.
 */
class AgUiStream {
  private hasBegun = false;
  private runId = '';
  private step: string | undefined;
  private message: OpenMessage | undefined;
  private readonly openCalls = new Set<string>();
  private readonly shown: Set<string>;
  private readonly ids: Pick<AgUiOptions, 'threadId' | 'runId'>;
  private readonly results: ShownResults;
  private readonly repeatsAfter: readonly JsonObject[] | undefined;
  private readonly interrupts: Interrupt[] = [];
  private readonly clientCalls: string[] = [];

  constructor({ shownCalls = [], threadId, runId, repeatsAfter, ...results }: AgUiOptions) {
    this.ids = { threadId, runId };
    this.repeatsAfter = repeatsAfter;
    this.results = results;
    this.shown = new Set(shownCalls);
  }

  events(event: LoopEvent): AgUiEvent[] {
    return [
      ...this.begin(event),
      ...(this.ofText(event) ??
        this.ofCall(event) ??
        this.ofRequest(event) ??
        this.ofRun(event) ??
        toCustom(event)),
    ];
  }

  private begin({ runId }: LoopEvent): AgUiEvent[] {
    if (this.hasBegun) return [];
    this.hasBegun = true;
    this.runId = runId;
    return [{ type: 'RUN_STARTED', ...this.ids }, custom('run', { runId }), ...this.takeBack()];
  }

  /** The id of a message of this answer. */
  private messageId(name: number | string): string {
    return `${this.runId}-${name}`;
  }

  private takeBack(): AgUiEvent[] {
    if (!this.repeatsAfter) return [];
    const messages = this.repeatsAfter.filter(
      ({ id }) => typeof id !== 'string' || !id.startsWith(this.messageId('')),
    );
    return [{ type: 'MESSAGES_SNAPSHOT', messages }];
  }

  private ofText(event: LoopEvent): AgUiEvent[] | undefined {
    if (event.type === 'text-delta') return event.text === '' ? [] : this.delta('text', event);
    if (event.type === 'reasoning-delta')
      return event.text === '' ? [] : this.delta('reasoning', event);
    return undefined;
  }

  private delta(
    kind: OpenMessage['kind'],
    { text: delta, sequence }: LoopEventOf<'text-delta'> | LoopEventOf<'reasoning-delta'>,
  ): AgUiEvent[] {
    const opened =
      this.message?.kind === kind
        ? []
        : [...this.closeMessage(), ...this.openMessage(kind, this.messageId(sequence))];
    const type = kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT';
    return [...opened, { type, messageId: this.message?.messageId, delta }];
  }

  private openMessage(kind: OpenMessage['kind'], messageId: string): AgUiEvent[] {
    this.message = { kind, messageId };
    if (kind === 'text') return [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }];
    return [
      { type: 'REASONING_START', messageId },
      { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' },
    ];
  }

  private closeMessage(): AgUiEvent[] {
    const { message } = this;
    this.message = undefined;
    if (!message) return [];
    const { kind, messageId } = message;
    if (kind === 'text') return [{ type: 'TEXT_MESSAGE_END', messageId }];
    return [
      { type: 'REASONING_MESSAGE_END', messageId },
      { type: 'REASONING_END', messageId },
    ];
  }

  private ofCall(event: LoopEvent): AgUiEvent[] | undefined {
    if (event.type === 'tool-call-delta') {
      const { tool, argumentsDelta: delta } = event;
      const toolCallId = namedCall(this.runId, event.toolCallId);
      const started = this.openCalls.has(toolCallId)
        ? []
        : [...this.closeMessage(), this.startCall(toolCallId, tool)];
      return delta === '' ? started : [...started, { type: 'TOOL_CALL_ARGS', toolCallId, delta }];
    }
    if (event.type === 'tool-call') return [...this.closeMessage(), ...this.called(event)];
    if (event.type === 'call-stands') return this.result(event.call);
    return event.type === 'tool-result' ? this.result(event.record) : undefined;
  }

  private startCall(toolCallId: string, toolCallName: string): AgUiEvent {
    this.openCalls.add(toolCallId);
    this.shown.add(toolCallId);
    return {
      type: 'TOOL_CALL_START',
      toolCallId,
      toolCallName,
      parentMessageId: this.messageId(toolCallId),
    };
  }

  /** The whole call, or its end where its arguments came in pieces. */
  private called({ toolCallId: id, tool, args = {} }: CalledTool): AgUiEvent[] {
    const toolCallId = namedCall(this.runId, id);
    if (this.openCalls.delete(toolCallId)) return [{ type: 'TOOL_CALL_END', toolCallId }];
    if (this.shown.has(toolCallId)) return [];
    const start = this.startCall(toolCallId, tool);
    this.openCalls.delete(toolCallId);
    return [
      start,
      { type: 'TOOL_CALL_ARGS', toolCallId, delta: JSON.stringify(args) },
      { type: 'TOOL_CALL_END', toolCallId },
    ];
  }

  private result(record: ShownCall): AgUiEvent[] {
    const { id: tool, status, result = null, error, args } = record;
    if (status === 'waiting') return [];
    const known = this.called({ toolCallId: record.toolCallId, tool, ...(args && { args }) });
    const toolCallId = namedCall(this.runId, record.toolCallId);
    if (status === 'succeeded' && isGiven(this.results, toolCallId, result)) return known;
    const told = {
      type: 'TOOL_CALL_RESULT',
      messageId: this.messageId(`${toolCallId}-result`),
      toolCallId,
    };
    if (status === 'succeeded')
      return [
        ...known,
        { ...told, content: typeof result === 'string' ? result : JSON.stringify(result) },
      ];
    return [
      ...known,
      { ...told, content: error?.safeMessage ?? 'The call failed.', metadata: { isError: true } },
    ];
  }

  private ofRequest(event: LoopEvent): AgUiEvent[] | undefined {
    if (event.type === 'approval-request')
      return this.asks(event.approval, interruptOf(event.approval));
    if (event.type !== 'pending-request') return undefined;
    if (event.kind === 'question') return this.asks(event.request, questionOf(event.request));
    if (event.kind === 'rehearsal') return this.asksAboutAll(event.request);
    this.clientCalls.push(namedCall(this.runId, event.request.toolCallId));
    return this.called(event.request);
  }

  /** The list of a rehearsal, which is answered as a whole. */
  private asksAboutAll(request: RehearsalRequest): AgUiEvent[] {
    const { rehearsalId: id, expiresAt, calls } = request;
    const message = rehearsalSentence(request);
    this.interrupts.push({
      id,
      reason: 'rehearsal',
      message,
      responseSchema: DECISION,
      expiresAt,
      metadata: { calls },
    });
    return [custom('rehearsal', request)];
  }

  private asks(call: CalledTool, interrupt: Interrupt): AgUiEvent[] {
    this.interrupts.push(interrupt);
    return this.called(call);
  }

  private ofRun(event: LoopEvent): AgUiEvent[] | undefined {
    if (event.type === 'step-start') {
      const ended = this.endStep();
      this.step = `step ${event.step}`;
      return [...ended, { type: 'STEP_STARTED', stepName: this.step }];
    }
    if (event.type === 'run-end') return [...this.endStep(), this.ending(event)];
    return undefined;
  }

  private endStep(): AgUiEvent[] {
    const { step } = this;
    this.step = undefined;
    const calls = [...this.openCalls].map((toolCallId) => ({ type: 'TOOL_CALL_END', toolCallId }));
    this.openCalls.clear();
    return [
      ...this.closeMessage(),
      ...calls,
      ...(step === undefined ? [] : [{ type: 'STEP_FINISHED', stepName: step }]),
    ];
  }

  private ending(event: LoopEventOf<'run-end'>): AgUiEvent {
    const { finishReason, output, usage } = event;
    const failed = readFailedEnd(event);
    if (failed) return { type: 'RUN_ERROR', ...failed };
    const end = { type: 'RUN_FINISHED', ...this.ids, usage: [usageOf(usage)] };
    if (finishReason === 'aborted') return { ...end, outcome: { type: 'cancelled' } };
    if (finishReason === 'waiting') return { ...end, outcome: this.waiting };
    return {
      ...end,
      ...(output !== undefined && { result: output }),
      outcome: { type: 'success' },
    };
  }

  private get waiting(): object {
    if (this.interrupts.length > 0) return { type: 'interrupt', interrupts: this.interrupts };
    return {
      type: 'success',
      ...(this.clientCalls.length > 0 && { pendingToolCallIds: this.clientCalls }),
    };
  }
}

interface CalledTool {
  readonly toolCallId: string;
  readonly tool: string;
  readonly args?: JsonObject;
}

function interruptOf({
  approvalId: id,
  runId,
  toolCallId,
  reason,
  preview,
  expiresAt,
}: ApprovalRequest): Interrupt {
  const message = preview?.sentence ?? reason;
  return {
    id,
    reason: 'approval',
    message,
    toolCallId: namedCall(runId, toolCallId),
    responseSchema: DECISION,
    expiresAt,
  };
}

function questionOf({
  questionId: id,
  runId,
  toolCallId,
  question,
  schema,
  expiresAt,
}: QuestionRequest): Interrupt {
  return {
    id,
    reason: 'question',
    message: question,
    toolCallId: namedCall(runId, toolCallId),
    responseSchema: schema,
    expiresAt,
  };
}

function usageOf({ inputTokens, outputTokens }: Usage): object {
  return { inputTokens, outputTokens };
}

function custom(name: string, value: unknown): AgUiEvent {
  return { type: 'CUSTOM', name: `toolloop.${name}`, value };
}

const SENT_AS_CUSTOM: ReadonlySet<LoopEvent['type']> = new Set([
  'tools-injected',
  'tools-removed',
  'source-changed',
  'tool-progress',
  'approval-decision',
  'pending-answer',
  'directive-request',
  'directive-update',
  'output-delta',
  'citation',
  'provider-tool',
  'warning',
]);

function toCustom(event: LoopEvent): AgUiEvent[] {
  return SENT_AS_CUSTOM.has(event.type) ? [custom(event.type, event)] : [];
}
