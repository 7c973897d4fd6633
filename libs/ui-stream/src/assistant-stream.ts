import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type LoopEvent,
  type LoopEventOf,
  type ShownCall,
} from '@toolloop/protocol';
import {
  COMMENT,
  cutBefore,
  type DeclaredClientTool,
  declaredTools,
  type EventEncoder,
  frame,
  type NamedAnswer,
  SSE_HEADERS,
  isGiven,
  type MessageCut,
  namedCall,
  type ShownResults,
} from './encoder.js';

/** The end of a message as assistant-stream says it. */
function finishOf({ finishReason }: LoopEventOf<'run-end'>): string {
  if (finishReason === 'stop' || finishReason === 'length') return finishReason;
  if (finishReason === 'content_filter') return 'content-filter';
  return finishReason === 'waiting' ? 'tool-calls' : 'other';
}

function usageOf({ usage: { inputTokens, outputTokens } }: LoopEventOf<'run-end'>): object {
  return { inputTokens, outputTokens };
}

/** A call as these protocols show it: at once and whole. */
interface WholeCall {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly args: JsonObject;
}

function callIn(event: LoopEvent): WholeCall | undefined {
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
function endedIn(event: LoopEvent): ShownCall | undefined {
  if (event.type === 'call-stands') return event.call;
  return event.type === 'tool-result' ? event.record : undefined;
}

/** The source of a citation, which these protocols know by its address alone. */
function sourceIn(event: LoopEvent): object | undefined {
  if (event.type !== 'citation' || event.citation.url === undefined) return undefined;
  const { url, title } = event.citation;
  return {
    sourceType: 'url',
    id: `${event.runId}-source-${event.sequence}`,
    url,
    ...(title !== undefined && { title }),
  };
}

interface ShownResult {
  readonly result: JsonValue;
  readonly isError?: true;
}

function resultIn({ status, result = null, error }: ShownCall): ShownResult | undefined {
  if (status === 'waiting') return undefined;
  return status === 'succeeded'
    ? { result }
    : { result: error?.safeMessage ?? 'The call failed.', isError: true };
}

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
  if (event.finishReason === 'error') return line('3', event.error?.message ?? 'The run failed.');
  return line('d', { finishReason: finishOf(event), usage: usageOf(event) });
}

const NO_TOKENS = { inputTokens: 0, outputTokens: 0 };

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
  if (event.finishReason === 'error')
    return [
      {
        type: 'error',
        path: [],
        error: event.error?.message ?? 'The run failed.',
        code: event.error?.code ?? 'error',
      },
    ];
  return [
    { type: 'message-finish', path: [], finishReason: finishOf(event), usage: usageOf(event) },
  ];
}

/**
 * A request of a client of these protocols, of which only the newest turn is read: the server has
 * the earlier ones.
 */
export interface AssistantRequest {
  /** The client's id of the thread, to use as the id of the conversation. */
  readonly threadId?: string;
  /** The text of the newest message if a user wrote it. */
  readonly prompt?: string;
  /**
   * The client's id of the newest message if a user wrote it, under which it is found again when
   * the user changes the words.
   */
  readonly messageId?: string;
  /**
   * The place of the answer that gives way to that of a question whose words the user has changed.
   */
  readonly cut?: MessageCut;
  /** The answers to what a run asked: results of calls that the client made, and decisions. */
  readonly answers: readonly NamedAnswer[];
  /** The messages of the client's state, with the new one, behind which the answer stands. */
  readonly messages: readonly JsonValue[];
  /**
   * The client's state beside its messages; absent where it sends none, as a page that was loaded
   * again.
   */
  readonly state?: JsonObject;
  /** The tools that the client says it has. */
  readonly tools: readonly DeclaredClientTool[];
}

/**
 * Reads the body of a request of the assistant transport: its commands are a message, or results of
 * tools. A result for a call that waits for an approval is a yes or no: `{ approved, reason? }`.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { prompt, threadId } = readAssistantRequest(request.body);
 */
export function readAssistantRequest(body: JsonValue | undefined): AssistantRequest {
  if (!isJsonObject(body) || !isJsonList(body['commands']))
    throw new TypeError('The body must be an object with "commands", a list.');
  const commands = body['commands'].filter(isJsonObject);
  const { messages, ...state } = isJsonObject(body['state']) ? body['state'] : {};
  const adding = commands.filter(
    ({ type, message }) => type === 'add-message' && isJsonObject(message),
  );
  const said = adding.flatMap(({ message }) => (isJsonObject(message) ? [message] : []));
  const { before, cut } = placeOf(isJsonList(messages) ? messages : [], adding);
  return {
    ...(typeof body['threadId'] === 'string' && { threadId: body['threadId'] }),
    ...questionIn(said, cut),
    answers: commands.flatMap(answerOf),
    messages: [...before, ...said],
    ...('state' in body && { state }),
    tools: declaredTools(body['tools']),
  };
}

/** The question of the messages of the user; none if they are empty. */
function questionIn(
  said: readonly JsonObject[],
  cut: MessageCut | undefined,
): Pick<AssistantRequest, 'prompt' | 'messageId' | 'cut'> {
  const prompt = said.map(textOf).join('\n');
  const messageId = said.at(-1)?.['id'];
  if (prompt === '') return {};
  return { prompt, ...(typeof messageId === 'string' && { messageId }), ...(cut && { cut }) };
}

/**
 * The messages before the new one: those behind a message whose words were changed go. The command
 * of a changed message has the id of the one that it stands for.
 */
function placeOf(
  messages: readonly JsonValue[],
  adding: readonly JsonObject[],
): { readonly before: readonly JsonValue[]; readonly cut?: MessageCut } {
  const source = adding.at(-1)?.['sourceId'];
  if (typeof source !== 'string') return { before: messages };
  const index = messages.findIndex((one) => isJsonObject(one) && one['id'] === source);
  const before = index === -1 ? messages : messages.slice(0, index);
  return { before, cut: cutBefore([...before.filter(isJsonObject), { id: source }]) };
}

function textOf(message: JsonObject): string {
  const parts = isJsonList(message['parts']) ? message['parts'].filter(isJsonObject) : [];
  return parts
    .flatMap(({ type, text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
    .join('');
}

function answerOf({ type, toolCallId, result, isError }: JsonObject): NamedAnswer[] {
  if (type !== 'add-tool-result' || typeof toolCallId !== 'string') return [];
  return [{ id: toolCallId, value: result ?? null, ...(isError === true && { isRefused: true }) }];
}

/**
 * Reads the body of a request of a data stream client: `messages` in the form of assistant-ui's
 * core, the last of which is read.
 *
 * @throws {TypeError} For a body that no such client sends.
 * @example
 * const { prompt } = readDataStreamRequest(request.body);
 */
export function readDataStreamRequest(body: JsonValue | undefined): AssistantRequest {
  if (!isJsonObject(body) || !isJsonList(body['messages']))
    throw new TypeError('The body must be an object with "messages", a list.');
  const last = body['messages'].at(-1);
  if (!isJsonObject(last)) throw new TypeError('The last of "messages" must be an object.');
  const thread = {
    ...(typeof body['threadId'] === 'string' && { threadId: body['threadId'] }),
    tools: declaredTools(body['tools']),
  };
  const content = isJsonList(last['content']) ? last['content'].filter(isJsonObject) : [];
  if (last['role'] === 'user') {
    const prompt =
      typeof last['content'] === 'string'
        ? last['content']
        : content.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
    return { ...thread, prompt, answers: [], messages: [] };
  }
  return {
    ...thread,
    answers: last['role'] === 'tool' ? content.flatMap(toolResultOf) : [],
    messages: [],
  };
}

function toolResultOf({ type, toolCallId, output, result }: JsonObject): NamedAnswer[] {
  if (type !== 'tool-result' || typeof toolCallId !== 'string') return [];
  const value = isJsonObject(output) && 'value' in output ? output['value'] : (output ?? result);
  return value === undefined ? [] : [{ id: toolCallId, value }];
}
