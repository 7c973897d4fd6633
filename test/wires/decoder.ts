import { decodeMessages } from '@toolloop/anthropic';
import { assemble, type ModelEvent, NO_USAGE } from '@toolloop/protocol';
import { decodeChatCompletions, decodeResponses } from '@toolloop/openai';

/**
 * What the verifier of the recorded streams hands over: `node
 * ../shared/wire-fixtures/verify-decoder.mjs test/wires/decoder.ts`.
 */
interface Recording {
  readonly api: 'chat.completions' | 'responses' | 'messages';
  readonly body: ReadableStream<Uint8Array>;
}

const DECODERS: Readonly<
  Record<Recording['api'], (body: Recording['body']) => AsyncIterable<ModelEvent>>
> = {
  'chat.completions': decodeChatCompletions,
  responses: decodeResponses,
  messages: decodeMessages,
};

/** What the verifier compares; how an answer ended, in the provider's own word. */
export async function decode({ api, body }: Recording): Promise<object> {
  const answer = await assemble(DECODERS[api](body));
  const {
    inputTokens,
    outputTokens,
    cachedInputTokens = 0,
    cacheWriteInputTokens = 0,
  } = answer.usage;
  const apart = api === 'messages' ? cachedInputTokens + cacheWriteInputTokens : 0;
  return {
    text: answer.text,
    reasoning: answer.reasoning,
    toolCalls: answer.toolCalls.map((call) => ({
      id: call.toolCallId,
      name: call.name,
      arguments: valueOf(call.arguments),
    })),
    finishReason: answer.providerReason ?? null,
    usage: answer.usage === NO_USAGE ? null : { input: inputTokens - apart, output: outputTokens },
  };
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
