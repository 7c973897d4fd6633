import { type JsonObject, LanguageModel, type Message, type ModelError, type ToolSpec, type Usage } from '@toolloop/core';
import type { ModelEvent, ModelFinishReason, ModelRequest } from '@toolloop/protocol';
import { ExpectationError, UnexpectedModelCallError } from './testing.error.js';

/** The usage that every built answer reports unless it says otherwise, in round numbers so that totals are easy to check. */
export const SCRIPTED_USAGE: Usage = { inputTokens: 10, outputTokens: 5 };

/** The end of an answer: after its events it is over, waits to be aborted, or throws. */
export type ScriptedEnding = { readonly kind: 'return' } | { readonly kind: 'hang' } | { readonly kind: 'throw'; readonly error: Error };

/** One answer of a script. Make it with `text`, `calls` and the like. */
export interface ScriptedAnswer {
  /** Shown when the answer is left over. */
  readonly title: string;
  /** The events, in order; `nextCallId` names the calls that were given no id. */
  readonly events: (nextCallId: () => string) => readonly ModelEvent[];
  readonly ending: ScriptedEnding;
}

/** An entry of a script: an answer, or a function that looks at the request first. */
export type ScriptedTurn = ScriptedAnswer | ((request: ModelRequest) => ScriptedAnswer | Promise<ScriptedAnswer>);

/** One tool call of an answer, as {@link call} makes it. */
export interface ScriptedCall {
  readonly id?: string;
  readonly name: string;
  /** JSON text, possibly malformed. */
  readonly arguments: string;
}

/** The parts of an answer beside its text. */
export interface ScriptedAnswerOptions {
  /** @default 'stop' */
  readonly reason?: ModelFinishReason;
  /** @default {@link SCRIPTED_USAGE} */
  readonly usage?: Usage;
  /** Streamed before the text. @default none */
  readonly reasoning?: string;
}

const RETURN: ScriptedEnding = { kind: 'return' };

/** An answer in words, streamed in up to three deltas. */
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
 * One call of an answer. Arguments given as a string are sent as they stand, malformed ones too. Without an id the model numbers it: `call_1`,
 * `call_2` and so on through the whole script.
 */
export function call(name: string, args: JsonObject | string = {}, options: { readonly id?: string } = {}): ScriptedCall {
  return { id: options.id, name, arguments: typeof args === 'string' ? args : JSON.stringify(args) };
}

/** An answer that calls tools, in this order, each streamed in deltas and then assembled. */
export function calls(...wanted: readonly ScriptedCall[]): ScriptedAnswer {
  return textAndCalls('', ...wanted);
}

/** An answer that says something and then calls tools. */
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

/** An answer of exactly these events: what no other builder makes, such as interleaved deltas or two finishes. */
export function events(exact: readonly ModelEvent[]): ScriptedAnswer {
  return { title: `events(${exact.map(({ type }) => type).join(', ')})`, events: () => exact, ending: RETURN };
}

/** A provider that fails, after it has streamed `words`. */
export function fails(error: ModelError, words = ''): ScriptedAnswer {
  return { title: `fails(${error.message})`, events: () => textDeltas(words), ending: { kind: 'throw', error } };
}

/** A provider that falls silent, after it has streamed `words`, until the call is aborted. */
export function hangs(words = ''): ScriptedAnswer {
  return { title: 'hangs()', events: () => textDeltas(words), ending: { kind: 'hang' } };
}

/** A stream that ends, after `words`, without a `finish`. */
export function cut(words = ''): ScriptedAnswer {
  return { title: 'cut()', events: () => textDeltas(words), ending: RETURN };
}

function textDeltas(words: string): readonly ModelEvent[] {
  return pieces(words).map((piece) => ({ type: 'text-delta', text: piece }));
}

function callEvents({ name, arguments: json }: ScriptedCall, toolCallId: string): readonly ModelEvent[] {
  const deltas = json === '' ? [''] : pieces(json);
  return [
    ...deltas.map((argumentsDelta): ModelEvent => ({ type: 'tool-call-delta', toolCallId, name, argumentsDelta })),
    { type: 'tool-call', toolCallId, name, arguments: json },
  ];
}

/** Up to three pieces that break no character. */
function pieces(whole: string): readonly string[] {
  const characters = Array.from(whole);
  const size = Math.ceil(characters.length / 3);
  return [0, size, 2 * size].map((start) => characters.slice(start, start + size).join('')).filter((piece) => piece !== '');
}

/** A request as it stood when the model received it: later changes by the loop do not show in it. */
export interface RecordedRequest extends ModelRequest {
  /** Copies. */
  readonly messages: readonly Message[];
  /** The very message objects the loop passed, to check that the same ones come again. */
  readonly originalMessages: readonly Message[];
  /** The very array the loop passed, to check that the same one comes again. */
  readonly tools: readonly ToolSpec[];
  readonly toolIds: readonly string[];
  readonly signal: AbortSignal;
}

/** Copies what the loop could change later. */
function toRecordedRequest(request: ModelRequest, signal: AbortSignal): RecordedRequest {
  return {
    ...request,
    messages: request.messages.map(copyOf),
    originalMessages: [...request.messages],
    toolIds: request.tools.map(({ id }) => id),
    signal,
  };
}

function copyOf(message: Message): Message {
  if (message.role === 'system') return { ...message };
  if (message.role !== 'assistant') return { ...message, content: contentOf(message.content) };
  return message.toolCalls === undefined ? { ...message } : { ...message, toolCalls: message.toolCalls.map((one) => ({ ...one })) };
}

function contentOf<Part extends object>(content: string | readonly Part[]): string | readonly Part[] {
  return typeof content === 'string' ? content : content.map((part) => ({ ...part }));
}

/**
 * A model that plays a script, so that a test decides what is answered and reads what was asked. It does not share answers out by run: runs that
 * overlap need a model each, or entries that look at the request.
 */
export class ScriptedModel extends LanguageModel {
  readonly provider = 'scripted';
  readonly modelId: string;
  private readonly asked: RecordedRequest[] = [];
  private failure: unknown;
  private numberedCalls = 0;
  private streaming = 0;

  /** `modelId` is `script` by default. */
  constructor(
    private readonly script: readonly ScriptedTurn[],
    options: { readonly modelId?: string } = {},
  ) {
    super();
    this.modelId = options.modelId ?? 'script';
  }

  /** The requests so far, unexpected calls included. */
  get requests(): readonly RecordedRequest[] {
    return this.asked;
  }

  /** Answers that are being read right now; 0 when every one was read to its end, left or aborted. */
  get openStreams(): number {
    return this.streaming;
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const turn = this.script[this.asked.length];
    this.asked.push(toRecordedRequest(request, signal));
    this.streaming += 1;
    const reading = new AbortController();
    const aborted = untilAborted(signal, reading.signal);
    try {
      const answer = await Promise.race([this.answerOf(turn, request), aborted]);
      if (answer === undefined) return;
      yield* this.eventsOf(answer, signal);
      if (!signal.aborted) await end(answer.ending, aborted);
    } finally {
      this.streaming -= 1;
      reading.abort();
    }
  }

  /**
   * Fails the test when the model was called too often, when a function of the script threw, or when answers are left over. Call it at the end of
   * every test: the loop makes a failed run of such errors. Throws what was thrown then, or an `ExpectationError`.
   */
  assertComplete(): void {
    if (this.failure !== undefined) throw this.failure;
    const left = this.script.slice(this.asked.length);
    if (left.length === 0) return;
    throw new ExpectationError(
      `The model was called ${this.asked.length} times, but its script has ${this.script.length} answers. Left over: ${left.map(titleOf).join('; ')}`,
    );
  }

  private async answerOf(turn: ScriptedTurn | undefined, request: ModelRequest): Promise<ScriptedAnswer> {
    try {
      if (turn === undefined) throw new UnexpectedModelCallError(request, this.script.length);
      return typeof turn === 'function' ? await turn(request) : turn;
    } catch (error) {
      this.failure ??= error;
      throw error;
    }
  }

  private *eventsOf(answer: ScriptedAnswer, signal: AbortSignal): Generator<ModelEvent, void, undefined> {
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

async function end(ending: ScriptedEnding, aborted: Promise<void>): Promise<void> {
  if (ending.kind === 'hang') await aborted;
  if (ending.kind === 'throw') throw ending.error;
}

/** Resolves when `signal` is aborted; forgets about it when `reading` is. */
function untilAborted(signal: AbortSignal, reading: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true, signal: reading });
  });
}

function titleOf(turn: ScriptedTurn): string {
  return typeof turn === 'function' ? 'a function of the request' : turn.title;
}
