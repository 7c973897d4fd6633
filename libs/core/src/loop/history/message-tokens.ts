import type { TokenCounter } from '../../protocol/history.js';
import type { Message } from '../../protocol/message.js';

/** What a provider adds to each message for its role and its borders. */
const TOKENS_PER_MESSAGE = 4;
/** What an image of a common size costs; providers differ, from some hundreds to some thousands. Other files count the same. */
const TOKENS_PER_IMAGE = 1_000;

/** Counts messages, each once: they are immutable and stay the same objects. */
export function messageTokens(counter: TokenCounter): (message: Message) => number {
  const known = new WeakMap<Message, number>();
  return (message) => {
    const tokens = known.get(message) ?? count(message, counter);
    known.set(message, tokens);
    return tokens;
  };
}

function count(message: Message, counter: TokenCounter): number {
  const { content } = message;
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content;
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  const texts = calls.flatMap((call) => [call.name, call.arguments]);
  const ofParts = parts.map((part) => (part.type === 'text' ? counter.count(part.text) : TOKENS_PER_IMAGE));
  return [...ofParts, ...texts.map((text) => counter.count(text))].reduce((sum, tokens) => sum + tokens, TOKENS_PER_MESSAGE);
}
