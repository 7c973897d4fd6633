import assert from 'node:assert/strict';
import type { LanguageModel } from '@toolloop/core';
import { parseJson } from '@toolloop/core/internal';
import {
  AnswerFold,
  type ModelAnswer,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  type ToolSpec,
} from '@toolloop/protocol';
import type { ContractRunner } from './contract.js';

/**
 * The behaviour that every `LanguageModel` must show, whatever its provider does. A spec starts a
 * local server that speaks as the provider does.
 *
 * @example
 * languageModelContract(
 *   'of Acme',
 *   async (situation) => ({ model: acme({ baseURL: await acmeServer(situation) }) }),
 *   { describe, it, beforeAll, afterAll },
 * );
 */
export function languageModelContract(
  name: string,
  make: (situation: ModelSituation) => Promise<ModelUnderTest>,
  { describe, it }: Pick<ContractRunner, 'describe' | 'it'>,
): void {
  const within = async (
    situation: ModelSituation,
    check: (made: ModelUnderTest) => Promise<void>,
  ): Promise<void> => {
    const made = await make(situation);
    try {
      await check(made);
    } finally {
      await made.close?.();
    }
  };
  describe(`LanguageModel ${name}`, () => {
    for (const [sentence, situation, check] of CASES) it(sentence, () => within(situation, check));
  });
}

/**
 * The behaviour of the provider behind a model, for one check:
 * - `text`: it answers with the words "Hello there."
 * - `calls`: it calls `weather` with `{"city":"Oslo"}` and `weather` with `{"city":"Bergen"}`, in
 *   this order
 * - `refuses`: it refuses for too many requests (429)
 * - `breaks`: it begins the words "Hello there.", and its connection breaks
 * - `ends`: it begins a call of `weather`, and its answer ends in the middle of the arguments
 * - `stalls`: it begins the words "Hello there." and falls silent
 */
export type ModelSituation = 'text' | 'calls' | 'refuses' | 'breaks' | 'ends' | 'stalls';

/** A model before a provider that is in a situation. */
export interface ModelUnderTest {
  readonly model: LanguageModel;
  /** The number of connections to the provider that are open. @default they are not looked at */
  readonly openConnections?: () => number | Promise<number>;
  readonly close?: () => Promise<void>;
}

const WEATHER: ToolSpec = {
  id: 'weather',
  declaredId: 'weather',
  description: 'Tells the weather of a city.',
  inputSchema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  effect: 'read_only',
  labels: { returns: 'untrusted', reads: 'public', egress: false },
  redaction: { kind: 'reveal', fields: 'all' },
  schemaHash: '',
};

const REQUEST: ModelRequest = {
  instructions: 'You are helpful.',
  messages: [{ role: 'user', content: 'Hello' }],
  tools: [WEATHER],
};

const CASES: readonly (readonly [
  name: string,
  situation: ModelSituation,
  check: (made: ModelUnderTest) => Promise<void>,
])[] = [
  ['streams the words of an answer, and ends it with one finish', 'text', streamsText],
  ['answers again, and each time alike', 'text', answersAgain],
  ['gives each call once, whole and in order, behind its deltas', 'calls', givesCalls],
  ['leaves the request as it was', 'calls', leavesRequest],
  ['throws a refusal as an error that may be repeated', 'refuses', refuses],
  ['throws a connection that breaks, or says that the answer is incomplete', 'breaks', breaks],
  ['gives no call whose arguments are cut', 'ends', cuts],
  ['ends when it is aborted in the middle', 'stalls', isAborted],
  ['asks nothing, and ends, when it is aborted before', 'text', isAbortedBefore],
  ['closes the connection when its reader leaves', 'stalls', isLeft],
];

async function read(
  model: LanguageModel,
  request: ModelRequest = REQUEST,
  signal = new AbortController().signal,
): Promise<ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of model.stream(request, signal)) events.push(event);
  return events;
}

function endsOnce(events: readonly ModelEvent[]): void {
  const types = events.map(({ type }) => type);
  assert.deepEqual([types.filter((type) => type === 'finish').length, types.at(-1)], [1, 'finish']);
}

async function streamsText({ model }: ModelUnderTest): Promise<void> {
  assert.ok(model.provider !== '' && model.modelId !== '');
  const events = await read(model);
  endsOnce(events);
  const { text, finishReason, toolCalls, usage } = foldOf(events);
  assert.equal(text, 'Hello there.');
  assert.equal(finishReason, 'stop');
  assert.deepEqual(toolCalls, []);
  assert.ok(usage.inputTokens >= 0 && usage.outputTokens >= 0);
}

function foldOf(events: readonly ModelEvent[]): ModelAnswer {
  const fold = new AnswerFold();
  for (const event of events) fold.take(event);
  return fold.answer;
}

async function answersAgain({ model }: ModelUnderTest): Promise<void> {
  const first = foldOf(await read(model));
  const second = foldOf(await read(model));
  assert.equal(second.text, first.text);
}

async function givesCalls({ model }: ModelUnderTest): Promise<void> {
  const events = await read(model);
  endsOnce(events);
  const calls = events.filter((event) => event.type === 'tool-call');
  assert.deepEqual(
    calls.map((call) => [call.name, parseJson(call.arguments)]),
    [
      ['weather', { city: 'Oslo' }],
      ['weather', { city: 'Bergen' }],
    ],
  );
  assert.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, 2);
  for (const call of calls) {
    const deltas = events
      .slice(0, events.indexOf(call))
      .filter((event) => event.type === 'tool-call-delta');
    const own = deltas
      .filter(({ toolCallId }) => toolCallId === call.toolCallId)
      .map(({ argumentsDelta }) => argumentsDelta);
    assert.equal(own.join(''), call.arguments);
  }
  assert.equal(events.at(-1)?.type === 'finish' && foldOf(events).finishReason, 'tool_calls');
}

async function leavesRequest({ model }: ModelUnderTest): Promise<void> {
  const before = JSON.stringify(REQUEST);
  await read(model);
  assert.equal(JSON.stringify(REQUEST), before);
}

async function failureOf(
  model: LanguageModel,
): Promise<{ readonly events: ModelEvent[]; readonly error: unknown }> {
  const events: ModelEvent[] = [];
  try {
    for await (const event of model.stream(REQUEST, new AbortController().signal))
      events.push(event);
    return { events, error: undefined };
  } catch (error) {
    return { events, error };
  }
}

async function refuses({ model }: ModelUnderTest): Promise<void> {
  const { error } = await failureOf(model);
  assert.ok(error instanceof ModelError, 'A failure is thrown as a ModelError.');
  assert.equal(error.code, 'rate_limited');
  assert.equal(error.isRetryable, true);
}

async function breaks({ model }: ModelUnderTest): Promise<void> {
  const { events, error } = await failureOf(model);
  if (error !== undefined)
    return assert.ok(
      error instanceof ModelError && error.isRetryable,
      'A lost connection may be tried again.',
    );
  assert.equal(foldOf(events).finishReason, 'incomplete');
}

async function cuts({ model }: ModelUnderTest): Promise<void> {
  const { events, error } = await failureOf(model);
  if (error !== undefined) assert.ok(error instanceof ModelError);
  const calls = events.filter((event) => event.type === 'tool-call');
  const finish = events.at(-1);
  const isRun =
    finish?.type === 'finish' &&
    (finish.finishReason === 'stop' || finish.finishReason === 'tool_calls');
  assert.ok(!isRun || calls.length === 0, 'The loop would run a call whose arguments are cut.');
}

const LONG_MS = 10_000;

/**
 * Rejects where something does not end, so that a check fails by itself and not by the time of its
 * runner.
 */
async function inTime<Result>(work: Promise<Result>, what: string): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new assert.AssertionError({ message: `${what} within ten seconds.` })),
      LONG_MS,
    );
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

async function isAborted({ model, openConnections }: ModelUnderTest): Promise<void> {
  const stop = new AbortController();
  const reading = (async () => {
    for await (const event of model.stream(REQUEST, stop.signal))
      if (event.type === 'text-delta') stop.abort();
  })();
  await inTime(
    reading.catch(() => undefined), // by returning or by throwing
    'An aborted answer did not end',
  );
  assert.equal(stop.signal.aborted, true, 'There was no text before the silence.');
  await expectClosed(openConnections);
}

async function isAbortedBefore({ model }: ModelUnderTest): Promise<void> {
  const reading = read(model, REQUEST, AbortSignal.abort());
  const events = await inTime(
    reading.catch(() => []),
    'A question that was aborted before did not end',
  );
  assert.deepEqual(
    events.filter(({ type }) => type === 'text-delta' || type === 'tool-call'),
    [],
  );
}

async function isLeft({ model, openConnections }: ModelUnderTest): Promise<void> {
  const reading = (async () => {
    for await (const event of model.stream(REQUEST, new AbortController().signal))
      if (event.type === 'text-delta') break;
  })();
  await inTime(reading, 'An answer did not let its reader go');
  await expectClosed(openConnections);
}

async function expectClosed(openConnections: ModelUnderTest['openConnections']): Promise<void> {
  if (!openConnections) return;
  for (const until = Date.now() + LONG_MS; (await openConnections()) > 0;) {
    assert.ok(Date.now() < until, 'The connection to the provider is still open.');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
