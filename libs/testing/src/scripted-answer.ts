import type { JsonObject, ModelError, ModelEvent, ModelFinishReason, ModelRequest, Usage } from '@toolloop/core';

/** What every built answer reports, unless it says otherwise, so that totals can be reckoned in the head. */
export const SCRIPTED_USAGE: Usage = { inputTokens: 10, outputTokens: 5 };

/** How an answer stops: its events were all, it waits to be aborted, or it throws. */
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

/** What an answer says beside its text. */
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
