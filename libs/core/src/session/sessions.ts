import { Injectable } from '@nestjs/common';
import {
  InvalidRequestError,
  type JsonValue,
  type LoopResult,
  type ToolCall,
  type ToolInvocationRecord,
  type ToolMessage,
  type ToolSpec,
} from '@toolloop/protocol';
import { CALL, type CallRequest, type CallResult, type WaitingCall } from '../contracts/session.js';
import type { NamedProfile } from '../contracts/stores.js';
import { RunOpener } from '../loop/run-opener.js';
import { RunPreparation } from '../loop/run-preparation.js';
import { toJson } from '../schema/canonical-json.js';
import { CallRun } from './call-run.js';

/** Makes calls without a model: each is a run of one call, so that it is told, kept and resumed like every run. */
@Injectable()
export class Sessions {
  constructor(
    private readonly runs: RunOpener,
    private readonly preparation: RunPreparation,
  ) {}

  /** Makes one call; see `ToolLoopService.call`. */
  async call<Actor>(request: CallRequest<Actor>, { name, profile }: NamedProfile): Promise<CallResult> {
    this.runs.assertOpen();
    CALL.assert(request, 'request', 'request');
    const call = callOf(request);
    const plan = this.preparation.prepareCall(request, profile);
    return CalledTool.from(await new CallRun({ ...plan, loop: name }, this.runs.services).make(call));
  }
}

/**
 * Returns a call as the pipeline takes it. The arguments are any JSON: what is wrong with them is told as it is to a model.
 *
 * @throws {InvalidRequestError} For a tool without a name, and for arguments that are no JSON.
 */
function callOf({ tool, args = {} }: { readonly tool: unknown; readonly args?: unknown }): ToolCall {
  if (typeof tool !== 'string' || tool === '') throw invalid("The call names no tool. Give its id as a string: 'crm__searchCustomers'.");
  return { toolCallId: 'call_1_0', name: tool, arguments: argumentText(args) };
}

function argumentText(args: unknown): string {
  try {
    const text: unknown = JSON.stringify(args);
    if (typeof text === 'string') return text;
  } catch {
    // A circle, or a number that JSON does not have.
  }
  throw invalid('The arguments of the call cannot be written as JSON. Give an object of texts, numbers, lists and such objects.');
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}

/** The result of a call as the application gets it. `content` is behind a getter, so that no serializer finds it. */
class CalledTool implements CallResult {
  readonly waiting?: WaitingCall;
  readonly #content: ToolMessage['content'] | undefined;

  private constructor(
    readonly runId: string,
    readonly record: ToolInvocationRecord,
    readonly injectedTools: readonly ToolSpec[],
    content: ToolMessage['content'] | undefined,
  ) {
    if (record.status === 'waiting') this.waiting = { runId, for: 'approval' };
    this.#content = content;
  }

  static from({ runId, toolCalls, injectedTools, messages }: LoopResult): CalledTool {
    const [record] = toolCalls;
    if (!record) throw new TypeError(`The run ${runId} has ended without a record of its call.`);
    const told = messages.find((message) => message.role === 'tool');
    return new CalledTool(runId, record, injectedTools, told?.content);
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
