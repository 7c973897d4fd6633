import { createHash } from 'node:crypto';
import { answer, call, text, thinking } from './decode.js';
import { answers, streams, type Answer } from '../../wire/test/local-provider.js';

export interface Block {
  readonly type: string;
  readonly id?: string;
  readonly tool_use_id?: string;
  readonly signature?: string;
  readonly content?: unknown;
}

interface Body {
  readonly system?: unknown;
  readonly tools?: unknown;
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[];
}

/** What a step says: the calls of the model, or its last words. */
export type Step = (results: readonly Block[]) => object[];

/**
 * Plays the API with its rules for thinking and calls: a thought comes back with everything before
 * it unchanged, calls and their results stand in neighbouring turns, and an id is used once.
 * Whoever breaks one of them is refused.
 */
export function strictProvider(...steps: readonly Step[]): Answer {
  return (response, received) => {
    const body = JSON.parse(received.body) as Body;
    const problem = problemIn(body);
    if (problem !== undefined)
      return answers(
        400,
        JSON.stringify({
          type: 'error',
          error: { type: 'invalid_request_error', message: problem },
        }),
      )(response, received);
    const step = body.messages.filter(({ role }) => role === 'assistant').length;
    const results = (body.messages.at(-1)?.content ?? []).filter(
      ({ type }) => type === 'tool_result',
    );
    const said = steps[step]?.(results) ?? text(1, 'Done.');
    const hasCalls = said.some(
      (event) => 'content_block' in event && (event.content_block as Block).type === 'tool_use',
    );
    return streams(
      answer(
        [...thinking(0, 'Hm.', signatureOf(body, body.messages.length)), ...said],
        hasCalls ? 'tool_use' : 'end_turn',
      ),
    )(response, received);
  };
}

/** Calls of one step, each with an id and its arguments. */
export function calling(...calls: readonly (readonly [string, string, string])[]): Step {
  return () => calls.flatMap(([id, name, args], index) => call(index + 1, id, name, args));
}

/** Says again what the tools said. */
export function repeating(results: readonly Block[]): object[] {
  return text(1, results.map(({ content }) => String(content)).join(' & '));
}

function problemIn(body: Body): string | undefined {
  const { messages } = body;
  const ids = messages.flatMap(({ content }) => idsOf(content, 'tool_use'));
  if (new Set(ids).size < ids.length) return 'tool_use ids must be unique';
  if (messages.some(({ role }, index) => role === messages[index - 1]?.role))
    return 'two turns of one side';
  return messages.flatMap(({ role }, index) =>
    role === 'assistant' ? problemWith(body, index) : [],
  )[0];
}

function problemWith(body: Body, index: number): readonly string[] {
  const [content, next] = [index, index + 1].map((at) => body.messages[at]?.content ?? []) as [
    Block[],
    Block[],
  ];
  if (idsOf(content, 'tool_use').join() !== idsOf(next, 'tool_result').join())
    return ['a tool_use has no tool_result in the next turn'];
  const signatures = content.flatMap(({ type, signature }) =>
    type === 'thinking' ? [signature] : [],
  );
  return signatures.join() === signatureOf(body, index)
    ? []
    : ['a thought is missing, or something before it has changed'];
}

function idsOf(content: readonly Block[], type: string): readonly unknown[] {
  return content
    .filter((block) => block.type === type)
    .map(({ id, tool_use_id: resultOf }) => id ?? resultOf);
}

/** Binds a thought to what was said before it; marks for the cache say nothing. */
function signatureOf({ system, tools, messages }: Body, end: number): string {
  const before = JSON.stringify(
    { system, tools, messages: messages.slice(0, end) },
    (key, value: unknown) => (key === 'cache_control' ? undefined : value),
  );
  return createHash('sha256').update(before).digest('base64');
}
