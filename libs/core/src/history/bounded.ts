import { ConfigurationError, type Message, type TokenCounter } from '@toolloop/protocol';
import { type HistoryContext, type HistoryCut, HistoryPolicy } from '../contracts/loop-request.js';
import { cutPoints, type Extent } from '../loop/history-step.js';

/** Leaves out the oldest steps once there is too much. */
export class BoundedHistory extends HistoryPolicy {
  constructor(private readonly extent: Extent) {
    super();
  }

  override cut({ messages }: HistoryContext): HistoryCut {
    return { from: cutPoints(messages, this.extent).at(-1) ?? 0 };
  }
}

/** How many messages a model is sent at most. */
export interface MessageExtent {
  readonly messages: number;
  /** How many are left when there were more. @default half */
  readonly keep?: number;
}

/** How many tokens of messages a model is sent at most; instructions, tools and the answer come on top. An image counts as 1,000. */
export interface TokenExtent {
  readonly tokens: number;
  /** How many are left when there were more. @default half */
  readonly keep?: number;
  readonly counter: TokenCounter;
}

/** Throws `ConfigurationError` for numbers that make no sense. */
export function toExtent(own: MessageExtent | TokenExtent): Extent {
  const most = 'tokens' in own ? own.tokens : own.messages;
  const { keep = Math.ceil(most / 2) } = own;
  if (!(most >= 1 && keep >= 1 && keep <= most)) throw new ConfigurationError([wrongExtent(most, keep)]);
  return { most, keep, sizeOf: 'tokens' in own ? messageTokens(own.counter) : () => 1 };
}

function wrongExtent(most: number, keep: number) {
  return {
    at: 'history',
    problem: `It sends at most ${most}, and cuts down to ${keep}.`,
    remedy: 'Give numbers of 1 or more, and keep no more than may be sent.',
  };
}

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

/** Sends the whole transcript: what happens without a policy, for a run of an application that has one. */
export function keepEverything(): HistoryPolicy {
  return new KeepEverything();
}

class KeepEverything extends HistoryPolicy {
  override cut(): HistoryCut | undefined {
    return undefined;
  }
}

/**
 * Sends the newest messages: past `messages` it cuts down to `keep`, so that the prompt cache is lost once in a while instead of at every step. Calls
 * stay with their results, and a step with its user message; a step larger than that is sent whole.
 */
export function slidingWindow(extent: MessageExtent): HistoryPolicy {
  return new BoundedHistory(toExtent(extent));
}

/** Sends the newest messages, as `slidingWindow` does, measured in tokens. */
export function tokenBudget(extent: TokenExtent): HistoryPolicy {
  return new BoundedHistory(toExtent(extent));
}
