import { setTimeout as delay } from 'node:timers/promises';
import { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { answerText, isAboutModel } from './answer.js';
import { plan, type Plan, type PlannedCall } from './planner.js';
import { readSituation, type Situation } from './situation.js';
import { structuredAnswer } from './structured-answer.js';

export interface OfflineModelOptions {
  /**
   * Pause before each delta, in milliseconds, so that a demo shows how an answer streams. @default
   * 0
   */
  readonly delayMs?: number;
  /** Tool calls for one question after which the model answers with what it has. @default 12 */
  readonly maxCalls?: number;
}

/**
 * A model of fixed rules that lets an application run without a key or a network. It picks tools by
 * the words they share with the request and is no LLM. It keeps nothing between requests: the same
 * request always gives the same answer.
 */
class OfflineModel extends LanguageModel {
  readonly provider = 'offline';
  readonly modelId = 'rules';
  private readonly options: Required<OfflineModelOptions>;

  constructor(options: OfflineModelOptions = {}) {
    super();
    this.options = { delayMs: 0, maxCalls: 12, ...options };
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    if (signal.aborted) return;
    const { delayMs } = this.options;
    for (const event of this.eventsOf(request)) {
      if (delayMs > 0 && event.type.endsWith('-delta'))
        await delay(delayMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      yield event;
    }
  }

  private eventsOf(request: ModelRequest): ModelEvent[] {
    const situation = readSituation(request);
    const next: Plan = isAboutModel(situation)
      ? { calls: [] }
      : plan(situation, this.options.maxCalls);
    const isCalling = next.calls.length > 0;
    const said = isCalling
      ? next.calls.flatMap(({ name, args }) => [name, JSON.stringify(args)])
      : [answerTo(situation, next)];
    const { instructions = '', messages, tools } = request;
    const inputTokens = tokens([instructions, JSON.stringify(messages), JSON.stringify(tools)]);
    return [
      ...(isCalling
        ? callEvents(next.calls, situation.conversation.usedCallIds)
        : said.flatMap(textEvents)),
      { type: 'usage', usage: { inputTokens, outputTokens: tokens(said) } },
      { type: 'finish', finishReason: isCalling ? 'tool_calls' : 'stop' },
    ];
  }
}

function answerTo(situation: Situation, next: Plan): string {
  const text = answerText(situation, next);
  const { answerFormat } = situation.request;
  return answerFormat
    ? JSON.stringify(structuredAnswer(answerFormat.schema, text, situation))
    : text;
}

/** Makes the rule-based model that needs no key and no network. */
export function offline(options?: OfflineModelOptions): LanguageModel {
  return new OfflineModel(options);
}

function textEvents(text: string): ModelEvent[] {
  return (text.match(/(?:\s*\S+){1,3}\s*/g) ?? []).map((group) => ({
    type: 'text-delta',
    text: group,
  }));
}

/** The calls, each with an id `offline_{n}` that no call of the transcript has. */
function callEvents(calls: readonly PlannedCall[], used: ReadonlySet<string>): ModelEvent[] {
  const free = Array.from(
    { length: used.size + calls.length },
    (_, index) => `offline_${used.size + index}`,
  ).filter((id) => !used.has(id));
  return calls.flatMap(({ name, args }, index): ModelEvent[] => {
    const call = { toolCallId: free[index] ?? '', name };
    const text = JSON.stringify(args);
    return [
      { type: 'tool-call-delta', ...call, argumentsDelta: text },
      { type: 'tool-call', ...call, arguments: text },
    ];
  });
}

function tokens(texts: readonly string[]): number {
  return Math.ceil(texts.join('').length / 4);
}
