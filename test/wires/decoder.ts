import { decodeMessages } from '@toolloop/anthropic';
import { assemble, NO_USAGE, type ModelAnswer, type ModelEvent } from '@toolloop/core';
import { decodeChatCompletions, decodeResponses } from '@toolloop/openai';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What the verifier of the recorded streams hands over: `node ../shared/wire-fixtures/verify-decoder.mjs test/wires/decoder.ts`. */
interface Recording {
  readonly api: 'chat.completions' | 'responses' | 'messages';
  readonly body: ReadableStream<Uint8Array>;
  readonly fixture: { readonly expected: string };
}

interface Expected {
  readonly finishReason: string | null;
  readonly refusal?: string | null;
}

const DECODERS: Readonly<Record<Recording['api'], (body: Recording['body']) => AsyncIterable<ModelEvent>>> = {
  'chat.completions': decodeChatCompletions,
  responses: decodeResponses,
  messages: decodeMessages,
};

/** What the verifier compares. It keeps the provider's own word for how an answer ended, of which ours is the meaning. */
export async function decode({ api, body, fixture }: Recording): Promise<object> {
  const answer = await assemble(DECODERS[api](body));
  const { inputTokens, outputTokens, cachedInputTokens = 0, cacheWriteInputTokens = 0 } = answer.usage;
  const apart = api === 'messages' ? cachedInputTokens + cacheWriteInputTokens : 0;
  const expected = expectedOf(fixture.expected);
  return {
    text: answer.text,
    reasoning: answer.reasoning,
    toolCalls: answer.toolCalls.map((call) => ({ id: call.toolCallId, name: call.name, arguments: valueOf(call.arguments) })),
    finishReason: meaningOf(expected, answer) === answer.finishReason ? expected.finishReason : answer.finishReason,
    usage: answer.usage === NO_USAGE ? null : { input: inputTokens - apart, output: outputTokens },
  };
}

function expectedOf(path: string): Expected {
  const file = join(process.cwd(), '../shared/wire-fixtures/fixtures', path);
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly expected: Expected }).expected;
}

/** What the providers' words mean that do not mean that all is said. */
const MEANINGS: ReadonlyMap<unknown, ModelAnswer['finishReason']> = new Map([
  [null, 'incomplete'],
  ['error', 'incomplete'],
  ['cancelled', 'incomplete'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['incomplete:max_output_tokens', 'length'],
  ['content_filter', 'content_filter'],
  ['incomplete:content_filter', 'content_filter'],
  ['refusal', 'content_filter'],
]);

function meaningOf({ finishReason, refusal }: Expected, { toolCalls }: ModelAnswer): ModelAnswer['finishReason'] {
  const meaning = MEANINGS.get(finishReason);
  if (meaning !== undefined) return meaning;
  if (typeof refusal === 'string' && refusal !== '') return 'content_filter';
  if (toolCalls.length > 0) return 'tool_calls';
  return finishReason === 'pause_turn' ? 'incomplete' : 'stop';
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
