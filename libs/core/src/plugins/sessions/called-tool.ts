import {
  InvalidRequestError,
  type JsonValue,
  type ToolCall,
  type ToolInvocationRecord,
  type ToolMessage,
  type ToolSpec,
  type WaitingFor,
} from '@toolloop/protocol';
import type { CallResult, WaitingCall } from '../../contracts/session.js';
import type { LoopState, PendingStep } from '../../loop/loop-state.js';
import { toJson } from '../../schema/canonical-json.js';

/**
 * The result of a call as the application gets it. `content` is behind a getter, so that no
 * serializer finds it.
 */
export class CalledTool implements CallResult {
  readonly waiting?: WaitingCall;
  readonly #content: ToolMessage['content'] | undefined;

  private constructor(
    readonly runId: string,
    readonly record: ToolInvocationRecord,
    readonly injectedTools: readonly ToolSpec[],
    content: ToolMessage['content'] | undefined,
    waitingFor?: WaitingFor,
  ) {
    if (waitingFor) this.waiting = { runId, for: waitingFor };
    this.#content = content;
  }

  /** @param injected the ids of the tools that this call brought; its toolset may have more */
  static from(
    runId: string,
    { records, pending, toolset, messages }: EndedCall,
    injected: readonly string[],
  ): CalledTool {
    const record = records[0] ?? pending?.outcomes[0]?.record;
    if (!record) throw new TypeError(`The run ${runId} has ended without a record of its call.`);
    const told = messages.at(-1);
    const content = told?.role === 'tool' ? told.content : undefined;
    const brought = toolset.injected.filter(({ id }) => injected.includes(id));
    return new CalledTool(runId, record, brought, content, pending?.outcomes[0]?.waitingFor);
  }

  get ui(): JsonValue | undefined {
    return this.record.result;
  }

  get content(): ToolMessage['content'] | undefined {
    return this.#content;
  }

  toJSON(): JsonValue {
    const { runId, record, ui, injectedTools, waiting } = this;
    return toJson({ runId, record, ui, injectedTools: injectedTools.map(({ id }) => id), waiting });
  }
}

/**
 * Returns a call as the pipeline takes it. The arguments are any JSON: what is wrong with them is
 * told as it is to a model.
 *
 * @throws {InvalidRequestError} For a tool without a name, and for arguments that are no JSON.
 */
export function callOf(tool: unknown, args: unknown = {}): ToolCall {
  if (typeof tool !== 'string' || tool === '')
    throw new InvalidRequestError(
      'invalid_request',
      "The call names no tool. Give its id as a string: 'crm__searchCustomers'.",
    );
  return { toolCallId: 'call_1_0', name: tool, arguments: argumentText(args) };
}

function argumentText(args: unknown): string {
  try {
    const text: unknown = JSON.stringify(args, assertJson);
    if (typeof text === 'string') return text;
  } catch {
    // A circle, or a number that JSON does not have.
  }
  const message =
    'The arguments of the call cannot be written as JSON. Give an object of texts, numbers, lists and such objects.';
  throw new InvalidRequestError('invalid_request', message);
}

/** JSON would write such a number as null, which a tool may take for a field left out. */
function assertJson(_name: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new TypeError(`${value} is no number of JSON.`);
  return value;
}

/** The part of a run's state that tells what became of its call. */
interface EndedCall extends Pick<LoopState, 'records' | 'toolset' | 'messages'> {
  readonly pending?: Pick<PendingStep, 'outcomes'> | undefined;
}
