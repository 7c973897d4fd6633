import {
  isJsonList,
  isJsonObject,
  type JsonValue,
  type LoopEvent,
  type LoopEventOf,
} from '@toolloop/protocol';
import { callIn, endedIn, finishOf, resultIn, sourceIn, usageOf } from './data-stream-encoder.js';
import { COMMENT, type EventEncoder, frame, SSE_HEADERS } from './encoder.js';
import { readFailedEnd } from './failed-end.js';
import { namedCall } from './named-answer.js';

/**
 * Writes events in the assistant transport of assistant-stream. Its client shows a state, so every
 * part of the answer is sent as operations on `messages` of that state, the last of which is the
 * assistant's, with `parts` of the types `text`, `reasoning` and `tool-call`; a call that waits for
 * an approval has it as `approval`.
 *
 * @example
 * const encoder = assistantTransportEncoder({ messages: state.messages });
 */
export function assistantTransportEncoder({
  messages = [],
  isRepeated = false,
}: AssistantTransportOptions = {}): EventEncoder {
  const stream = new TransportStream(messages, isRepeated);
  return {
    headers: SSE_HEADERS,
    keepAlive: COMMENT,
    encode: (event) => stream.chunks(event).map(frame).join(''),
    end: () => 'data: [DONE]\n\n',
  };
}

/** Options of {@link assistantTransportEncoder}. */
export interface AssistantTransportOptions {
  /** The messages of the client's state, behind which the answer stands. @default none */
  readonly messages?: readonly JsonValue[];
  /**
   * The stream repeats an answer from its beginning: the message which the state has of it is taken
   * from it. @default false
   */
  readonly isRepeated?: boolean;
}

type Chunk = Readonly<Record<string, unknown>> & { readonly type: string };
type Operation = {
  readonly type: 'set' | 'append-text';
  readonly path: readonly string[];
  readonly value: unknown;
};

/** The state of one stream: the place of its message, and those of the parts of it. */
class TransportStream {
  private at: string;
  private count = 0;
  private open: 'text' | 'reasoning' | undefined;
  private readonly calls = new Map<string, string>();
  private hasBegun = false;

  constructor(
    private readonly before: readonly JsonValue[],
    private readonly isRepeated: boolean,
  ) {
    this.at = String(before.length);
  }

  chunks(event: LoopEvent): Chunk[] {
    const operations = [...this.begin(event), ...this.operations(event)];
    const state = operations.length > 0 ? [{ type: 'update-state', path: [], operations }] : [];
    return event.type === 'run-end' ? [...state, ...ending(event)] : state;
  }

  private begin({ runId }: LoopEvent): Operation[] {
    if (this.hasBegun) return [];
    this.hasBegun = true;
    const isOfRun = (one: JsonValue): boolean => isJsonObject(one) && one['id'] === runId;
    const index = this.before.findIndex(isOfRun);
    if (index !== -1 && !this.isRepeated) return this.continue(index);
    const before = this.before.filter((one) => !isOfRun(one));
    this.at = String(before.length);
    const message = { id: runId, role: 'assistant', parts: [], status: 'running' };
    // the client's state has no message that it sent in a command
    return [set(['messages'], [...before, message])];
  }

  /**
   * A run that is resumed continues its message: what its calls return belongs to the parts that
   * are there.
   */
  private continue(index: number): Operation[] {
    this.at = String(index);
    const message = this.before[index];
    const parts = isJsonObject(message) && isJsonList(message['parts']) ? message['parts'] : [];
    this.count = parts.length;
    for (const [place, part] of parts.entries()) {
      if (isJsonObject(part) && typeof part['toolCallId'] === 'string')
        this.calls.set(part['toolCallId'], String(place));
    }
    return [set(['messages', this.at, 'status'], 'running')];
  }

  private operations(event: LoopEvent): Operation[] {
    if (event.type === 'text-delta') return this.text('text', event.text);
    if (event.type === 'reasoning-delta') return this.text('reasoning', event.text);
    if (event.type === 'run-end') return [set(['messages', this.at, 'status'], finishOf(event))];
    if (event.type === 'pending-request' && event.kind === 'rehearsal')
      return [set(['messages', this.at, 'rehearsal'], event.request)];
    const source = sourceIn(event);
    return source ? this.source(source) : [...this.call(event), ...this.ofCall(event)];
  }

  private source(source: object): Operation[] {
    this.open = undefined;
    return [set(this.part(this.add()), { type: 'source', ...source })];
  }

  private text(type: 'text' | 'reasoning', text: string): Operation[] {
    if (this.open === type)
      return [{ type: 'append-text', path: this.part(this.count - 1, 'text'), value: text }];
    this.open = type;
    return [set(this.part(this.add()), { type, text })];
  }

  private call(event: LoopEvent): Operation[] {
    const made = callIn(event);
    if (!made || this.calls.has(made.toolCallId)) return [];
    this.open = undefined;
    const index = this.add();
    this.calls.set(made.toolCallId, String(index));
    return [
      set(this.part(index), { type: 'tool-call', ...made, argsText: JSON.stringify(made.args) }),
    ];
  }

  private ofCall(event: LoopEvent): Operation[] {
    const { runId } = event;
    if (event.type === 'approval-request')
      return this.set(namedCall(runId, event.approval.toolCallId), 'approval', event.approval);
    if (event.type === 'pending-request' && event.kind === 'question')
      return this.set(namedCall(runId, event.request.toolCallId), 'question', event.request);
    const ended = endedIn(event);
    const shown = ended && resultIn(ended);
    if (!shown) return [];
    const name = namedCall(runId, ended.toolCallId);
    return [
      ...this.set(name, 'result', shown.result),
      ...(shown.isError ? this.set(name, 'isError', true) : []),
    ];
  }

  private set(name: string, member: string, value: unknown): Operation[] {
    const index = this.calls.get(name);
    return index === undefined ? [] : [set(this.part(Number(index), member), value)];
  }

  private add(): number {
    this.count += 1;
    return this.count - 1;
  }

  private part(index: number, ...member: string[]): string[] {
    return ['messages', this.at, 'parts', String(index), ...member];
  }
}

function set(path: readonly string[], value: unknown): Operation {
  return { type: 'set', path, value };
}

function ending(event: LoopEventOf<'run-end'>): Chunk[] {
  const failed = readFailedEnd(event);
  if (failed) return [{ type: 'error', path: [], error: failed.message, code: failed.code }];
  return [
    { type: 'message-finish', path: [], finishReason: finishOf(event), usage: usageOf(event) },
  ];
}
