import type { Finding, Message, TokenCounter } from '@toolloop/protocol';
import { type HistoryContext, type HistoryCut, HistoryPolicy } from '../../contracts/history.js';
import { defineOptions, type OptionRule } from '../../findings/options.js';
import { needed, whatCan } from '../../findings/option-rules.js';
import { cutPoints, type Extent } from './cut-points.js';

/** Leaves out the oldest steps of a transcript that is too long. */
export class BoundedHistory extends HistoryPolicy {
  constructor(private readonly extent: Extent) {
    super();
  }

  override cut({ messages }: HistoryContext): HistoryCut {
    return { from: cutPoints(messages, this.extent).at(-1) ?? 0 };
  }
}

/** The extent of a history in messages. */
export interface MessageExtent {
  /** The most messages that a model receives. */
  readonly messages: number;
  /** The number of messages that stay when there were more. @default half */
  readonly keep?: number;
}

/**
 * The extent of a history in tokens; instructions, tools and the answer come on top. An image
 * counts as 1,000.
 */
export interface TokenExtent {
  /** The most tokens of messages that a model receives. */
  readonly tokens: number;
  /** The number of tokens that stay when there were more. @default half */
  readonly keep?: number;
  readonly counter: TokenCounter;
}

const ONE_OR_MORE: OptionRule<number> = {
  wanted: 'a number, 1 or more',
  accept: (value) => typeof value === 'number' && value >= 1,
};

export const MESSAGE_EXTENT = defineOptions<MessageExtent>(
  { messages: needed(ONE_OR_MORE), keep: ONE_OR_MORE },
  { together: ({ messages, keep }, at) => keepFindings(at, keep, messages) },
);

export const TOKEN_EXTENT = defineOptions<TokenExtent>(
  {
    tokens: needed(ONE_OR_MORE),
    keep: ONE_OR_MORE,
    counter: needed(whatCan('count', 'a TokenCounter')),
  },
  { together: ({ tokens, keep }, at) => keepFindings(at, keep, tokens) },
);

function keepFindings(at: string, keep = 1, most = Infinity): Finding[] {
  if (keep <= most) return [];
  return [
    {
      at,
      problem: `The maximum is ${most}, and \`keep\` is ${keep}.`,
      remedy: 'Use a `keep` that does not exceed the maximum.',
    },
  ];
}

/** Turns options that were checked into an extent. */
export function toExtent(own: MessageExtent | TokenExtent): Extent {
  const most = 'tokens' in own ? own.tokens : own.messages;
  const { keep = Math.ceil(most / 2) } = own;
  return { most, keep, sizeOf: 'tokens' in own ? messageTokens(own.counter) : () => 1 };
}

/** The tokens that a provider adds to each message for its role and its borders. */
const TOKENS_PER_MESSAGE = 4;
/**
 * The tokens of an image of a common size; providers differ, from some hundreds to some thousands.
 * Other files count the same.
 */
const TOKENS_PER_IMAGE = 1_000;

/**
 * Returns a function that counts the tokens of a message, each message once, since they are
 * immutable and stay the same objects.
 */
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
  const ofParts = parts.map((part) =>
    part.type === 'text' ? counter.count(part.text) : TOKENS_PER_IMAGE,
  );
  return [...ofParts, ...texts.map((text) => counter.count(text))].reduce(
    (sum, tokens) => sum + tokens,
    TOKENS_PER_MESSAGE,
  );
}

/**
 * Sends the whole transcript, which is the default, for a run of an application that has another
 * policy.
 */
export function keepEverything(): HistoryPolicy {
  return new KeepEverything();
}

class KeepEverything extends HistoryPolicy {
  override cut(): HistoryCut | undefined {
    return undefined;
  }
}

/**
 * Sends the newest messages: beyond `messages` it cuts down to `keep`, so that the prompt cache is
 * lost once in a while instead of at every step. Calls stay with their results, and a step with its
 * user message; a larger step is sent whole.
 *
 * @throws ConfigurationError for a wrong extent
 * @example
 * history: slidingWindow({ messages: 40 })
 */
export function slidingWindow(extent: MessageExtent): HistoryPolicy {
  MESSAGE_EXTENT.assert(extent, 'slidingWindow');
  return new BoundedHistory(toExtent(extent));
}

/**
 * Sends the newest messages like {@link slidingWindow}, measured in tokens.
 *
 * @throws ConfigurationError for a wrong extent
 * @example
 * history: tokenBudget({ tokens: 100_000, counter: new OpenAiTokenCounter() })
 */
export function tokenBudget(extent: TokenExtent): HistoryPolicy {
  TOKEN_EXTENT.assert(extent, 'tokenBudget');
  return new BoundedHistory(toExtent(extent));
}
