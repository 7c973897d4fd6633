import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { type JsonObject, type JsonValue, LanguageModel, ModelError } from '@toolloop/core';
import { canonicalJson, parseJson, toJsonObject } from '@toolloop/core/internal';
import {
  isJsonList,
  isJsonObject,
  isRecord,
  type Message,
  type ModelEvent,
  type ModelRequest,
} from '@toolloop/protocol';
import { closestTo, differenceText } from './json-difference.js';
import { type Redact, redacted, redactSecrets } from './redaction.js';
import { CassetteMissError, ExpectationError } from './testing.error.js';

/**
 * A model that records what a real one answers, once, and replays it. A request is found by what
 * the model would read of it: instructions, messages, tools, options. A request that is not
 * recorded fails and says in which places it differs from the closest one that is.
 *
 * A step that is asked again with an equal request gets the next answer that was recorded for it,
 * and the last one again when there are no more.
 *
 * @example
 * const model = new CassetteModel('test/cassettes/refund.json', {
 *   model: openai({ model: 'gpt-5-mini' }),
 * });
 * // … run the loop with `model` …
 * model.assertComplete();
 */
export class CassetteModel extends LanguageModel {
  override readonly provider: string;
  override readonly modelId: string;
  override readonly capabilities;
  private readonly recorded: Interaction[];
  private readonly played = new Map<string, number>();
  private readonly isNew: boolean;
  private readonly redact: Redact;
  private readonly model: LanguageModel | undefined;
  private failure: Error | undefined;

  /**
   * @throws {ExpectationError} Where there is nothing to replay and no model to record, and for a
   *   file that is no cassette.
   */
  constructor(
    private readonly file: string,
    { model, record = recordingHere(), redact = redactSecrets }: CassetteOptions = {},
  ) {
    super();
    const { provider, modelId, interactions } = opened(file, model, record);
    this.provider = provider;
    this.modelId = modelId;
    this.capabilities = model?.capabilities ?? {};
    this.isNew = interactions === undefined;
    this.recorded = [...(interactions ?? [])];
    this.redact = redact;
    this.model = model;
  }

  /** @throws {CassetteMissError} For a request that is not recorded, with the places that moved. */
  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const rendered = this.rendered(request);
    const model = this.isNew ? this.model : undefined;
    if (model) return yield* this.recordedFrom(model, rendered, request, signal);
    const interaction = this.next(rendered);
    for (const event of interaction.events) {
      if (signal.aborted) return;
      yield event;
    }
    if (interaction.error) throw errorOf(interaction.error);
  }

  /**
   * Asserts that every request was recorded, and that every recorded answer was played. Call it at
   * the end of a test, since the loop turns the error of a miss into a failed run.
   *
   * @throws {CassetteMissError} The first miss.
   * @throws {ExpectationError} Where answers were recorded that were not asked for.
   */
  assertComplete(): void {
    if (this.failure) throw this.failure;
    if (this.isNew) return;
    const keys = this.recorded.map(({ request }) => canonicalJson(request));
    const left = keys.filter(
      (key, index) =>
        keys.slice(0, index).filter((one) => one === key).length >= (this.played.get(key) ?? 0),
    ).length;
    if (left > 0)
      throw new ExpectationError(
        `${left} of the ${this.recorded.length} answers in ${this.file} were not asked for. Record it again with TOOLLOOP_CASSETTES=all, or delete the file.`,
      );
  }

  private next(rendered: JsonObject): Interaction {
    const key = canonicalJson(rendered);
    const same = this.recorded.filter(({ request }) => canonicalJson(request) === key);
    const played = this.played.get(key) ?? 0;
    const interaction = same[Math.min(played, same.length - 1)];
    if (!interaction) throw (this.failure ??= this.miss(rendered));
    this.played.set(key, played + 1);
    return interaction;
  }

  private miss(rendered: JsonObject): CassetteMissError {
    const closest = closestTo(rendered, this.recorded, ({ request }) => request);
    const moved = closest
      ? `The closest recorded request, ${closest.index + 1} of ${this.recorded.length}, differs in:\n${differenceText(closest.differences, ['recorded', 'asked'])}`
      : 'There is none in it.';
    return new CassetteMissError(
      `${this.file} has no answer to this request. ${moved}\nIf the change is meant, record it again: TOOLLOOP_CASSETTES=all, with a model to record.`,
    );
  }

  /**
   * Only whole answers and failures are kept: an answer that its reader left says nothing about the
   * model.
   */
  private async *recordedFrom(
    model: LanguageModel,
    rendered: JsonObject,
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const events: ModelEvent[] = [];
    const asked = askReally(() => model.stream(request, signal)[Symbol.asyncIterator]());
    try {
      for (
        let next = await askReally(() => asked.next());
        next.done !== true;
        next = await askReally(() => asked.next())
      ) {
        events.push(next.value);
        yield next.value;
      }
    } catch (error) {
      if (error instanceof ModelError && !signal.aborted)
        this.keep({ request: rendered, events, error: toErrorJson(error, this.redact) });
      throw error;
    } finally {
      await asked.return?.();
    }
    if (!signal.aborted) this.keep({ request: rendered, events });
  }

  private keep({ events, ...interaction }: Interaction): void {
    this.recorded.push({
      ...interaction,
      events: joined(events).map((event) => this.redactedEvent(event)),
    });
    const { provider, modelId, recorded: interactions } = this;
    mkdirSync(dirname(this.file), { recursive: true });
    writeFileSync(
      `${this.file}.new`,
      `${JSON.stringify({ version: 1, provider, modelId, interactions }, null, 2)}\n`,
    );
    renameSync(`${this.file}.new`, this.file);
  }

  private redactedEvent(event: ModelEvent): ModelEvent {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a copy of an event, whose texts alone have changed
    return redacted(toJsonObject(event), this.redact) as unknown as ModelEvent;
  }

  /**
   * Renders what the model reads of a request, as it is stored: without labels and values behind
   * references, which no model reads, and media by their hash.
   */
  private rendered({
    messages,
    tools,
    timeLimits: _timeLimits,
    ...rest
  }: ModelRequest): JsonObject {
    const read = {
      ...rest,
      messages: messages.map(readOf),
      tools: tools.map(({ id, description, inputSchema }) => ({ id, description, inputSchema })),
    };
    const stored = redacted(toJsonObject(read), (text) => this.redact(withoutMedia(text)));
    return isJsonObject(stored) ? stored : {};
  }
}

/**
 * The time at which a real model is asked. `once`: while there is no file yet. `all`: always, and
 * the file is written anew. `none`: never.
 */
export type CassetteRecording = 'once' | 'all' | 'none';

/** Options of a `CassetteModel`. */
export interface CassetteOptions {
  /** The model that is recorded. @default none: the file is only replayed */
  readonly model?: LanguageModel;
  /**
   * @default the environment's `TOOLLOOP_CASSETTES`; without it `none` where `CI` is set, and
   *   `once` elsewhere
   */
  readonly record?: CassetteRecording;
  /**
   * Returns a text as it is stored and compared: of a request and of an answer. Take out secrets,
   * and give what changes from run to run, such as a time or a UUID, a fixed form.
   * @default {@link redactSecrets}
   */
  readonly redact?: Redact;
}

/** A recorded question with its answer, or with the provider's failure. */
interface Interaction {
  readonly request: JsonObject;
  readonly events: readonly ModelEvent[];
  readonly error?: JsonObject;
}

function readOf(message: Message): object {
  const { labels: _labels, ...read } = message;
  if (read.role === 'tool') {
    const { hidden: _hidden, isModelText: _isModelText, ...told } = read;
    return told;
  }
  if (read.role !== 'system') return read;
  const { toolNote: _toolNote, ...told } = read;
  return told;
}

function withoutMedia(text: string): string {
  return text.startsWith('data:')
    ? `sha256:${createHash('sha256').update(text).digest('hex')}`
    : text;
}

/** Joins deltas that follow each other, so that no secret stands in two of them. */
function joined(events: readonly ModelEvent[]): readonly ModelEvent[] {
  const all: ModelEvent[] = [];
  for (const event of events) {
    const last = all.at(-1);
    const together = last && joinedPair(last, event);
    if (together) all.splice(-1, 1, together);
    else all.push(event);
  }
  return all;
}

function joinedPair(one: ModelEvent, other: ModelEvent): ModelEvent | undefined {
  if (one.type === 'text-delta' && other.type === 'text-delta')
    return { ...one, text: one.text + other.text };
  if (one.type === 'reasoning-delta' && other.type === 'reasoning-delta')
    return { ...one, text: one.text + other.text };
  if (
    one.type !== 'tool-call-delta' ||
    other.type !== 'tool-call-delta' ||
    one.toolCallId !== other.toolCallId
  )
    return undefined;
  return { ...one, argumentsDelta: one.argumentsDelta + other.argumentsDelta };
}

function toErrorJson(
  { message, code, status, isRetryable, retryAfterMs }: ModelError,
  redact: Redact,
): JsonObject {
  return toJsonObject({
    message: redact(message),
    code,
    status,
    retryable: isRetryable,
    retryAfterMs,
  });
}

function errorOf({ message, ...options }: JsonObject): ModelError {
  return new ModelError(typeof message === 'string' ? message : 'The provider failed.', options);
}

interface Cassette {
  readonly provider: string;
  readonly modelId: string;
  readonly interactions: readonly Interaction[];
}

/** Reads a cassette, or begins one, which has no interactions yet. */
function opened(
  file: string,
  model: LanguageModel | undefined,
  record: CassetteRecording,
): Omit<Cassette, 'interactions'> & Partial<Cassette> {
  if (record !== 'all' && existsSync(file)) return cassetteIn(file);
  if (model && record !== 'none') return { provider: model.provider, modelId: model.modelId };
  throw new ExpectationError(nothingToReplay(file, model !== undefined));
}

function cassetteIn(file: string): Cassette {
  const value = parseJson(readFileSync(file, 'utf8'));
  if (
    !isJsonObject(value) ||
    value['version'] !== 1 ||
    !isJsonList(value['interactions']) ||
    !value['interactions'].every(isInteraction)
  )
    throw new ExpectationError(
      `${file} is no cassette of version 1. Delete it and record it again.`,
    );
  const { provider, modelId, interactions } = value;
  return { provider: textOf(provider), modelId: textOf(modelId), interactions };
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

function isInteraction(value: unknown): value is JsonObject & Interaction {
  return isRecord(value) && isRecord(value['request']) && Array.isArray(value['events']);
}

function nothingToReplay(file: string, hasModel: boolean): string {
  const why = hasModel
    ? 'nothing is recorded here (CI, or TOOLLOOP_CASSETTES=none)'
    : 'no model is given to record';
  return `There is no cassette ${basename(file)} at ${file}, and ${why}. Record it on your machine with { model }, and commit the file.`;
}

const RECORDINGS: readonly string[] = ['once', 'all', 'none'] satisfies CassetteRecording[];

function isRecording(text: string | undefined): text is CassetteRecording {
  return text !== undefined && RECORDINGS.includes(text);
}

function recordingHere(): CassetteRecording {
  const { TOOLLOOP_CASSETTES: wanted, CI: ci } = process.env;
  if (isRecording(wanted)) return wanted;
  if (wanted)
    throw new ExpectationError(
      `TOOLLOOP_CASSETTES is ${JSON.stringify(wanted)}. Set it to one of: ${RECORDINGS.join(', ')}.`,
    );
  return ci ? 'none' : 'once';
}

/**
 * The place at which wires ask before they send a request; see `http-fetch.ts` of `@toolloop/wire`.
 */
const GUARD = Symbol.for('@toolloop/before-model-request');

const permitted = new AsyncLocalStorage<true>();

function askReally<Answer>(ask: () => Answer): Answer {
  return permitted.run(true, ask);
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;

/**
 * Keeps the wires of this process from asking a real provider: a test that forgot its scripted
 * model fails at once, and costs nothing. Servers on this machine, a `fetch` of a test's own and
 * cassettes that record may still be asked. Returns what ends it.
 *
 * @example
 * // in the setup file of the test runner
 * blockRealModels();
 */
export function blockRealModels(): () => void {
  Reflect.set(globalThis, GUARD, (host: string) => {
    if (permitted.getStore() || LOOPBACK.test(host)) return;
    throw new ModelError(
      `blockRealModels: a test was about to ask ${host}. Give the application a ScriptedModel, or a CassetteModel around the real one.`,
      { code: 'forbidden' },
    );
  });
  return () => void Reflect.deleteProperty(globalThis, GUARD);
}
