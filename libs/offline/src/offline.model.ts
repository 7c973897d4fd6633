import { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { setTimeout as delay } from 'node:timers/promises';
import { answerText } from './answer.js';
import { textOf } from './conversation.reader.js';
import { isAboutModel } from './help.phrasing.js';
import { plan, type Plan } from './planner.js';
import { readSituation, type Situation } from './situation.js';
import { structuredAnswer } from './structured.answer.js';
import type { PlannedCall } from './tool.options.js';

export interface OfflineModelOptions {
  /** Pause before each delta, in milliseconds, so that a demo shows how an answer streams. @default 0 */
  readonly delayMs?: number;
  /** Tool calls for one question after which the model answers with what it has. @default 12 */
  readonly maxCalls?: number;
  /** The date "tomorrow" is seen from, `YYYY-MM-DD`. @default the date the instructions give ("Today is …"); without one such words fill no date */
  readonly today?: string;
}

const DEFAULTS = { delayMs: 0, maxCalls: 12 } satisfies OfflineModelOptions;
const WORDS_IN_DELTA = 3;
const CHARACTERS_IN_TOKEN = 4;

/**
 * A model of fixed rules that lets an application run without a key or a network. It picks tools by the words they share with the request and
 * is no LLM. It keeps nothing between requests: the same request always gives the same answer.
 */
export class OfflineModel extends LanguageModel {
  readonly provider = 'offline';
  readonly modelId = 'rules';
  private readonly options: typeof DEFAULTS & OfflineModelOptions;

  constructor(options: OfflineModelOptions = {}) {
    super();
    this.options = { ...DEFAULTS, ...options };
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    if (signal.aborted) return;
    for await (const event of paced(this.eventsOf(request), this.options.delayMs, signal)) {
      if (signal.aborted) return;
      yield event;
    }
  }

  private eventsOf(request: ModelRequest): ModelEvent[] {
    const situation = readSituation(request, this.options.today);
    const next: Plan = isAboutModel(situation.question) ? { calls: [] } : plan(situation, this.options.maxCalls);
    const events = next.calls.length > 0 ? callEvents(next.calls, situation) : textEvents(finalText(situation, next));
    return [
      ...events,
      { type: 'usage', usage: { inputTokens: inputTokens(request), outputTokens: outputTokens(events) } },
      { type: 'finish', finishReason: next.calls.length > 0 ? 'tool_calls' : 'stop' },
    ];
  }
}

/** Makes the rule-based model that needs no key and no network. */
export function offline(options?: OfflineModelOptions): OfflineModel {
  return new OfflineModel(options);
}

/** One event after the other, each delta after the pause; an abort ends the pause at once. */
async function* paced(events: readonly ModelEvent[], delayMs: number, signal: AbortSignal): AsyncGenerator<ModelEvent> {
  for (const event of events) {
    if (delayMs > 0 && event.type.endsWith('-delta')) await delay(delayMs, undefined, { signal }).catch(() => undefined);
    yield event;
  }
}

function finalText(situation: Situation, next: Plan): string {
  const text = answerText(situation, next);
  const { answerFormat } = situation.request;
  return answerFormat ? JSON.stringify(structuredAnswer(answerFormat.schema, text, situation)) : text;
}

function textEvents(text: string): ModelEvent[] {
  const groups = text.match(new RegExp(String.raw`(?:\s*\S+){1,${WORDS_IN_DELTA}}\s*`, 'g')) ?? [];
  return groups.map((group) => ({ type: 'text-delta', text: group }));
}

function callEvents(calls: readonly PlannedCall[], { conversation }: Situation): ModelEvent[] {
  const ids = newCallIds(calls.length, conversation.usedCallIds);
  return calls.flatMap(({ name, args }, index): ModelEvent[] => {
    const toolCallId = ids[index] ?? '';
    const text = JSON.stringify(args);
    return [
      { type: 'tool-call-delta', toolCallId, name, argumentsDelta: text },
      { type: 'tool-call', toolCallId, name, arguments: text },
    ];
  });
}

/** `offline_{n}`, counted on from the calls in the transcript and never one of theirs. */
function newCallIds(count: number, used: ReadonlySet<string>): string[] {
  const ids: string[] = [];
  for (let n = used.size; ids.length < count; n += 1) {
    const id = `offline_${n}`;
    if (!used.has(id)) ids.push(id);
  }
  return ids;
}

function inputTokens({ instructions = '', messages, tools }: ModelRequest): number {
  const said = messages.map(
    (message) => textOf(message).length + (message.role === 'assistant' ? JSON.stringify(message.toolCalls ?? []).length : 0),
  );
  const described = tools.map(({ id, description, inputSchema }) => id.length + description.length + JSON.stringify(inputSchema).length);
  return tokens([instructions.length, ...said, ...described]);
}

function outputTokens(events: readonly ModelEvent[]): number {
  return tokens(
    events.map((event) => {
      if (event.type === 'text-delta') return event.text.length;
      return event.type === 'tool-call' ? event.name.length + event.arguments.length : 0;
    }),
  );
}

function tokens(lengths: readonly number[]): number {
  return Math.ceil(lengths.reduce((sum, length) => sum + length, 0) / CHARACTERS_IN_TOKEN);
}
