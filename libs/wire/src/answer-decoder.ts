import {
  ModelError,
  type ModelEvent,
  type ModelResponseIdentity,
  type Usage,
} from '@toolloop/protocol';
import { createParser, type EventSourceParser } from 'eventsource-parser';
import { EVENT_END, eventAt, parseWireObject, type WireObject } from './wire-object.js';

/**
 * Decodes the bytes of an answer into model events, one batch per network read. It accepts an event
 * stream (https://html.spec.whatwg.org/multipage/server-sent-events.html), however its bytes are
 * cut, and the plain JSON of a server that does not stream.
 */
export class AnswerDecoder {
  /** Strips a byte order mark, and keeps the bytes of a character that is not complete yet. */
  private readonly utf8 = new TextDecoder();
  private readonly parser: EventSourceParser;
  /** The text received before the format was known, or the whole of a JSON body. */
  private body: string[] = [];
  private bodyLength = 0;
  private format: 'unknown' | 'events' | 'json' = 'unknown';
  private hasEvents = false;
  private hasOtherLines = false;
  private hasEnded = false;
  /** `true` while no event is read in part. */
  private isBetween = true;

  constructor(private readonly answer: WireAnswer) {
    this.parser = createParser({
      maxBufferSize: MAX_CHARACTERS,
      onEvent: ({ event, data }) => this.takePayload(event, data),
      onError: ({ type }) => {
        if (type === 'max-buffer-size-exceeded') this.answer.fail(tooLong());
        else this.hasOtherLines = true;
      },
    });
  }

  /** The provider's failure, to be thrown once the events of the batch are handed on. */
  get failure(): ModelError | undefined {
    return this.answer.failure;
  }

  /** `true` once the answer is complete: no later byte belongs to it. */
  get done(): boolean {
    return this.hasEnded || this.failure !== undefined;
  }

  read(bytes: Uint8Array): ModelEvent[] {
    if (!this.done) this.take(this.utf8.decode(bytes, STREAM));
    return this.answer.takeEvents();
  }

  /** Ends the input. Flushes an event whose blank line is missing. */
  end(): ModelEvent[] {
    if (this.done) return [];
    this.take(this.utf8.decode());
    if (this.format === 'json') this.takeBody(this.body.join(''));
    else if (this.failure === undefined) this.parser.feed('\n\n');
    if (this.hasOtherLines && !this.hasEvents) this.answer.fail(this.notAnAnswer('text'));
    this.finish();
    return this.answer.takeEvents();
  }

  private take(text: string): void {
    if (this.format === 'events') {
      this.takeLines(text);
      return;
    }
    this.body.push(text);
    this.bodyLength += text.length;
    if (this.bodyLength > MAX_CHARACTERS) this.answer.fail(tooLong());
    if (this.format === 'unknown' && text.trimStart() !== '') this.recognise(this.body.join(''));
  }

  /**
   * Recognises the format by the first character and not by the content type, which compatible
   * servers get wrong in both directions.
   */
  private recognise(start: string): void {
    const first = start.trimStart().charAt(0);
    if (first === '<') {
      this.answer.fail(this.notAnAnswer('HTML'));
      return;
    }
    this.format = first === '{' || first === '[' ? 'json' : 'events';
    if (this.format === 'json') return;
    this.body = [];
    this.takeLines(start);
  }

  /** Reads event by event; what is no event of one payload is parsed. */
  private takeLines(text: string): void {
    for (let at = 0; at < text.length && !this.done;) {
      const end = this.takeEvent(text, at);
      at = end < 0 ? this.parse(text, at) : end;
    }
  }

  /**
   * Takes an event that is wholly here and has one payload, maybe behind its name, as those of all
   * providers are; returns the place behind it, and -1 for anything else.
   */
  private takeEvent(text: string, at: number): number {
    if (!this.isBetween) return -1;
    const found = eventAt(text, at);
    if (found === undefined) return -1;
    const { name, payload, end } = found;
    this.takePayload(name, payload);
    return end;
  }

  /** Parses an event, or all there is where none ends, and returns the place behind it. */
  private parse(text: string, at: number): number {
    const end = text.indexOf(EVENT_END, at);
    const raw = text.slice(at, end < 0 ? undefined : end + EVENT_END.length);
    this.parser.feed(raw);
    this.isBetween = raw.endsWith(EVENT_END);
    return at + raw.length;
  }

  private takePayload(event: string | undefined, payload: string): void {
    if (this.done) return;
    if (event === 'error') {
      this.answer.fail(this.answer.toFailure(payload));
      return;
    }
    if (payload === '') return;
    this.hasEvents = true;
    if (event !== undefined && this.answer.redundant.has(event)) return;
    // A payload that is no object is `[DONE]`, or some server's keep-alive such as `ping`.
    if (payload.trimStart().startsWith('{')) this.takeChunk(payload);
    else if (payload.trim() === '[DONE]') this.finish();
  }

  private takeChunk(payload: string): void {
    const chunk = parseWireObject(payload);
    if (chunk === undefined) this.answer.lose();
    else this.answer.takeChunk(chunk);
    if (this.answer.hasEnded) this.finish();
  }

  private takeBody(text: string): void {
    const body = parseWireObject(text) ?? firstOf(text);
    if (body === undefined)
      this.answer.fail(
        new ModelError('The provider sent a JSON body that is not valid.', {
          code: 'invalid_answer',
          retryable: true,
        }),
      );
    else if (this.answer.recognises(body)) this.answer.takeWhole(body);
    else this.answer.fail(this.notAnAnswer('other JSON'));
  }

  private finish(): void {
    if (this.hasEnded || this.failure !== undefined) return;
    this.hasEnded = true;
    this.answer.finish();
  }

  private notAnAnswer(what: string): ModelError {
    const { kind, whereToLook } = this.answer;
    return new ModelError(`The server answered with ${what} instead of a ${kind}. ${whereToLook}`, {
      code: 'invalid_answer',
      retryable: false,
    });
  }
}

/**
 * The longest event or JSON body that is read, in characters: no answer is that long, and memory is
 * finite.
 */
const MAX_CHARACTERS = 16 * 1024 * 1024;

const STREAM = { stream: true };

/** Gemini wraps an error in an array. */
function firstOf(text: string): WireObject | undefined {
  const body = text.trim();
  return body.startsWith('[') ? parseWireObject(body.slice(1, -1)) : undefined;
}

function tooLong(): ModelError {
  return new ModelError(`The provider sent an event of more than ${MAX_CHARACTERS} characters.`, {
    code: 'invalid_answer',
    retryable: false,
  });
}

const NONE: ReadonlySet<string> = new Set();

/**
 * The port of one API's format: it takes the payloads of one answer and gives model events. There
 * is one instance for each answer.
 *
 * @example
 * class EchoAnswer extends WireAnswer {
 *   readonly kind = 'echo answer';
 *   readonly whereToLook = 'Check `baseURL`.';
 *   hasEnded = false;
 *
 *   takeChunk({ text, done }: WireObject): void {
 *     if (typeof text === 'string') this.batch.append('text-delta', text);
 *     this.hasEnded = done === true;
 *   }
 *
 *   takeWhole(body: WireObject): void {
 *     this.takeChunk({ ...body, done: true });
 *   }
 *
 *   recognises(body: WireObject): boolean {
 *     return 'text' in body;
 *   }
 *
 *   toFailure(payload: string): ModelError {
 *     return reported({ message: payload });
 *   }
 *
 *   finish(): void {
 *     this.batch.push({
 *       type: 'finish',
 *       finishReason: this.hasEnded && !this.hasLost ? 'stop' : 'incomplete',
 *     });
 *   }
 * }
 */
export abstract class WireAnswer {
  /** The name of an answer of this API, for error messages. */
  abstract readonly kind: string;
  /** The hint of an error message where the server answers with something else. */
  abstract readonly whereToLook: string;
  /** The names of events whose payloads repeat other events: they are not parsed. */
  readonly redundant: ReadonlySet<string> = NONE;
  protected readonly batch = new EventBatch();
  protected hasLost = false;
  private error: ModelError | undefined;

  /** The first failure; it ends the answer. */
  get failure(): ModelError | undefined {
    return this.error;
  }

  /** The provider's own finish reason, such as `end_turn`. */
  get providerReason(): string | undefined {
    return undefined;
  }

  /** The provider's names for the answer, as far as they are in its body. */
  get identity(): ModelResponseIdentity {
    return {};
  }

  /** The usage as far as the provider has reported it: an answer that fails has cost that much. */
  get reportedUsage(): Usage | undefined {
    return undefined;
  }

  /** `true` once the answer has reported its end. */
  abstract get hasEnded(): boolean;

  /**
   * `true` once the provider has said how the answer ends. Nothing of it is missing then, even if
   * the stream does not end properly.
   */
  get isWhole(): boolean {
    return this.providerReason !== undefined && !this.hasLost;
  }

  /**
   * `true` while the provider waits for a request to continue: the body of that request's response
   * is part of the same answer.
   */
  get isPaused(): boolean {
    return false;
  }

  /**
   * Ends the answer with a failure. Events before it are still handed out; only the first failure
   * counts.
   */
  fail(error: ModelError): void {
    this.error ??= error;
  }

  /** Notes a payload that could not be read: the answer is incomplete, whatever follows. */
  lose(): void {
    this.hasLost = true;
  }

  takeEvents(): ModelEvent[] {
    return this.batch.take();
  }

  /**
   * Makes the failure of an `event: error`, whose payload need not be JSON where a proxy wrote it.
   */
  abstract toFailure(payload: string): ModelError;
  /** Takes a payload of an event stream. */
  abstract takeChunk(chunk: WireObject): void;
  /** Tells whether a JSON body is an answer of this API, or its error. */
  abstract recognises(body: WireObject): boolean;
  /** Takes a whole answer, from a server that does not stream. */
  abstract takeWhole(body: WireObject): void;
  /**
   * Takes the end of a body: of the answer's last one, or of one that paused. Called once for each
   * body, unless the answer failed.
   */
  abstract finish(): void;
}

/** The call that an argument delta belongs to. */
export interface CallName {
  readonly toolCallId: string;
  readonly name: string;
}

/**
 * The events of one network read. Neighbouring deltas of the same kind become one event, so that a
 * provider that packs 2,000 tokens into one packet costs the loop one event, not 2,000.
 */
export class EventBatch {
  private events: ModelEvent[] = [];
  private kind: 'text-delta' | 'reasoning-delta' | CallName | undefined;
  private delta = '';

  append(kind: 'text-delta' | 'reasoning-delta' | CallName, delta: string): void {
    // Providers send `content: ""` beside every other delta; it separates nothing.
    if (delta === '') return;
    if (this.kind !== kind) {
      this.flush();
      this.kind = kind;
    }
    this.delta += delta;
  }

  push(event: ModelEvent): void {
    this.flush();
    this.events.push(event);
  }

  take(): ModelEvent[] {
    this.flush();
    const { events } = this;
    this.events = [];
    return events;
  }

  private flush(): void {
    const { kind, delta } = this;
    this.kind = undefined;
    this.delta = '';
    if (kind === undefined) return;
    this.events.push(
      typeof kind === 'string'
        ? { type: kind, text: delta }
        : {
            type: 'tool-call-delta',
            toolCallId: kind.toolCallId,
            name: kind.name,
            argumentsDelta: delta,
          },
    );
  }
}
