import type { ModelError } from '@toolloop/protocol';

/** The habits in which a server that speaks the Messages API differs from Anthropic. */
export interface ServerHabits {
  /**
   * The thinking in a transcript. `returned`: the blocks of an answer go back to where they came
   * from. `required`: every answer must begin with thinking, be it empty, also an answer of another
   * provider, or one for which the model did not think.
   */
  readonly thinking: 'returned' | 'required';
}

const PLAIN: ServerHabits = { thinking: 'returned' };
const REQUIRED: ServerHabits = { thinking: 'required' };

/**
 * The servers that refuse an answer without thinking:
 * https://api-docs.deepseek.com/guides/anthropic_api,
 * https://platform.kimi.ai/docs/guide/agent-support.
 */
const REQUIRING = /(?:^|\.)(?:deepseek\.com|moonshot\.(?:ai|cn)|kimi\.(?:com|ai))$/;

/** Returns the habits of a server. */
export function habitsOf(server: string | undefined): ServerHabits {
  return server !== undefined && REQUIRING.test(server.replace(/:\d+$/, '')) ? REQUIRED : PLAIN;
}

const WANTED =
  /\b(?:thinking|reasoning_content)\b.{0,80}\b(?:must be (?:passed|provided|included|sent)|is (?:missing|required))/is;

/**
 * Learns the habits of a server from its refusal of a transcript: gateways pass on the words of the
 * provider behind them. Undefined where it says nothing new.
 */
export function habitsAfter(
  { thinking }: ServerHabits,
  { status, message }: ModelError,
): ServerHabits | undefined {
  const isWanted = (status === 400 || status === 422) && WANTED.test(message);
  return isWanted && thinking !== 'required' ? REQUIRED : undefined;
}
