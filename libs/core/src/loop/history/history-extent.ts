import { ConfigurationError } from '../../protocol/errors.js';
import type { TokenCounter } from '../../protocol/history.js';
import type { Extent } from './cut-points.js';
import { messageTokens } from './message-tokens.js';

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
