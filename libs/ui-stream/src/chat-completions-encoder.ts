import type {
  FinishReason,
  JsonObject,
  LoopEvent,
  LoopEventOf,
  LoopResult,
} from '@toolloop/protocol';
import { COMMENT, type EventEncoder, frame, SSE_HEADERS } from './encoder.js';
import { type FailedEnd, readFailedEnd } from './failed-end.js';

/**
 * Writes events as a stream of OpenAI's chat completions. The tools of the server are not calls of
 * the client: they are shown in `toolloop` of a chunk, which clients pass on or ignore. A call that
 * the client is to make, and a call that waits for a person, end the answer as `tool_calls`.
 *
 * @example
 * const encoder = chatCompletionsEncoder({
 *   model: 'desk',
 *   created: Math.floor(Date.now() / 1000),
 * });
 */
export function chatCompletionsEncoder({
  model,
  created,
  includeUsage = false,
}: ChatCompletionsOptions): EventEncoder {
  let hasBegun = false;
  let calls = 0;
  const chunk = ({ runId }: LoopEvent, delta: object, finish: string | null = null): string =>
    frame({
      id: `chatcmpl-${runId}`,
      object: 'chat.completion.chunk',
      created,
      model,
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
  const end = (event: LoopEventOf<'run-end'>): string => {
    const failed = readUnanswered(event);
    if (failed) return frame({ error: { ...failed, type: 'server_error' } });
    const last = chunk(event, {}, calls > 0 ? 'tool_calls' : finishOf(event));
    const usage = {
      id: `chatcmpl-${event.runId}`,
      object: 'chat.completion.chunk',
      created,
      model,
      choices: [],
      usage: usageOf(event),
    };
    return includeUsage ? last + frame(usage) : last;
  };
  return {
    headers: SSE_HEADERS,
    keepAlive: COMMENT,
    encode: (event) => {
      const begin = hasBegun ? '' : chunk(event, { role: 'assistant', content: '' });
      hasBegun = true;
      if (event.type === 'run-end') return begin + end(event);
      const call = clientCallOf(event, calls);
      if (call) calls += 1;
      const delta = call ? { tool_calls: [call] } : deltaOf(event);
      return begin + (delta ? chunk(event, delta) : '');
    },
    end: () => 'data: [DONE]\n\n',
  };
}

/** Options of {@link chatCompletionsEncoder}. */
export interface ChatCompletionsOptions {
  /** The name of the model that the client asked for, which its answer repeats. */
  readonly model: string;
  /** The time of the answer in seconds since 1970. */
  readonly created: number;
  /** Sends a last chunk with the usage. @default false */
  readonly includeUsage?: boolean;
}

/** The words of the protocol for the end of an answer, where it is not `stop`. */
const OPENAI_FINISH: Readonly<Partial<Record<FinishReason, string>>> = {
  length: 'length',
  max_steps: 'length',
  budget: 'length',
  content_filter: 'content_filter',
};

function deltaOf(event: LoopEvent): object | undefined {
  if (event.type === 'text-delta') return { content: event.text };
  if (event.type === 'reasoning-delta') return { reasoning_content: event.text };
  return SHOWN.has(event.type) ? { toolloop: event } : undefined;
}

const SHOWN: ReadonlySet<LoopEvent['type']> = new Set([
  'tool-call',
  'tool-result',
  'tools-injected',
  'tools-removed',
  'warning',
  'citation',
]);

interface FunctionCall {
  readonly index: number;
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

/**
 * A call that the client is to make; a call that waits for a person is one as well, of the name
 * `approve_…`, whose result is the decision.
 */
export function clientCallOf(event: LoopEvent, index: number): FunctionCall | undefined {
  if (event.type === 'approval-request') {
    const { approvalId, tool, args, reason, preview } = event.approval;
    return functionCall({
      index,
      id: approvalId,
      name: `approve_${tool}`,
      args: { arguments: args, reason: preview?.sentence ?? reason },
    });
  }
  if (event.type !== 'pending-request') return undefined;
  if (event.kind === 'client')
    return functionCall({
      index,
      id: event.request.pendingId,
      name: event.request.tool,
      args: event.request.args,
    });
  if (event.kind === 'rehearsal') {
    const { rehearsalId, calls } = event.request;
    const changes = calls.map(({ tool, args, preview }) => ({
      tool,
      args,
      does: preview?.sentence ?? null,
    }));
    return functionCall({ index, id: rehearsalId, name: 'approve_rehearsal', args: { changes } });
  }
  const { questionId, question } = event.request;
  return functionCall({ index, id: questionId, name: 'answer_question', args: { question } });
}

function functionCall({
  index,
  id,
  name,
  args,
}: Pick<FunctionCall, 'index' | 'id'> & {
  readonly name: string;
  readonly args: JsonObject;
}): FunctionCall {
  return {
    index,
    id,
    type: 'function',
    function: { name: name.slice(0, MOST_NAME_CHARACTERS), arguments: JSON.stringify(args) },
  };
}

const MOST_NAME_CHARACTERS = 64;

/**
 * Reads the end of a run that has no answer: it failed, or it was stopped, for which the protocol
 * has no reason to finish.
 */
function readUnanswered(event: LoopEventOf<'run-end'>): FailedEnd | undefined {
  const failed = readFailedEnd(event);
  if (failed || event.finishReason !== 'aborted') return failed;
  return { message: 'The run was stopped.', code: 'aborted' };
}

export function usageOf({
  usage: { inputTokens, outputTokens },
}: Pick<LoopEventOf<'run-end'>, 'usage'> | Pick<LoopResult, 'usage'>): object {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
}

export function finishOf(end: LoopEventOf<'run-end'> | undefined): string {
  return (end && OPENAI_FINISH[end.finishReason]) ?? 'stop';
}
