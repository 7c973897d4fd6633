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

function meaningOf({ finishReason, refusal }: Expected, { toolCalls }: ModelAnswer): ModelAnswer['finishReason'] {
  switch (finishReason) {
    case null:
      return 'incomplete';
    case 'length':
    case 'max_tokens':
    case 'incomplete:max_output_tokens':
      return 'length';
    case 'content_filter':
      return 'content_filter';
    default:
      if (typeof refusal === 'string' && refusal !== '') return 'content_filter';
      return toolCalls.length > 0 ? 'tool_calls' : 'stop';
  }
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
