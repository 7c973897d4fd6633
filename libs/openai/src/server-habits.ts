import type { ModelError } from '@toolloop/protocol';

/** The habits in which a compatible server differs from OpenAI. */
export interface ServerHabits {
  /**
   * The fields of reasoning in the transcript. `returned`: an answer's own go back to the server
   * they came from, as they came. `required`: every answer must have one, be it empty, also an
   * answer of another provider. `refused`: the server has no such field.
   */
  readonly reasoning: 'returned' | 'required' | 'refused';
  /**
   * The signature for a call that another provider made, of a server that accepts no call without
   * one.
   */
  readonly signature?: string;
  /** The only form of a call's id that the server accepts, and its length. */
  readonly callId?: { readonly form: RegExp; readonly characters: number };
}

const PLAIN: ServerHabits = { reasoning: 'returned' };

interface ServerRow {
  readonly host: RegExp;
  /** The models with the habit. @default all of the server */
  readonly model?: RegExp;
  readonly habits: ServerHabits;
}

/**
 * The servers that refuse a transcript which others accept, by what they document. Any other is
 * {@link PLAIN} until it says otherwise.
 */
const SERVERS: readonly ServerRow[] = [
  // https://api-docs.deepseek.com/guides/thinking_mode: 400 in each later request if one answer
  // with calls lacks it.
  { host: /(?:^|\.)deepseek\.com$/, habits: { reasoning: 'required' } },
  // https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model: "thinking is enabled but
  // reasoning_content is missing in assistant tool call message".
  {
    host: /(?:^|\.)(?:moonshot\.(?:ai|cn)|kimi\.(?:com|ai))$/,
    model: /kimi|^k\d/,
    habits: { reasoning: 'required' },
  },
  // https://platform.xiaomimimo.com/docs/usage-guide/passing-back-reasoning_content
  { host: /(?:^|\.)xiaomimimo\.com$/, habits: { reasoning: 'required' } },
  // https://inference-docs.cerebras.ai/capabilities/reasoning: no field takes it back, and an
  // unknown one is refused.
  { host: /(?:^|\.)cerebras\.ai$/, habits: { reasoning: 'refused' } },
  // "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9."
  {
    host: /(?:^|\.)mistral\.ai$/,
    habits: { reasoning: 'returned', callId: { form: /^[a-zA-Z0-9]{9}$/, characters: 9 } },
  },
  // https://ai.google.dev/gemini-api/docs/thought-signatures: the signature for calls that another
  // model made.
  {
    host: /(?:^|\.)googleapis\.com$/,
    model: /gemini-(?:[3-9]|\d\d)/,
    habits: { reasoning: 'returned', signature: 'skip_thought_signature_validator' },
  },
];

/** Returns the habits of a model's server. */
export function habitsOf({
  model,
  server,
}: {
  readonly model: string;
  readonly server?: string;
}): ServerHabits {
  const host = server?.replace(/:\d+$/, '') ?? '';
  return (
    SERVERS.find((row) => row.host.test(host) && (row.model?.test(model) ?? true))?.habits ?? PLAIN
  );
}

const FIELDS =
  '(?:reasoning(?:_content|_details)?|thinking_blocks|extra_content|provider_specific_fields)(?![.\\w])';
const WANTED =
  /\breasoning(?:_content)?\b.{0,80}\b(?:must be (?:passed|provided|included|sent)|is (?:missing|required))/is;
const UNKNOWN = new RegExp(
  `\\b${FIELDS}\\W{0,3} (?:is |are )?(?:unsupported|not supported|not permitted|unknown|unexpected|not allowed)` +
    `|\\b(?:unsupported|unknown|unexpected|unrecogni[sz]ed|extra)\\b.{0,80}\\b${FIELDS}`,
  'is',
);

/**
 * Learns the habits of a server from its refusal of a transcript: gateways pass on the words of the
 * provider behind them. Undefined where it says nothing of reasoning, or nothing new.
 */
export function habitsAfter(
  habits: ServerHabits,
  { status, message }: ModelError,
): ServerHabits | undefined {
  if (status !== 400 && status !== 422) return undefined;
  const reasoning = WANTED.test(message)
    ? 'required'
    : UNKNOWN.test(message)
      ? 'refused'
      : habits.reasoning;
  return reasoning === habits.reasoning ? undefined : { ...habits, reasoning };
}
