import {
  type JsonObject,
  LanguageModel,
  type Message,
  type ModelError,
  type ToolSpec,
  type Usage,
} from '@toolloop/core';
import type { ModelEvent, ModelFinishReason, ModelRequest } from '@toolloop/protocol';
import { ExpectationError, UnexpectedModelCallError } from './testing.error.js';

/**
 * A model that plays a script, so that a test chooses the answers and reads the requests. It does
 * not assign answers to runs: overlapping runs need a model each, `perRun`, or entries that read
 * the request.
 *
 * @example
 * const model = new ScriptedModel([
 *   calls(call('crm__search_customers', { name: 'Ann' })),
 *   text('Ann is a customer.'),
 * ]);
 * // … run the loop with `model` …
 * model.assertComplete();
 */
export class ScriptedModel extends LanguageModel {
  readonly provider = 'scripted';
  readonly modelId: string;
  private readonly asked: RecordedRequest[] = [];
  private failure: unknown;
  private numberedCalls = 0;
  private streaming = 0;

  constructor(
    private readonly script: readonly ScriptedTurn[],
    private readonly options: ScriptedModelOptions = {},
  ) {
    super();
    this.modelId = options.modelId ?? 'script';
  }

  /** The requests so far, unexpected ones included. */
  get requests(): readonly RecordedRequest[] {
    return this.asked;
  }

  /**
   * The number of answers that are being read; 0 once every one was read to its end, left or
   * aborted.
   */
  get openStreams(): number {
    return this.streaming;
  }

  /** @throws UnexpectedModelCallError if the script has no further answer */
  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const { messages } = request;
    const turn =
      this.script[
        this.options.perRun
          ? messages.filter(({ role }) => role === 'assistant').length
          : this.asked.length
      ];
    this.asked.push(toRecordedRequest(request, signal));
    this.streaming += 1;
    const reading = new AbortController();
    const aborted = untilAborted(signal, reading.signal);
    try {
      const answer = await Promise.race([this.resolve(turn, request), aborted]);
      if (answer === undefined) return;
      yield* this.eventsOf(answer, signal);
      if (!signal.aborted) await end(answer.ending, aborted);
    } finally {
      this.streaming -= 1;
      reading.abort();
    }
  }

  /**
   * Asserts that the model was called as often as the script has answers (with `perRun`: by no run
   * more often), and that no function of the script threw. Call it at the end of every test, since
   * the loop turns such errors into a failed run.
   *
   * @throws UnexpectedModelCallError if the model was called too often
   * @throws ExpectationError if answers are left over
   * @throws the error that a function of the script threw
   */
  assertComplete(): void {
    if (this.failure !== undefined) throw this.failure;
    const left = this.options.perRun ? [] : this.script.slice(this.asked.length);
    if (left.length === 0) return;
    throw new ExpectationError(
      `The model was called ${this.asked.length} times, but its script has ${this.script.length} answers. Left over: ${left.map(titleOf).join('; ')}`,
    );
  }

  private async resolve(
    turn: ScriptedTurn | undefined,
    request: ModelRequest,
  ): Promise<ScriptedAnswer> {
    try {
      if (turn === undefined) throw new UnexpectedModelCallError(request, this.script.length);
      return typeof turn === 'function' ? await turn(request) : turn;
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }

  private *eventsOf(
    answer: ScriptedAnswer,
    signal: AbortSignal,
  ): Generator<ModelEvent, void, undefined> {
    for (const event of answer.events(() => this.nextCallId())) {
      if (signal.aborted) return;
      yield event;
    }
  }

  private nextCallId(): string {
    this.numberedCalls += 1;
    return `call_${this.numberedCalls}`;
  }
}

/** The usage of a scripted answer by default, in round numbers so that totals are easy to check. */
export const SCRIPTED_USAGE: Usage = { inputTokens: 10, outputTokens: 5 };

/** The end of an answer: after its events it ends, waits to be aborted, or throws. */
export type ScriptedEnding =
  | { readonly kind: 'return' }
  | { readonly kind: 'hang' }
  | { readonly kind: 'throw'; readonly error: Error };

/**
 * One answer of a script. Make one with {@link text}, {@link calls}, {@link fails} and the like.
 */
export interface ScriptedAnswer {
  /** The name of the answer in the message of {@link ScriptedModel.assertComplete}. */
  readonly title: string;
  /** The events, in order; `nextCallId` names the calls that were given no id. */
  readonly events: (nextCallId: () => string) => readonly ModelEvent[];
  readonly ending: ScriptedEnding;
}

/** An entry of a script: an answer, or a function that makes one for the request. */
export type ScriptedTurn =
  ScriptedAnswer | ((request: ModelRequest) => ScriptedAnswer | Promise<ScriptedAnswer>);

/** One tool call of an answer, as {@link call} makes it. */
export interface ScriptedCall {
  readonly id?: string;
  readonly name: string;
  /** The arguments as JSON text, possibly malformed. */
  readonly arguments: string;
}

/** The parts of an answer beside its text. */
export interface ScriptedAnswerOptions {
  /** @default 'stop' */
  readonly reason?: ModelFinishReason;
  /** @default {@link SCRIPTED_USAGE} */
  readonly usage?: Usage;
  /** The reasoning that is streamed before the text. @default none */
  readonly reasoning?: string;
}

/** Makes a text answer, streamed in up to three deltas. */
export function text(words: string, options: ScriptedAnswerOptions = {}): ScriptedAnswer {
  const { reason = 'stop', usage = SCRIPTED_USAGE, reasoning = '' } = options;
  return {
    title: `text(${JSON.stringify(words)})`,
    events: () => [
      ...pieces(reasoning).map((piece): ModelEvent => ({ type: 'reasoning-delta', text: piece })),
      ...textDeltas(words),
      { type: 'usage', usage },
      { type: 'finish', finishReason: reason },
    ],
    ending: RETURN,
  };
}

/**
 * Makes a call for {@link calls}. Arguments given as a string are sent as they stand, malformed
 * ones too. A call without an id is numbered: `call_1`, `call_2` and so on through the whole
 * script.
 */
export function call(
  name: string,
  args: JsonObject | string = {},
  options: { readonly id?: string } = {},
): ScriptedCall {
  return {
    id: options.id,
    name,
    arguments: typeof args === 'string' ? args : JSON.stringify(args),
  };
}

/**
 * Makes an answer that calls tools, in this order, each streamed in deltas and then assembled.
 *
 * @example
 * calls(call('crm__search_customers', { name: 'Ann' }), call('clock__now'))
 */
export function calls(...wanted: readonly ScriptedCall[]): ScriptedAnswer {
  return textAndCalls('', ...wanted);
}

/** Makes an answer of a text and then calls. */
export function textAndCalls(words: string, ...wanted: readonly ScriptedCall[]): ScriptedAnswer {
  return {
    title: `calls(${wanted.map(({ name }) => name).join(', ')})`,
    events: (nextCallId) => [
      ...textDeltas(words),
      ...wanted.flatMap((one) => callEvents(one, one.id ?? nextCallId())),
      { type: 'usage', usage: SCRIPTED_USAGE },
      { type: 'finish', finishReason: 'tool_calls' },
    ],
    ending: RETURN,
  };
}

/** Makes an answer of exactly these events, such as interleaved deltas or two finishes. */
export function events(exact: readonly ModelEvent[]): ScriptedAnswer {
  return {
    title: `events(${exact.map(({ type }) => type).join(', ')})`,
    events: () => exact,
    ending: RETURN,
  };
}

/** Makes an answer that fails after it has streamed `words`. */
export function fails(error: ModelError, words = ''): ScriptedAnswer {
  return {
    title: `fails(${error.message})`,
    events: () => textDeltas(words),
    ending: { kind: 'throw', error },
  };
}

/** Makes an answer that stalls after it has streamed `words`, until the call is aborted. */
export function hangs(words = ''): ScriptedAnswer {
  return { title: 'hangs()', events: () => textDeltas(words), ending: { kind: 'hang' } };
}

/** Makes an answer that ends after `words` without a `finish`. */
export function cut(words = ''): ScriptedAnswer {
  return { title: 'cut()', events: () => textDeltas(words), ending: RETURN };
}

/** A request as it was when the model received it: later changes by the loop do not show in it. */
export interface RecordedRequest extends ModelRequest {
  /** Copies of the messages. */
  readonly messages: readonly Message[];
  /** The message objects that the loop passed, to check that the same ones are passed again. */
  readonly originalMessages: readonly Message[];
  /** The array that the loop passed, to check that the same one is passed again. */
  readonly tools: readonly ToolSpec[];
  readonly toolIds: readonly string[];
  readonly signal: AbortSignal;
}

/** Options of a `ScriptedModel`. */
export interface ScriptedModelOptions {
  /** @default 'script' */
  readonly modelId?: string;
  /**
   * True where each run plays the script from its beginning: the answer is told by how many the
   * request has already, so that runs may overlap and may continue in another process. A run of a
   * conversation counts the answers that the conversation brought. @default false
   */
  readonly perRun?: boolean;
}

const RETURN: ScriptedEnding = { kind: 'return' };

function textDeltas(words: string): readonly ModelEvent[] {
  return pieces(words).map((piece) => ({ type: 'text-delta', text: piece }));
}

function callEvents(
  { name, arguments: json }: ScriptedCall,
  toolCallId: string,
): readonly ModelEvent[] {
  const deltas = json === '' ? [''] : pieces(json);
  return [
    ...deltas.map((argumentsDelta): ModelEvent => ({
      type: 'tool-call-delta',
      toolCallId,
      name,
      argumentsDelta,
    })),
    { type: 'tool-call', toolCallId, name, arguments: json },
  ];
}

/** Cuts a text into up to three pieces that break no character. */
function pieces(whole: string): readonly string[] {
  const characters = Array.from(whole);
  const size = Math.ceil(characters.length / 3);
  return [0, size, 2 * size]
    .map((start) => characters.slice(start, start + size).join(''))
    .filter((piece) => piece !== '');
}

/** Copies everything that the loop could change later. */
function toRecordedRequest(request: ModelRequest, signal: AbortSignal): RecordedRequest {
  return {
    ...request,
    messages: request.messages.map(copyMessage),
    originalMessages: [...request.messages],
    toolIds: request.tools.map(({ id }) => id),
    signal,
  };
}

function copyMessage(message: Message): Message {
  if (message.role === 'system') return { ...message };
  if (message.role !== 'assistant') return { ...message, content: copyContent(message.content) };
  return message.toolCalls === undefined
    ? { ...message }
    : { ...message, toolCalls: message.toolCalls.map((one) => ({ ...one })) };
}

function copyContent<Part extends object>(
  content: string | readonly Part[],
): string | readonly Part[] {
  return typeof content === 'string' ? content : content.map((part) => ({ ...part }));
}

async function end(ending: ScriptedEnding, aborted: Promise<void>): Promise<void> {
  if (ending.kind === 'hang') await aborted;
  if (ending.kind === 'throw') throw ending.error;
}

/** Resolves when `signal` is aborted; stops listening when `reading` is. */
function untilAborted(signal: AbortSignal, reading: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true, signal: reading });
  });
}

function titleOf(turn: ScriptedTurn): string {
  return typeof turn === 'function' ? 'a function of the request' : turn.title;
}
